"""Checks of the assumptions of special equations of motion about Lagrangian and force, at states near the given one.

    L = ½ v·M(q) v + b(q)·v − V(t, q) ,    Q(t, q)

The general equations (`acceleration`, `linearise`) need none of these assumptions. A violation is found at random states
near the given one: at q itself an assumption may hold by chance, as the one that b(q)·v = 0 does for q_1 v_0 at q = 0.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, Scalar, Velocity
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics._checks._hypotheses import check_hypotheses
from jaxhamel.mechanics._kinematics import applied_force, covector, lagrangian
from jaxhamel.mechanics._system import System, dtype_of

# the distances of the test states from the given one, in q and in v; the nearest are inside of the system's domain
_DISTANCES = ((0.0, 1.0), (0.0, 0.01), (0.1, 0.1), (0.7, 1.0))


def require(
    system: System,
    t: Scalar,
    q: Configuration,
    v: Velocity,
    control: Control,
    hypotheses: tuple[str, ...],
    equations: str,
    instead: str,
) -> None:
    """Checks that the Lagrangian and force satisfy the named hypotheses of an equation; traced values are not checked.

    **Arguments:** `hypotheses`: among `"quadratic"` (∂²L/∂v∂v does not depend on v), `"homogeneous"` (no terms linear in
    v), `"steady"` (∂²L/∂v∂v does not depend on t), `"place"` (Q does not depend on v), `"invariant"` (L does not depend on
    g, q = (g, r)) and `"free"` (Q has no component along the group); `equations`, `instead`: sentences for the message.

    **Raises:** `ValueError` that names the hypothesis that does not hold.
    """
    if _checks.any_tracer((system, t, q, v, control)):
        return
    found = _found(system, t, q, v, control, hypotheses)
    named = [(name, *compared) for name, compared in zip(hypotheses, found, strict=True)]
    check_hypotheses(system, named, equations, instead)


@compiled
def _found(system, t, q, v, control, hypotheses):
    """For each hypothesis two arrays, which are equal if it holds, and an array of the size of their terms, at all test
    states.
    """

    def at(delta_q, delta_v):
        state = t, system.space.retract(q, delta_q), v + delta_v
        return [COMPARED[name](system, *state, control) for name in hypotheses]

    return jax.vmap(at)(*steps_around(system.space, dtype_of(q)))


def steps_around(space: AbstractSpace, dtype: Any) -> tuple[Array, Array]:
    """Steps in q and in v to the test states, each `(j, n)`; the first step in q is zero."""
    draws = np.random.default_rng(0).normal(size=(2, len(_DISTANCES), space.dim))
    distances = np.asarray(_DISTANCES).T[:, :, None]
    steps = jnp.asarray(draws * distances, dtype)
    return steps[0], steps[1]


def _mass_matrix(system, t, q, v, control):
    return jax.hessian(lambda v: lagrangian(system, t, q, v, control))(v)


def _momentum(system, t, q, v, control):
    return jax.grad(lambda v: lagrangian(system, t, q, v, control))(v)


def _quadratic(system, t, q, v, control):
    mass = _mass_matrix(system, t, q, v, control)
    return mass, _mass_matrix(system, t, q, jnp.zeros_like(v), control), mass


def _homogeneous(system, t, q, v, control):
    at_rest = _momentum(system, t, q, jnp.zeros_like(v), control)
    return at_rest, jnp.zeros_like(v), _momentum(system, t, q, v, control)


def _steady(system, t, q, v, control):
    def mass(t):
        return _mass_matrix(system, t, q, v, control)

    value, rate = jax.jvp(mass, (t,), (jnp.ones_like(t),))
    return rate, jnp.zeros_like(rate), value


def _force_at_rest(system, t, q, v, control):
    force = applied_force(system, t, q, v, control)
    return force, applied_force(system, t, q, jnp.zeros_like(v), control), force


def _invariant(system, t, q, v, control):
    gradient = jax.grad(lambda q: lagrangian(system, t, q, v, control))(q)
    along = covector(system, q, gradient)[: system.space.dim - q[1].size]
    return along, jnp.zeros_like(along), _momentum(system, t, q, v, control)


def _force_of_motion(system, t, q, v, control):
    force = applied_force(system, t, q, v, control)
    along = force[: system.space.dim - q[1].size]
    return along, jnp.zeros_like(along), force


COMPARED: dict[str, Callable[..., Any]] = {
    "quadratic": _quadratic,
    "homogeneous": _homogeneous,
    "steady": _steady,
    "place": _force_at_rest,
    "invariant": _invariant,
    "free": _force_of_motion,
}
