"""Reconstruction of the motion along the fibre, and the phase that a loop in shape space leaves.

    ġ = g ξ  (left)   or   ġ = ξ g  (right) ,     ξ = −A(r) ṙ      (Müller 2023, eq. 4.10)
    η̇ = dexp⁻¹(∓η) ξ ,   g = g_0 exp(η)  or  exp(η) g_0      (eq. 4.11)

The second line, solved by the classical Runge–Kutta step with η = 0 at its start, is the method
of Munthe-Kaas (RKMK, order 4): g stays on its group to rounding. It is part of geometry, since the
phase depends on the curve alone and not on time; `jaxhamel.simulate` integrates equations of motion.

A loop's geometric phase is g at its end, from the identity. For a small loop about r̄

    log g = ½ B^α_IJ(r̄) ∮ x^I dx^J + O(ε³) ,      x = r − r̄ ,

and on an abelian group exactly log g = ∫B, by Stokes' theorem. The sign is + with Müller's B of
(4.3), B_IJ = ∂_J A_I − ∂_I A_J + c(A_I, A_J); his (4.8) prints −∫B.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Scalar, Velocity
from jaxhamel.geometry._checks import check_loop
from jaxhamel.geometry._connection import Connection, ShapeCoordinates, curvature, fibre_velocity
from jaxhamel.geometry._space import AbstractSpace

Path = Callable[[Scalar], ShapeCoordinates]


def reconstruct(
    connection: Connection,
    path: Path,
    times: Float[Array, " t"],
    space: AbstractSpace,
    start: Configuration | None = None,
    *,
    right: bool = False,
) -> Configuration:
    """g(t) of ġ = −g A(r) ṙ along the shapes r(t), one step of order 4 from each time to the next.

    **Arguments:**

    - `connection`: `connection(r)` → A `(dim, m)`.
    - `path`: `path(t)` → r `(m,)`, smooth between the times (put corners at them).
    - `times`: `(t,)`, in order; the parameter may be time [s] or anything else, for the result
      depends on the curve alone.
    - `space`: the structure group G; `start`: g at the first time, default the identity.
    - `right`: solve ġ = −A(r) ṙ g instead.

    **Returns:** g at each time, a configuration of `space` with a leading axis of length t.

    **Raises:** `TypeError` when `path` or `connection` is no function, `ValueError` when `start`
    is no configuration of `space`.

    Müller 2023, eq. (4.10), (4.11).
    """
    _checks.check_callable("connection", connection, "r -> A(r)")
    _checks.check_callable("path", path, "t -> r(t)")

    def velocity(t: Scalar, g: Configuration) -> Velocity:
        r, rdot = jax.jvp(path, (t,), (jnp.ones_like(t),))
        return fibre_velocity(connection(r), rdot)

    return group_motion(velocity, times, space, start, right=right)


def group_motion(
    velocity: Callable[[Scalar, Configuration], Velocity],
    times: Float[Array, " t"],
    space: AbstractSpace,
    start: Configuration | None = None,
    *,
    right: bool = False,
) -> Configuration:
    """g(t) of ġ = g ξ(t, g), one step of order 4 from each time to the next.

    **Arguments:**

    - `velocity`: `velocity(t, g)` → ξ `(dim,)`: the body velocity g⁻¹ġ; with `right` the spatial one, ġ = ξ g.
    - `times`: `(t,)`, in order; `space`: G; `start`: g at the first time, default the identity.

    **Returns:** g at each time, a configuration of `space` with a leading axis of length t.

    **Raises:** `TypeError` when `velocity` is no function, `ValueError` when `start` is no configuration of `space`.

    Müller 2023, eq. (4.10), solved as (4.11), and (6.5), where ξ depends on g.
    """
    _checks.check_callable("velocity", velocity, "(t, g) -> xi")
    start = space.identity(times.dtype) if start is None else start
    space.check(start, "start")

    def step(g, ends):
        g = _after_step(g, _increment(velocity, g, ends, space, right), space, right)
        return g, g

    _, later = jax.lax.scan(step, start, jnp.stack([times[:-1], times[1:]], axis=1))
    return jax.tree.map(lambda g, gs: jnp.concatenate([g[None], gs]), start, later)


def _increment(
    velocity: Callable[..., Any], g: Configuration, ends, space: AbstractSpace, right: bool
):
    """η such that the step from g ends at g exp(η) (`right`: exp(η) g), by one step of order 4 of η̇ = dexp⁻¹(∓η) ξ."""
    t, h = ends[0], ends[1] - ends[0]
    zero = jnp.zeros(space.dim, t.dtype)
    nodes = jnp.asarray([0.0, 0.5, 0.5, 1.0], t.dtype)
    weights = jnp.asarray([1.0, 2.0, 2.0, 1.0], t.dtype) / 6

    def stage(carry, node):  # the stages are a loop, so that the velocity is compiled once
        k, increment = carry
        c, weight = node
        eta = c * h * k
        k = _slope(velocity(t + c * h, _after_step(g, eta, space, right)), eta, space, right)
        return (k, increment + weight * h * k), None

    return jax.lax.scan(stage, (zero, zero), (nodes, weights))[0][1]


def _after_step(
    g: Configuration, eta: Velocity, space: AbstractSpace, right: bool
) -> Configuration:
    step = space.exp(eta)
    return space.compose(step, g) if right else space.compose(g, step)


def _slope(xi: Velocity, eta: Velocity, space: AbstractSpace, right: bool) -> Velocity:
    """η̇ = dexp⁻¹(∓η) ξ."""
    matrix = space.dexpinv(eta if right else -eta)
    return jnp.matmul(matrix, xi, precision=jax.lax.Precision.HIGHEST)


def geometric_phase(
    connection: Connection,
    loop: Path,
    space: AbstractSpace,
    *,
    steps: int = 200,
    right: bool = False,
    dtype: Any = None,
) -> Configuration:
    """The holonomy of a loop in shape space: g at its end, for ġ = −g A(r) ṙ with g = 1 at its start.

    **Arguments:**

    - `connection`: `connection(r)` → A `(dim, m)`; `space`: the structure group G.
    - `loop`: `loop(x)` → r `(m,)` for x in [0, 1], loop(1) = loop(0).
    - `steps`: equal steps of order 4; the error falls like steps⁻⁴.
    - `right`: for a right connection, ġ = −A(r) ṙ g.
    - `dtype`: of x, default JAX's float.

    **Raises:** `ValueError` for a number of steps that is not positive, a path that does not close, a connection of
    another shape.

    **Returns:** g, a configuration of `space`. Started at g_0 the body ends at g_0 g (left) or
    g g_0 (right). Another starting point on the loop conjugates g.

    Müller 2023, eq. (4.8), first form, solved on the group as (4.11).
    """
    _checks.check_count("steps", steps)
    _checks.check_callable("connection", connection, "r -> A(r)")
    _checks.check_callable("loop", loop, "x -> r(x)")
    ends = [loop(x) for x in jnp.linspace(0, 1, 2, dtype=dtype)]
    check_loop(*ends)
    A = jax.eval_shape(connection, ends[0])
    _checks.check_shape(
        "connection(r)", A, (space.dim, *ends[0].shape), "One row a dimension of G."
    )
    times = jnp.linspace(0, 1, steps + 1, dtype=dtype)
    path = reconstruct(connection, loop, times, space, right=right)
    return jax.tree.map(lambda g: g[-1], path)


def loop_area(loop: Path, *, samples: int = 200, dtype: Any = None) -> Float[Array, "m m"]:
    """a^IJ = ∮ x^I dx^J, antisymmetric: a^12 is the area in the plane (r^1, r^2), positive when
    the loop turns from axis 1 to axis 2.

    **Arguments:** `loop`: as for `geometric_phase`; `samples`: of the trapezoid rule, which
    converges faster than any power on a smooth closed loop (an ellipse takes four); `dtype`: of x.

    **Returns:** a `(m, m)`.
    """
    _, x, rate = _sampled(loop, samples, dtype)
    moment = jnp.einsum("ti,tj->ij", x, rate, precision=jax.lax.Precision.HIGHEST) / samples
    return (moment - moment.T) / 2


def small_loop_phase(
    connection: Connection,
    loop: Path,
    space: AbstractSpace,
    *,
    samples: int = 200,
    right: bool = False,
    dtype: Any = None,
) -> Velocity:
    """log g ≈ ½ B^α_IJ(r̄) ∮ x^I dx^J: the phase of a small loop, by the curvature at its mean.

    **Arguments:** `connection`, `loop`, `space`, `right` as for `geometric_phase`; `samples`, `dtype` as for `loop_area`.

    **Returns:** `(dim,)`, in the Lie algebra; error O(ε³) for a loop of size ε whose area is
    O(ε²).

    Müller 2023, eq. (4.8), second form, with the sign that belongs to B of (4.3): plus.
    """
    centre, _, _ = _sampled(loop, samples, dtype)
    B = curvature(connection, centre, space, right=right)
    area = loop_area(loop, samples=samples, dtype=dtype)
    return jnp.einsum("aij,ij->a", B, area, precision=jax.lax.Precision.HIGHEST) / 2


def _sampled(loop: Path, samples: int, dtype) -> tuple[Array, Array, Array]:
    """The mean r̄ of a loop r, and x = r − r̄ and the derivative r′ at equally spaced parameters."""
    _checks.check_positive("samples", samples, "It is the number of points on the loop.")
    parameters = jnp.arange(samples, dtype=jnp.result_type(float if dtype is None else dtype))

    def push(x):
        return jax.jvp(loop, (x,), (jnp.ones_like(x),))

    r, rate = jax.vmap(push)(parameters / samples)
    centre = jnp.mean(r, axis=0)
    return centre, r - centre[None], rate
