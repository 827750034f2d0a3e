"""The soft-shelled ball with its shell held in a stand: an experiment that determines the parameters of the joint alone."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, Time
from jaxhamel.mechanics._description._declarations import Part, State
from jaxhamel.mechanics._kinematics import prepare
from jaxhamel.systems._own_equations import own_equations
from jaxhamel.systems._soft_rolling_pendulum import SoftRollingPendulum


class PendulumInStand(SoftRollingPendulum):
    r"""`SoftRollingPendulum` with the shell held, φ̇ = 0: a compound pendulum in a joint that sticks,

        (I_p + m_p |c|²) θ̈ = −m_p g (c_1 cos ψ − c_2 sin ψ) − F_j s(θ̇) − c_j θ̇ ,    ψ = φ + θ ,

    c = `pendulum_com`. Swings determine m_p g |c| / (I_p + m_p |c|²), the friction relative to that
    inertia, and the angle at which the pendulum hangs; not mass, inertia and arm by themselves.

    **Arguments:** those of `SoftRollingPendulum`: `radius` [m], `shell_mass` [kg], `shell_inertia` [kg m²],
    `centre_mass`, `centre_inertia`, `centre_com`, `pendulum_mass`, `pendulum_inertia`, `pendulum_com`,
    `joint_coulomb` [N m], `joint_viscous`, `contact_stiffness`, `rest_angle`, `rolling_coulomb`,
    `rolling_viscous`, `slip_rate`, `gravity`. Only those of pendulum and joint, `slip_rate` and `gravity` have an effect.

    Configuration `q (3,) = (φ, θ, κ)`, φ the tilt of the stand. `u (1,) = θ̇`.

    **Invariants:** φ and κ. Without friction also the energy.

    **Known solution:** with ϑ the angle from hanging, without friction sin(ϑ/2) = k sn(K − ω_0 t, k) for a
    swing from rest at ϑ_0, k = sin(ϑ_0/2), ω_0² = m_p g |c| / (I_p + m_p |c|²). With viscous friction small
    swings have ω² = ω_0² − δ², δ = c_j / (2 (I_p + m_p |c|²)). With Coulomb friction alone each half swing
    is smaller by 2 F_j / (m_p g |c|) than the one before, until friction holds the pendulum.

    **Raises:** ValueError for parameters that are not physical.

    Source: elementary (`closed_form`); friction as in `SoftRollingPendulum`.
    """

    state_names: ClassVar[State | None] = State(
        (
            Part(
                "coordinates",
                ("phi", "theta", "kappa"),
                "rad",
                "of stand and pendulum, and κ",
                ("φ", "θ", "κ"),
            ),
        ),
        (Part("rate", ("theta_dot",), "rad/s", "of the pendulum", ("θ̇",)),),
    )
    n_constraints = 2  # the first two rows of the ball's frame, κ̇ = φ̇ = 0

    def invariants(
        self, t: Time, q: Configuration, u: Float[Array, " 1"], control: Control
    ) -> dict[str, Array]:
        return {"contact": q[2], "shell": q[0]}

    @compiled
    @own_equations
    def closed_form(
        self, t: Time, q: Configuration, u: Float[Array, " 1"], control: Control = None
    ) -> Float[Array, " 1"]:
        """θ̈ of the compound pendulum above. Arguments as for `jaxhamel.acceleration`, whose value it equals."""
        _, q, (u,), _ = prepare(q, u, t=t, control=control)
        angle, c = q[0] + q[1], self.pendulum_com
        inertia = self.pendulum_inertia + self.pendulum_mass * jnp.sum(c**2)
        weight = self.pendulum_mass * self.gravity * (c[0] * jnp.cos(angle) - c[1] * jnp.sin(angle))
        joint = self.joint_coulomb * u / jnp.hypot(u, self.slip_rate) + self.joint_viscous * u
        return (-weight - joint) / inertia
