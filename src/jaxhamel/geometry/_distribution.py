"""The distribution of velocities that constraint one-forms allow: its integrability and its growth.

    D = { v : A_α(q) v = 0 }      D¹ = D ,   D^{i+1} = D^i + [D, D^i]
    (∂A^α_a/∂q^b − ∂A^α_b/∂q^a) X^a_I X^b_J ≡ 0      (Müller 2021, eq. 25, 29; Frobenius)

The coefficients on the independent directions X_I are the Hamel coefficients γ^α_IJ. They vanish identically if and only
if the constraints are holonomic. If they do not, brackets of more than two fields decide which configurations can be
reached: the growth vector (dim D¹, dim D², …) ends with the dimension of the involutive closure. If it is n, any
configuration can be reached (Chow and Rashevskii). If it is a smaller d, and another level adds nothing at q nor nearby,
n − d combinations of the constraints are integrable. If ranks still grow at the last level, nothing is decided.

All ranks are numerical, at one configuration and two neighbours; the result is assumed to hold around them, as it does
for analytic constraints. To make the ranks meaningful, the fields are a basis of D that is orthonormal at q and fixed by
the constraints alone, X(q') = [A(q'); N]⁻¹ [0; 1] with N an orthonormal kernel of A(q): no choice of quasi-velocities or
scale of the constraint forms enters, only the units of the velocities.
"""

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Hamel, Velocity
from jaxhamel.geometry._checks import check_independent_rows
from jaxhamel.geometry._growth import affordable_depth, growths
from jaxhamel.geometry._hamel import hamel_coefficients, space_of
from jaxhamel.geometry._space import AbstractSpace

Constraints = Callable[[Configuration], Float[Array, "m n"]]
Fields = Callable[[Configuration], Float[Array, "n f"]]


class Distribution(NamedTuple):
    """The distribution of allowed velocities at a configuration; `print` describes it in words.

    - `dimension`: n, the dimension of the space; `constraints`: m, the number of constraints.
    - `growth`: ranks of D¹ ⊂ D² ⊂ … at q, up to the last level computed; it ends earlier where a rank is n.
    - `nearby`: the ranks at two neighbouring configurations, the larger ones if they differ; a neighbour is
      regular even if q is not.
    - `curvature`: the largest |γ^α_IJ| of `frobenius` at q, for orthonormal rows and directions.
    - `tolerance`: singular values below it count as zero.

    Unless `decided`, both `holonomic` and `completely_nonholonomic` are false.
    """

    dimension: int
    constraints: int
    growth: tuple[int, ...]
    nearby: tuple[int, ...]
    curvature: float
    tolerance: float

    @property
    def closure(self) -> int:
        """The dimension that the brackets span at q: that of the involutive closure if `decided`, else a lower bound."""
        return self.growth[-1]

    @property
    def regular(self) -> bool:
        """Whether the ranks at q are the same as at neighbouring configurations."""
        return self.growth == self.nearby

    @property
    def decided(self) -> bool:
        """Whether further brackets cannot change the result.

        This holds if every direction is spanned at q, or if the last level added no direction, neither at q nor at points
        nearby.
        """
        if self.closure == self.dimension or self.closure == 0:
            return True
        return self.regular and self.growth[-2:] == 2 * (self.closure,)

    @property
    def holonomic(self) -> bool:
        """Whether the constraints are integrable at q and nearby: the γ^α_IJ of `frobenius` vanish."""
        return self.decided and max(self.closure, self.nearby[-1]) == self.growth[0]

    @property
    def completely_nonholonomic(self) -> bool:
        """Whether brackets span every direction at q: then no combination of the constraints is integrable."""
        return self.closure == self.dimension and self.constraints > 0

    def __str__(self) -> str:
        growth = ", ".join(map(str, self.growth))
        text = f"{_verdict(self)}; growth ({growth}) in dimension {self.dimension}"
        if not self.regular:
            text += f"; singular here, growth ({', '.join(map(str, self.nearby))}) nearby"
        return text


