"""Chaplygin's sleigh: a body on the plane that a blade keeps from moving sideways at one point."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Control, Scalar, Time, Velocity
from jaxhamel.geometry import SE2
from jaxhamel.mechanics import Points, Spins, System
from jaxhamel.mechanics._checks._system import check_control_value
from jaxhamel.mechanics._description._declarations import Part, State
from jaxhamel.mechanics._description._drawing import Shape, segment
from jaxhamel.mechanics._description._parameters import parameter
from jaxhamel.mechanics._system import has_valid
from jaxhamel.systems._descriptions import POSE
from jaxhamel.systems._own_equations import own_equations


class ChaplyginSleigh(System):
    r"""Chaplygin's sleigh: v̇ = a ω², (I + m a²) ω̇ = −m a v ω.

        L = ½ m (v_1² + (v_2 + a ω)²) + ½ I ω² on SE(2) ,    v_2 = 0 ,    u = (v, ω) = (v_1, ω)

    **Arguments:**

    - `mass`: m [kg].
    - `inertia`: I about the *centre of mass* [kg m²].
    - `offset`: a [m], the centre of mass ahead of the blade, along the blade; of either sign.

    Configuration `q (3,)`: the blade's (angle, x, y), along e_1 of the body; `u = (v, ω)` [m/s, rad/s]; control: a force
    along the blade and a moment about the vertical, (F, τ) [N, N m], or None.

    **Invariants:** energy, ½ (m v² + (I + m a²) ω²), where no force acts.

    **Known solution:** with k² = (I + m a²)/m and V² = v² + k² ω²: v = V tanh(a V (t − t_0)/k²) and
    ω = (V/k) sech(a V (t − t_0)/k²), see `solution`. From t = −∞ to ∞ the sleigh turns by π k/a,
    see `total_turn`, and ends with the centre of mass ahead of the blade, though energy is kept.

    **Raises:** ValueError for parameters that are not physical.

    Source: Bloch 2003, section 1.7. Books differ in the origin: with the centre of mass as the
    configuration's point the constraint is v_2 = a ω instead.
    """

    mass: Array = parameter("mass", "kg", (), positive=True, example=1.0)
    inertia: Array = parameter("about the centre of mass", "kg m²", (), positive=True, example=0.1)
    offset: Array = parameter("of the centre of mass ahead of the blade", "m", (), example=0.2)

    space: ClassVar[SE2] = SE2()
    n_constraints = 1
    n_controls: ClassVar[int | None] = 2
    state_names: ClassVar[State | None] = State(
        (POSE,),
        (Part("velocities", ("v", "omega"), "m/s, rad/s", "along the blade, and of turning"),),
        (
            Part(
                "control", ("force", "moment"), "N, N m", "along the blade, and about the vertical"
            ),
        ),
    )

    def __check_init__(self) -> None:
        _checks.check_numbers(self, positive=("mass", "inertia"), finite=("offset",))

    def shapes(self) -> tuple[Shape, ...]:
        com = np.array([float(self.offset), 0.0, 0.0])
        size = max(abs(com[0]), float(np.sqrt(self.inertia / self.mass)))
        blade = segment((-0.3 * size, 0, 0), (0.3 * size, 0, 0))
        frame = segment((0, 0, 0), (com[0], 0.4 * size, 0), (com[0], -0.4 * size, 0), (0, 0, 0))
        return (Shape([blade, frame], com[None], trail=np.zeros(3), trail_name="blade"),)

    def lagrangian(self, t: Time, q: Float[Array, " 3"], v: Velocity) -> Scalar:
        omega, forward, across = jnp.unstack(v)
        sideways = across + self.offset * omega
        moving = self.mass * (forward * forward + sideways * sideways)
        return 0.5 * (moving + self.inertia * omega * omega)

    def frame(self, t: Time, q: Float[Array, " 3"]) -> Float[Array, "3 3"]:
        """u = (v_2, v_1, ω)."""
        return jnp.eye(3, dtype=q.dtype)[::-1]

    def inverse_frame(self, t: Time, q: Float[Array, " 3"]) -> Float[Array, "3 3"]:
        return jnp.eye(3, dtype=q.dtype)[::-1]

    def force(self, t: Time, q: Float[Array, " 3"], v: Velocity, control: Control) -> Velocity:
        """(τ, F, 0), dual to (ω, v_1, v_2)."""
        if control is None:
            return jnp.zeros_like(v)
        return jnp.stack([control[1], control[0], jnp.zeros_like(v[0])])  # pyright: ignore[reportIndexIssue]

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control is (F, τ) or None; in a subclass with its own `force` any control is accepted."""
        if control is not None and has_valid(self, "check_control"):
            meaning = "a force along the blade and a moment about the vertical [N, N m]"
            check_control_value(t, control, (2,), meaning)

    def bodies(
        self, t: Time, q: Float[Array, " 3"], v: Velocity, control: Control
    ) -> tuple[Any, ...]:
        zero = jnp.zeros_like(v[0])
        omega = jnp.stack([zero, zero, v[0]])
        velocity = jnp.stack([v[1], v[2] + self.offset * v[0], zero])
        push = jnp.zeros_like(v[:2]) if control is None else control(t)
        along = jnp.stack([push[0], zero, zero])[None]
        moment = jnp.stack([zero, zero, push[1]])[None]
        inertia = self.inertia * jnp.eye(3, dtype=v.dtype)  # only the moment about e_3 is used
        return Points(self.mass[None], velocity[None], along, omega), Spins(
            inertia[None], omega[None], moment
        )

    def invariants(
        self, t: Time, q: Float[Array, " 3"], u: Float[Array, " 2"], control: Control
    ) -> dict[str, Array]:
        if control is not None:
            return {}
        return {"energy": 0.5 * self.mass * (u[0] * u[0] + self._gyration() * u[1] * u[1])}

    # --- closed forms and other quantities of this system --------------------------------------

    @own_equations
    def closed_form(
        self, t: Time, q: Float[Array, " 3"], u: Float[Array, " 2"], control: Control = None
    ) -> Float[Array, " 2"]:
        """(v̇, ω̇) = (a ω² + F/m, (τ/m − a v ω)/k²). Arguments as for `jaxhamel.acceleration`, whose value it equals;
        `control` is the value (F, τ).
        """
        push = jnp.zeros_like(u) if control is None else control / self.mass  # pyright: ignore[reportOperatorIssue]
        forward = self.offset * u[1] * u[1] + push[0]
        return jnp.stack([forward, (push[1] - self.offset * u[0] * u[1]) / self._gyration()])

    @own_equations
    def solution(self, t: Time, u0: Float[Array, " 2"]) -> Float[Array, " 2"]:
        """The exact (v, ω) at time t after (v_0, ω_0) ≠ 0:

            v = V (τ + s)/(1 + s τ) ,   ω = ω_0 √(1 − τ²)/(1 + s τ) ,   τ = tanh(a V t/k²), s = v_0/V .

        It follows from tanh and sech by their addition theorems, for the given start.
        """
        k2 = self._gyration()
        speed = jnp.sqrt(u0[0] * u0[0] + k2 * u0[1] * u0[1])
        phase = self.offset * speed * t / k2
        start, grown = u0[0] / speed, jnp.tanh(phase)
        denominator = 1.0 + start * grown
        forward = speed * (start + grown) / denominator
        return jnp.stack([forward, u0[1] / (jnp.cosh(phase) * denominator)])

    @own_equations
    def total_turn(self) -> Scalar:
        """π k/|a| [rad]: the angle by which the sleigh turns from t = −∞ to t = ∞."""
        return jnp.pi * jnp.sqrt(self._gyration()) / jnp.abs(self.offset)

    def _gyration(self) -> Scalar:
        """k² = (I + m a²)/m."""
        return self.inertia / self.mass + self.offset * self.offset
