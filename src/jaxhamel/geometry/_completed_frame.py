"""A frame from constraint one-forms alone: differentials of functions, and the rows of the independent velocities."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Frame
from jaxhamel.geometry._checks import check_independent
from jaxhamel.geometry._space import AbstractSpace


def differential(
    function: Callable[[Configuration], Float[Array, " h"]],
    q: Configuration,
    space: AbstractSpace,
) -> Float[Array, "h n"]:
    """G_ir = e_r(g_i), the derivative of g along each left-invariant direction: ġ = G(q) v for q̇ = rate(q, v).

    On R^n this is the Jacobian ∂g/∂q; on a group it has n columns although q has more numbers.

    **Arguments:** `function`: `function(q)` → g `(h,)`, for example the closed loops of a linkage; `q`: a configuration of
    `space`.

    **Returns:** G `(h, n)`: h one-forms, in the components of v.

    **Raises:** `ValueError` where `function(q)` is not `(h,)`.

    Müller 2021, section 2: holonomic constraints g(q) = 0 enter the frame as their differentials.
    """
    _checks.check_callable("function", function, "q -> g(q), an array (h,)")
    space.check(q, "q")

    def along(e):
        return jax.jvp(function, (q,), (space.rate(q, e),))[1]

    _checks.check_shape("function(q)", jax.eval_shape(function, q), ("h",))
    dtype = jnp.result_type(*jax.tree.leaves(q))
    return jax.vmap(along, out_axes=1)(jnp.eye(space.dim, dtype=dtype))


def completed_frame(
    one_forms: Float[Array, "m n"], independent: Sequence[int] | Float[Array, "k n"]
) -> Frame:
    """A = [C; S]: the constraint one-forms C first, then S, whose rows are the independent quasi-velocities u = S v.

    With indices, the independent quasi-velocities are those components of v. The other components follow from C v = 0, so
    A is regular exactly where C has an invertible block in their columns.

    ```python
    class FourBar(jaxhamel.System):
        space, n_constraints = jaxhamel.Euclidean(3), 2

        def holonomic(self, t, q): ...  # two numbers, zero where the loop is closed

        def frame(self, t, q):  # u = (q̇_0,): the angle of the crank
            loop = jaxhamel.geometry.differential(lambda q: self.holonomic(t, q), q, self.space)
            return jaxhamel.geometry.completed_frame(loop, independent=[0])
    ```

    **Arguments:**

    - `one_forms`: C `(m, n)`, independent rows.
    - `independent`: k = n − m indices of components of v, or S `(k, n)`.

    **Returns:** A `(n, n)`.

    **Raises:** `ValueError` for another number of rows than n − m, and for indices that are repeated or outside 0 … n − 1.
    """
    C = jnp.asarray(one_forms)
    check_independent("independent", independent, C.shape)
    rows = jnp.asarray(independent)
    if rows.ndim == 1:
        rows = jnp.eye(C.shape[1], dtype=C.dtype)[rows.astype(int)]
    return jnp.concatenate([C, rows.astype(C.dtype)])