def _verdict(d: Distribution) -> str:
    if d.constraints == 0:
        return "unconstrained"
    if not d.decided:
        return f"not decided at this depth: brackets of up to {len(d.growth)} fields span {d.closure} directions"
    if d.holonomic:
        return f"holonomic: all {d.constraints} constraints integrate"
    if d.completely_nonholonomic:
        return "completely nonholonomic: every configuration can be reached"
    integrals = d.dimension - d.closure
    return (
        f"partially nonholonomic: {integrals} of {d.constraints} constraints integrate, "
        f"motion stays on surfaces of dimension {d.closure}"
    )


def lie_bracket(
    x: Callable[[Configuration], Velocity],
    y: Callable[[Configuration], Velocity],
    q: Configuration,
    space: AbstractSpace | None = None,
) -> Velocity:
    """The Lie bracket [X, Y]^c = X(Y^c) − Y(X^c) + c^c_ab X^a Y^b of two vector fields, in left-trivialised components.

    **Arguments:** `x`, `y`: fields q → `(n,)`; `q`: configuration of `space`, default `Euclidean(n)`.

    **Returns:** `(n,)`. Of the fields of a frame, [B_a, B_b] = γ^c_ab B_c (Müller 2021, eq. 18).
    """

    def columns(field):
        return lambda q: field(q)[:, None]

    space = space_of(q, space)
    return _brackets(columns(x), columns(y), space)(q)[:, 0]


def frobenius(
    constraints: Constraints, q: Configuration, space: AbstractSpace | None = None
) -> Hamel:
    """γ^α_IJ = (∂A^α_a/∂q^b − ∂A^α_b/∂q^a) X^a_I X^b_J, zero everywhere for holonomic constraints.

    **Arguments:**

    - `constraints`: `constraints(q)` → the rows A_α `(m, n)` of A_α v = 0; of a system's frame the
      first m rows.
    - `q`: configuration of `space`, default `Euclidean(n)`.

    **Returns:** γ `(m, k, k)`, on an orthonormal basis X of the allowed velocities. Another basis
    of them, B_I = X T, has Tᵀ γ T: the block γ^α_IJ of `hamel_coefficients` of a whole frame.

    **Raises:** `ValueError` for a wrong shape of q or of the rows, or dependent constraints.

    Müller 2021, eq. (25), (29). On a group the structure constants add A^α_d c^d_ab X^a_I X^b_J.
    """
    space = space_of(q, space)
    rows, kernel = _rows_and_kernel(constraints, q, space)
    m = rows.shape[0]

    def frame(q):
        return jnp.concatenate([constraints(q), kernel])

    return jax.jit(lambda q: hamel_coefficients(frame, q, space)[:m, m:, m:])(q)


