r"""The motion of a body under a gait: a closed curve in shape space, traversed repeatedly.

    ξ = −A(r) ṙ + Γ(r) p ,    ṗ = f(r, ṙ, p) ,    ġ = g ξ

Purely kinematic systems (as many constraints as group directions) and floating ones at momentum zero have only the first
term of ξ; the displacement is then the geometric phase of the loop. Mixed systems, whose constraints admit a momentum (the
snakeboard, the sleigh with a rotor), have all terms.

Source: Bloch, Krishnaprasad, Marsden and Murray 1996, eq. (5.12) and section 7, for ξ and ṗ; Müller
2023, eq. (4.10), for the sign of A; Shammas, Choset and Rizzi 2007 for mixed systems.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Scalar
from jaxhamel.control._checks._gaits import check_mechanism
from jaxhamel.geometry import AbstractSpace, fibre_velocity
from jaxhamel.simulate._solvers._runge_kutta import RK4, looped


def gait_motion(
    mechanism: Any,
    curve: Callable[..., Any],
    times: Float[Array, " T"],
    space: AbstractSpace,
    momentum: Float[Array, " k"] | None = None,
) -> tuple[Configuration, Float[Array, "T k"]]:
    """The displacement g and the momentum p along a curve of shapes, by one RK4 step from each time to the next.

    **Arguments:**

    - `mechanism`: `connection(r)` → A `(dim, m)`, for ξ = −A ṙ; or an object with the methods
      `connection(r)`, `momentum_velocity(r)` → Γ `(dim, k)` and `momentum_rate(r, rdot, p)` → ṗ `(k,)`,
      such as `systems.CoupledSnakeboard`.
    - `curve`: `curve(t)` → r `(m,)`, differentiable; `times`: `(T,)`, increasing [s].
    - `space`: the group G of g; `momentum`: p at the first time, default zero.

    **Returns:** (g, p) at the times: g begins at the identity; p is `(T, k)`, with k = 0 for a mechanism without momentum.

    **Raises:** `TypeError` for a mechanism that is neither a connection nor such an object.
    """
    check_mechanism(mechanism)
    rates = _rates_with_momentum if hasattr(mechanism, "momentum_rate") else _rates
    if momentum is None:
        momentum = _momentum_at_rest(mechanism, curve, times)

    def step(state, ends):
        g, p = state

        def slope(t, y):
            return rates(mechanism, curve, space, t, *y)

        start = jnp.zeros(space.dim, p.dtype), p
        eta, p = looped(slope, RK4, ends[0], ends[1] - ends[0], start)[0]
        state = space.retract(g, eta), p
        return state, state

    start = (space.identity(times.dtype), momentum)
    _, later = jax.lax.scan(step, start, jnp.stack([times[:-1], times[1:]], axis=1))
    return jax.tree.map(lambda x, xs: jnp.concatenate([x[None], xs]), start, later)


def gait_displacement(
    mechanism: Any,
    curve: Callable[..., Any],
    space: AbstractSpace,
    *,
    period: float | Scalar = 1.0,
    cycles: int = 1,
    steps: int = 60,
) -> Configuration:
    """The displacement g after `cycles` cycles of a gait, from the identity and from rest (momentum zero).

    **Arguments:** `mechanism`, `curve`, `space`: as for `gait_motion`; `period`: the curve's period [s]; `steps`: number of
    integration steps (order 4) in each cycle.

    **Returns:** g. Without friction it does not depend on the period, since ξ is proportional to the speed along the curve;
    with momentum it depends on how the speed varies within a period.
    """
    for name, value in (("cycles", cycles), ("steps", steps), ("period", period)):
        _checks.check_positive(name, value, "Give a number larger than zero.")
    dtype = jax.eval_shape(curve, jnp.zeros(())).dtype
    times = jnp.linspace(0, cycles, cycles * steps + 1, dtype=dtype) * jnp.asarray(period, dtype)
    g, _ = gait_motion(mechanism, curve, times, space)
    return jax.tree.map(lambda x: x[-1], g)


def _momentum_at_rest(
    mechanism: Any, curve: Callable[..., Any], times: Float[Array, " T"]
) -> Float[Array, " k"]:
    """Zeros `(k,)`, the momentum of a mechanism at rest; `(0,)` for a mechanism without momentum."""
    if not hasattr(mechanism, "momentum_rate"):
        return jnp.zeros(0, times.dtype)
    Gamma = jax.eval_shape(lambda t: mechanism.momentum_velocity(curve(t)), times[0])
    return jnp.zeros(Gamma.shape[1], times.dtype)


def _rates(mechanism, curve, space, t, eta, p):
    """(η̇, ṗ) of g = g_0 exp(η) without momentum: η̇ = dexp⁻¹(−η) ξ; p and ṗ are empty."""
    r, rdot = jax.jvp(curve, (t,), (jnp.ones_like(t),))
    connection = getattr(mechanism, "connection", mechanism)
    return space.dexpinv(-eta) @ fibre_velocity(connection(r), rdot), p


def _rates_with_momentum(mechanism, curve, space, t, eta, p):
    """(η̇, ṗ) of g = g_0 exp(η) with momentum: η̇ = dexp⁻¹(−η) ξ."""
    r, rdot = jax.jvp(curve, (t,), (jnp.ones_like(t),))
    xi = fibre_velocity(mechanism.connection(r), rdot) + mechanism.momentum_velocity(r) @ p
    return space.dexpinv(-eta) @ xi, mechanism.momentum_rate(r, rdot, p)
