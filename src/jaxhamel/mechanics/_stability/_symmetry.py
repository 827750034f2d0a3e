"""Symmetries of the equations of motion: a group that acts on configurations, lifted to states.

    Ψ_s(q, u) = (Φ_s(q), u′) ,    u′ the quasi-velocity of TΦ_s v ,    σ_a = ∂Ψ_s/∂s^a |_{s=0}

Φ is a symmetry if the flow of the equations of motion commutes with it, TΨ_s f = f ∘ Ψ_s. Lagrangian, forces and constraints
may all depend on q, if Φ transports them from each q to Φ_s(q).
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._typing import Control, Scalar
from jaxhamel.mechanics._acceleration import vector_field
from jaxhamel.mechanics._checks._hypotheses import check_autonomous, check_commutes
from jaxhamel.mechanics._kinematics import quasi_velocity_of, velocity_of
from jaxhamel.mechanics._system import System
from jaxhamel.mechanics._tangent import MotionState

Generators = Float[Array, " p"]


class Symmetry(eqx.Module):
    """A symmetry Φ_s of dimension p, given by its action on configurations.

    **Arguments:**

    - `action`: the function (s, q) → Φ_s(q), s `(p,)`, with Φ_0(q) = q. For motions Φ_{ζt}(q) it has to be additive along
      lines, Φ_{as} ∘ Φ_{bs} = Φ_{(a+b)s}, as rotations, shifts and their commuting combinations are.
    - `dim`: the dimension p.

    ```python
    def action(s, q):  # a top: turns by s_0 about the vertical, by s_1 about its own axis
        return SO3().compose(SO3().exp(s[0] * e3), SO3().compose(q, SO3().exp(s[1] * e3)))
    ```
    """

    action: Callable
    dim: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        _checks.check_callable("action", self.action, "(s, q) -> Φ_s(q)")
        _checks.check_count("dim", self.dim)


def lifted(
    system: System, symmetry: Symmetry, t: Scalar, s: Generators, x: MotionState
) -> MotionState:
    """The state Ψ_s(q, u); the arguments are not checked."""
    q, u = x
    v = velocity_of(system, t, q, u)
    image, along = jax.jvp(lambda q: symmetry.action(s, q), (q,), (system.space.rate(q, v),))
    return image, quasi_velocity_of(system, t, image, system.space.velocity(image, along))


def generator(
    system: System, symmetry: Symmetry | None, t: Scalar, zeta: Generators, x: MotionState
) -> Float[Array, " n+k"]:
    """The tangent vector (δ_q, δ_u) = ζ^a σ_a at x; the arguments are not checked."""
    if symmetry is None:
        return jnp.zeros(system.space.dim + system.n_independent, x[1].dtype)

    def move(s):
        return lifted(system, symmetry, t, s, x)

    _, (q_rate, u_rate) = jax.jvp(move, (jnp.zeros_like(zeta),), (zeta,))
    return jnp.concatenate([system.space.velocity(x[0], q_rate), u_rate])


def check_symmetry(
    system: System, symmetry: Symmetry | None, t: Scalar, x: MotionState, control: Control
) -> None:
    """Checks, at x and a state near it, that the equations of motion are autonomous and commute with the symmetry."""
    if _checks.any_tracer((system, symmetry, t, x, control)):
        return
    check_autonomous(system, _by_time(system, t, x, control))
    if symmetry is not None:
        check_commutes(system, *_field_and_image(system, symmetry, t, x, control))


@compiled
def _by_time(system, t, x, control):
    """The rates f of the equations of motion and ∂f/∂t, each as one vector."""
    return jax.jvp(
        lambda t: _flat_array(vector_field(t, x, (system, control))), (t,), (jnp.ones_like(t),)
    )


@compiled
def _field_and_image(system, symmetry, t, x, control):
    """The rates f at Ψ_s(x), and f at x pushed forward by Ψ_s, for one s."""
    draw = np.random.default_rng(0).normal(size=symmetry.dim)
    s = jnp.asarray(0.4 * draw, x[1].dtype)
    q, u = x
    x = system.space.retract(q, jnp.full(system.space.dim, 0.05, u.dtype)), u + 0.1

    def field(x):
        return vector_field(t, x, (system, control))

    image, pushed = jax.jvp(lambda x: lifted(system, symmetry, t, s, x), (x,), (field(x),))
    return _flat_array(field(image)), _flat_array(pushed)


def _flat_array(tree):
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])