def distribution(
    constraints: Constraints,
    q: Configuration,
    space: AbstractSpace | None = None,
    *,
    depth: int | None = None,
    tolerance: float | None = None,
) -> Distribution:
    """Growth vector of D = ker A_α(q), and its class: holonomic, completely or partially nonholonomic.

    ```python
    print(jaxhamel.geometry.distribution(lambda q: system.frame(0.0, q)[:m], q, system.space))
    ```

    **Arguments:**

    - `constraints`, `q`, `space`: as for `frobenius`.
    - `depth`: the largest number of fields in a bracket; the computation stops at a smaller number as soon
      as the class is decided. The default is m + 1, limited to the depth that takes some seconds (7, less in
      high dimensions). Depth m + 1 decides wherever the distribution is regular, since each level but the
      last adds a direction; where `regular` is false more may be needed. Each level doubles the time.
    - `tolerance`: singular values below it count as zero; default √eps of q's precision. They are the
      singular values of the matrix whose columns are all brackets, each scaled to a length of at most 1, for
      an orthonormal basis of D. A tolerance of 1e-8 thus ignores directions that turn by less than 1e-8 rad
      as q moves by one unit: choose units in which the system has a size of about one, or pass a tolerance
      that fits the units.

    **Returns:** a `Distribution`.

    **Raises:** as `frobenius`.

    Müller 2021, remarks 4 to 6. The function cannot be used under jit, because ranks depend on values.
    """
    space = space_of(q, space)
    rows, _ = _rows_and_kernel(constraints, q, space)
    m, n = rows.shape
    depth = affordable_depth(n, m + 1) if depth is None else depth
    _checks.check_positive("depth", depth, "1 takes no bracket, 2 those of two fields.")
    if tolerance is None:
        tolerance = float(np.sqrt(jnp.finfo(rows.dtype).eps))
    curvature = _size_of(_orthonormal_coefficients(constraints, q, space))
    points = [q, *_neighbours(q, space)]
    kernels = [np.asarray(_rows_and_kernel(constraints, p, space)[1]) for p in points]
    for growth, *others in islice(growths(constraints, points, kernels, space, tolerance), depth):
        nearby = max(others, key=lambda g: (g[-1], g))
        found = Distribution(n, m, growth, nearby, curvature, tolerance)
        if found.decided:
            break
    return found


def _orthonormal_coefficients(
    constraints: Constraints, q: Configuration, space: AbstractSpace
) -> np.ndarray:
    """γ of `frobenius` for constraint rows that are made orthonormal at q, so that it does not depend on their scale."""
    rows, _ = _rows_and_kernel(constraints, q, space)
    triangle = np.linalg.qr(np.asarray(rows).T)[1]
    gamma = np.asarray(frobenius(constraints, q, space))
    return np.einsum("ab,bij->aij", np.linalg.inv(triangle.T), gamma)


def _size_of(array: np.ndarray) -> float:
    return float(np.max(np.abs(array), initial=0.0))


def _rows_and_kernel(constraints, q, space) -> tuple[Array, Array]:
    """A_α(q) `(m, n)` and an orthonormal basis of its kernel, `(k, n)`."""
    space.check(q, "q")
    _checks.check_callable("constraints", constraints, "q -> (m, n)")
    rows = constraints(q)
    _checks.check_shape("constraints(q)", rows, ("m", space.dim), "One row a constraint one-form.")
    check_independent_rows("constraints(q)", rows)
    right = np.linalg.svd(np.asarray(rows))[2] if rows.shape[0] else np.eye(space.dim)
    return rows, jnp.asarray(right[rows.shape[0] :], dtype=rows.dtype)


def _neighbours(q: Configuration, space: AbstractSpace) -> list[Configuration]:
    """Two generic configurations some hundredths away from q, which are unlikely to share a symmetry of q."""
    dtype = jnp.result_type(*jax.tree.leaves(q))
    angles = jnp.arange(1, space.dim + 1, dtype=dtype) ** 2
    return [space.retract(q, 0.05 * jnp.cos(angles * turn)) for turn in (1.0, 1.7)]


def _brackets(x: Fields, y: Fields, space: AbstractSpace) -> Fields:
    """The fields [X_i, Y_j] for all pairs of two families of fields, as columns side by side."""

    def along(fields, q, v):
        return jax.jvp(fields, (q,), (space.rate(q, v),))[1]

    def bracket(q):
        X, Y = x(q), y(q)
        by_x = jax.vmap(lambda v: along(y, q, v), in_axes=1)(X)  # [i, :, j]
        by_y = jax.vmap(lambda v: along(x, q, v), in_axes=1)(Y)  # [j, :, i]
        c = space.structure_constants(X.dtype)
        twist = jnp.einsum("cab,ai,bj->icj", c, X, Y, precision=jax.lax.Precision.HIGHEST)
        result = by_x - jnp.transpose(by_y, (2, 1, 0)) + twist
        return jnp.moveaxis(result, 1, 0).reshape(space.dim, -1)

    return bracket
