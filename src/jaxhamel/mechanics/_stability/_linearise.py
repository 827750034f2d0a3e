"""The linearised equations of motion about any motion, in the tangent space.

A neighbour of the motion (q, u) is at q·exp(ε δ_q), u + ε δ_u. With v = q⁻¹q̇ and the equations v = B((0, u) − a),
u̇ = f(t, q, u, c),

    δ̇_q = δv − ad_v δ_q ,    δv = ∂v/∂q δ_q + ∂v/∂u δ_u
    δ̇_u = ∂f/∂q δ_q + ∂f/∂u δ_u + ∂f/∂c δc

where ∂/∂q is by exponential coordinates at q. The term ad_v appears because the frame in which δ_q has its components moves
with the body. A and B are derivatives of the full equations of motion, without any assumption on them. `stability_matrix` is
the special case without constraints, with L = ½ v·M(q) v − V and forces Q(t, q).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time
from jaxhamel.mechanics._acceleration import vector_field
from jaxhamel.mechanics._controls._control import Feedback, at_state
from jaxhamel.mechanics._examination._boundary import check_system
from jaxhamel.mechanics._kinematics import prepare
from jaxhamel.mechanics._system import System
from jaxhamel.mechanics._tangent import near, tangent_size

StateMatrix = Float[Array, "n+k n+k"]


class Linearisation(NamedTuple):
    """The matrices A and B of the linearised equations δ̇x = A δx + B δc."""

    A: StateMatrix
    B: Float[Array, "n+k p"]


def linearise(
    system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control = None
) -> Linearisation:
    """Linearises the full equations of motion about (t, q, u): δ̇x = A δx + B δc with δx = (δ_q, δ_u) and

        A = [[∂v/∂q − ad_v, ∂v/∂u], [∂u̇/∂q, ∂u̇/∂u]] ,    B = [[∂v/∂c], [∂u̇/∂c]] .

    **Arguments:**

    - `system`: any system on any space, also with nonholonomic or affine constraints, damping, gyroscopic forces or
      prescribed motion.
    - `t`, `q`, `u`, `control`: as for `acceleration`. The state need not be an equilibrium. Along a motion, A(t) and B(t)
      are those of the first variation of the motion; `jax.vmap(linearise, in_axes=(None, 0, 0, 0, None))` computes them
      along a whole trajectory.

    **Returns:** a `Linearisation` with `A` `(n + k, n + k)` and `B` `(n + k, p)`, per second. The neighbour of q is
    q·exp(δ_q); δ_q `(n,)` is `space.local(q, neighbour)`.

    δc is the change of the control's value, as p numbers (p = 0 if `control` is None). The equations of a system with
    `prescribed_motion` depend on the rates of its control, too: B then has three blocks of p columns, for δc, δċ and δc̈.
    A `jaxhamel.Feedback` is part of the equations: A is that of the closed loop, and δc is added to the feedback's value.

    **Raises:** as `acceleration`.

    If u and the shape of the system are constant, so is A, and its eigenvalues (`modes`) decide on stability. For a motion
    that is steady only in axes other than the body's, as that of a rolling disk, use `relative_equilibrium` and the
    `linearisation` of its result.

    Source: for the neighbours on a group, Müller 2023, eq. (7.2), in the form of a system of first order.
    """
    t, q, (u,), control = prepare(q, u, t=t, control=control, keep_feedback=True)
    check_system(system, t, q, u, control)
    return _linearise(system, t, q, u, control)


@compiled
def _linearise(system, t, q, u, control) -> Linearisation:
    n = system.space.dim
    shift, size = control_shift(system, t, q, u, control)

    def rates(delta, change):
        found = body_rates(system, t, *near(system, (q, u), delta), shift(change))
        return found, found

    none = jnp.zeros(tangent_size(system), u.dtype), jnp.zeros(size, u.dtype)
    (A, B), here = jax.jacfwd(rates, argnums=(0, 1), has_aux=True)(*none)
    return Linearisation(A.at[:n, :n].add(-system.space.ad(here[:n])), B)


def body_rates(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> Float[Array, " n+k"]:
    """The rates (v, u̇) by the equations of motion, `(n + k,)`; the arguments are not checked."""
    q_dot, u_dot = vector_field(t, (q, u), (system, control))
    return jnp.concatenate([system.space.velocity(q, q_dot), u_dot])


def control_shift(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> tuple[Callable[..., Any], int]:
    """A function of δc that gives the control whose value, and for prescribed motion also two rates, are changed by δc; and
    the length of δc.
    """
    if control is None:
        return (lambda change: None), 0
    value, rebuild = ravel_pytree(at_state(control, t, q, u)(t))
    if isinstance(control, Feedback):
        return (lambda change: Feedback(_Added(control, rebuild(change)))), value.size
    order = 3 if system.prescribed_motion else 1

    def shift(change):
        blocks = change.reshape(order, value.size)

        def shifted(time):
            powers = jnp.stack([(time - t) ** i / max(i, 1) for i in range(order)])  # 1, s, s²/2
            return jax.tree.map(jnp.add, control(time), rebuild(powers @ blocks))

        return shifted

    return shift, order * value.size


class _Added(eqx.Module):
    """A feedback plus a constant."""

    control: Feedback
    change: Any

    def __call__(self, t: Scalar, q: Configuration, u: QuasiVelocity) -> Any:
        return jax.tree.map(jnp.add, self.control(t, q, u), self.change)
