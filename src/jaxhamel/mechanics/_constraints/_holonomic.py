"""Holonomic constraints g(t, q) = 0 (closed loops, rods), whose rates are combinations of the frame's constraint one-forms.

The one-forms imply ġ = 0 at every q, so g is constant along the exact motion; with the steps of an integrator it drifts
slowly.
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, Scalar, Time
from jaxhamel.geometry import differential
from jaxhamel.mechanics._checks._constraints import (
    check_has_loops,
    check_loop_rates,
    check_loops_close,
    check_metric,
)
from jaxhamel.mechanics._checks._returns import check_returns, returns_of
from jaxhamel.mechanics._controls._kinematic import inner
from jaxhamel.mechanics._controls._moving_parts import has_loops
from jaxhamel.mechanics._equations._euler_lagrange import mass_matrix
from jaxhamel.mechanics._kinematics import InverseFrame, prepare
from jaxhamel.mechanics._small_solve import symmetric_solve
from jaxhamel.mechanics._system import System, overrides

Metric = Literal["identity", "mass"]


def close_loops(
    system: System,
    t: Time,
    q: Configuration,
    *,
    iterations: int = 20,
    metric: Metric = "identity",
    control: Control = None,
) -> Configuration:
    """The configuration near q with g(t, q) = 0, found by Gauss–Newton steps δ of least norm |δ|² = δ·W δ:

        q ← q·exp(δ) ,   δ = −W⁻¹Gᵀ (G W⁻¹ Gᵀ)⁻¹ g ,   G_r = e_r(g) .

    **Arguments:**

    - `system`: defines `holonomic`; `t`: time [s]; `q`: a configuration near the solution.
    - `iterations`: the number of steps; convergence is quadratic.
    - `metric`: `"identity"`, W = 1 in the components of v; or `"mass"`, W = M = ∂²L/∂v∂v at v = 0. The step in the mass
      metric does not depend on units or coordinates, and it has no momentum along a symmetry of both the kinetic energy and
      g (two masses on a rod keep their centre of mass). M has to be regular.
    - `control`: needed for `"mass"` if the kinetic energy depends on it (`prescribed_motion`).

    **Returns:** a configuration. The constraints may be dependent, as those of a planar linkage in space are: eps^(2/3)
    times the trace of G W⁻¹ Gᵀ is added to its diagonal.

    **Raises:** `TypeError` for a system without `holonomic`; `ValueError` for another metric, or if g is not zero after
    these steps.

    Source: Hairer, Lubich and Wanner, Geometric Numerical Integration, IV.4.
    """
    check_has_loops(system, has_loops(system))
    check_metric(metric)
    t, q, _, control = prepare(q, t=t, control=control)
    system.space.check(q, "q")
    _check_returned(inner(system), t, q)
    closed = _close(system, t, q, iterations, metric, control)
    check_closed(system, t, closed, 0.5)
    return closed


def _check_returned(system, t, q) -> None:
    dtype = jnp.result_type(*jax.tree.leaves(q))
    check_returns(system, returns_of(system, ["holonomic"], t, q, None, None), dtype)


def check_closed(system: System, t: Scalar, q: Configuration, power: float = 0.25) -> None:
    """Checks that g(t, q) = 0 up to eps^power, in g's own unit, for concrete values.

    **Raises:** `ValueError` with advice on how to find a nearby configuration.
    """
    if has_loops(system):
        check_loops_close(system, t, _checks.computed(system.holonomic, t, q), power)


@compiled
def _close(system, t, q, iterations, metric, control):
    def step(_, q):
        return closing_step(system, t, q, metric, control)

    return jax.lax.fori_loop(0, iterations, step, q)


def closing_step(
    system: System, t: Scalar, q: Configuration, metric: Metric, control: Control
) -> Configuration:
    """The configuration after one Gauss–Newton step towards g(t, q) = 0; the arguments are not checked."""
    value, gradient = loop_values(system, t, q)
    directions = gradient.T
    if metric == "mass":
        directions = symmetric_solve(mass_matrix(inner(system), t, q, control), directions)
    square = gradient @ directions
    more = jnp.finfo(square.dtype).eps ** (2 / 3) * jnp.trace(square)
    regular = square + more * jnp.eye(len(square), dtype=square.dtype)
    return system.space.retract(q, -(directions @ symmetric_solve(regular, value)))


def loop_values(
    system: System, t: Scalar, q: Configuration
) -> tuple[Float[Array, " h"], Float[Array, "h n"]]:
    """g(t, q), and its derivatives G_r = e_r(g) along each of the n directions."""

    def values(q):
        return system.holonomic(t, q)

    return values(q), differential(values, q, system.space)


def check_loops(system: System, t: Scalar, q: Configuration) -> None:
    """Checks that the constraint one-forms imply ġ = 0; traced values are not checked.

    **Raises:** `ValueError` that names `holonomic`.
    """
    if not overrides(system, "holonomic"):
        return
    found = _checks.computed(_loops_and_rates, system, t, q)
    if found is not None:
        value, *rates = found
        _checks.check_finite("holonomic(t, q)", value)
        check_loop_rates(system, t, *rates)


@compiled
def _loops_and_rates(system, t, q):
    """g `(h,)`; G `(h, n)`; and the rates ġ `(h, k + 1)`: G v for v along each free direction, then G v + ∂g/∂t
    for u = 0.
    """
    value, gradient = loop_values(system, t, q)
    inverse = InverseFrame.at(system, t, q)
    at_rest = inverse.velocity(t, q, jnp.zeros(system.space.dim, gradient.dtype))
    _, explicit = jax.jvp(lambda t: system.holonomic(t, q), (t,), (jnp.ones_like(t),))
    last = gradient @ at_rest + explicit
    return value, gradient, jnp.column_stack([gradient @ inverse.independent(t, q), last])
