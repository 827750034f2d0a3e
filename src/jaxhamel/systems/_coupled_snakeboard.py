"""The snakeboard with coupled trucks, φ_b = −φ_f, which is the model of the literature on gaits."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, Scalar, Time, Velocity
from jaxhamel.geometry import SE2, Euclidean, Product
from jaxhamel.mechanics import System
from jaxhamel.mechanics._checks._system import check_control_value
from jaxhamel.mechanics._description._declarations import Part, State
from jaxhamel.mechanics._description._drawing import Shape
from jaxhamel.mechanics._description._parameters import parameter
from jaxhamel.systems._descriptions import POSE
from jaxhamel.systems._own_equations import own_equations
from jaxhamel.systems._snakeboard import board_bodies, board_places, board_shapes


class CoupledSnakeboard(System):
    r"""The snakeboard whose trucks steer against each other, φ = φ_b = −φ_f, shape r = (ψ, φ).

        (ℓω, v_x, v_y) = σ (−sin φ, cos φ, 0)
        L_c = ½ M σ² − (J_r/ℓ) sin φ ψ̇ σ + ½ J_r ψ̇² + J_w φ̇² ,   M(φ) = m cos² φ + (I/ℓ²) sin² φ

    on SE(2) × R², I = J + J_r + 2 J_w. Its two constraints, v_y = 0 and ℓω cos φ + v_x sin φ = 0, are
    those of `Snakeboard` on φ_b = −φ_f, regular for every φ: at φ = ±π/2, where both wheels
    require v_x = 0, the limit is taken (the board then turns on the spot).

    With the nonholonomic momentum p = ∂L_c/∂σ along the constraints' one direction, the motion in
    SE(2) that a shape r(t) gives is

        ξ = −A(r) ṙ + Γ(r) p ,      ṗ = φ̇ (½ M′ σ − (J_r/ℓ) cos φ ψ̇) ,   σ = (p + (J_r/ℓ) sin φ ψ̇)/M
        √M σ = √M_0 σ_0 + (J_r/ℓ) ∫ (sin φ/√M) ψ̈ dt     (the same, integrated)

    see `connection`, `momentum_velocity`, `momentum_rate`. Momentum grows with φ̇ψ̇, so A alone (a
    geometric phase) gives the motion exactly where one of ψ, φ moves at a time, and not otherwise:
    along the diagonal of the (ψ, φ) plane, which encloses no area, the board speeds up.

    **Arguments:** `mass` m [kg]; `inertia` J of the board alone, `rotor_inertia` J_r, `wheel_inertia`
    J_w of each truck [kg m²]; `half_length` ℓ [m]: as for `Snakeboard`.

    Configuration `q = ((angle, x, y), (ψ, φ))` [rad, m]; `u = (σ, ψ̇, φ̇)` [m/s, rad/s], σ the forward
    speed where φ = 0. `control`: the torques on ψ and φ [N m], `(2,)`; default none.

    **Invariants** without torque: the energy ½ (m cos² φ + ((J + 2 J_w)/ℓ²) sin² φ) σ² of all but the
    rotor's spin and the steering; the rotor's angular velocity in space; φ̇.

    **Known solution:** with steady trucks and no torque the board runs round a circle of curvature
    −tan φ/ℓ, see `glide`; with a prescribed shape the integral above.

    **Raises:** ValueError for parameters that are not physical.

    Source: Bloch, Krishnaprasad, Marsden and Murray 1996, section 8.4, who take I = m ℓ², so that
    M = m; Ostrowski 1995; Shammas, Choset and Rizzi 2007. Their momentum is along 2 cos φ ℓ times our
    direction, which vanishes at φ = ±π/2.
    """

    mass: Array = parameter("of the whole", "kg", (), positive=True, example=3.0)
    inertia: Array = parameter(
        "of the board about its centre, without rotor and trucks",
        "kg m²",
        (),
        positive=True,
        example=0.11,
    )
    rotor_inertia: Array = parameter("of the rotor", "kg m²", (), positive=True, example=0.05)
    wheel_inertia: Array = parameter("of each truck", "kg m²", (), positive=True, example=0.013)
    half_length: Array = parameter(
        "from the centre to either axle", "m", (), positive=True, example=0.3
    )

    space: ClassVar[Product] = Product(SE2(), Euclidean(2))
    n_constraints = 2
    state_names: ClassVar[State | None] = State(
        (POSE, Part("angles", ("psi", "phi"), "rad", "of rotor and trucks")),
        (
            Part("speed", ("sigma",), "m/s", "σ, forward where φ = 0"),
            Part("rates", ("psi_dot", "phi_dot"), "rad/s", "of rotor and trucks"),
        ),
        (Part("torques", ("rotor_torque", "truck_torque"), "N m", "on rotor and trucks"),),
    )
    n_controls: ClassVar[int | None] = 2

    def __check_init__(self) -> None:
        _checks.check_numbers(
            self, positive=("mass", "inertia", "rotor_inertia", "wheel_inertia", "half_length")
        )

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Any, ...]:
        return board_places(self.half_length, q[0], q[1][1], -q[1][1], q[1][0])

    def shapes(self) -> tuple[Shape, ...]:
        return board_shapes(float(self.half_length))

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        with_trucks = self.inertia + 2.0 * self.wheel_inertia
        rotor = v[0] + v[3]
        turning = with_trucks * v[0] * v[0] + self.rotor_inertia * rotor * rotor
        steering = 2.0 * self.wheel_inertia * v[4] * v[4]
        return 0.5 * (self.mass * (v[1] * v[1] + v[2] * v[2]) + turning + steering)

    def frame(self, t: Time, q: Configuration) -> Float[Array, "5 5"]:
        """u = (v_y, ℓω cos φ + v_x sin φ, σ, ψ̇, φ̇): a turn by φ in the plane (ℓω, v_x)."""
        sin, cos, one = self._sin_cos_one(q)
        rows = [(0 * one, 0 * one, one), (self.half_length * cos, sin, 0 * one)]
        return _with_shape([*rows, (-self.half_length * sin, cos, 0 * one)])

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "5 5"]:
        sin, cos, one = self._sin_cos_one(q)
        turn = (0 * one, cos / self.half_length, -sin / self.half_length)
        return _with_shape([turn, (0 * one, sin, cos), (one, 0 * one, 0 * one)])

    def force(self, t: Time, q: Configuration, v: Velocity, control: Any) -> Float[Array, " 5"]:
        """Q = (0, 0, 0, τ_ψ, τ_φ): the torques act on the angles ψ and φ."""
        return jnp.concatenate([jnp.zeros_like(v[:3]), _torques(v[3:], control)])

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple[Any, ...]:
        """Board, rotor and trucks as bodies; half of the torque on φ acts on each truck."""
        tau = _torques(v[3:], None if control is None else control(t))
        inertias = (self.inertia, self.rotor_inertia, self.wheel_inertia, self.wheel_inertia)
        spins = v[0] + jnp.stack([v[3], v[4], -v[4]])
        torques = jnp.stack([tau[0], tau[1] / 2, -tau[1] / 2])
        return board_bodies(self.mass, jnp.stack(inertias), v, spins, torques)

    def invariants(
        self, t: Time, q: Configuration, u: Float[Array, " 3"], control: Control
    ) -> dict[str, Array]:
        """The invariants of the motion without torques; empty if a control is given."""
        if control is not None:
            return {}
        M, _ = self._inertia_along(q[1][1], self.inertia + 2.0 * self.wheel_inertia)
        return {
            "energy of the board": 0.5 * M * u[0] * u[0],
            "spin of the rotor": u[1] - jnp.sin(q[1][1]) * u[0] / self.half_length,
            "steering rate": u[2],
        }

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control gives the torques on ψ and φ, `(2,)`, or is None."""
        if control is not None:
            check_control_value(t, control, (2,), "the torques on rotor and trucks [N m]")

    # --- closed forms and other quantities of this system --------------------------------------

    @own_equations
    def closed_form(
        self,
        t: Time,
        q: Configuration,
        u: Float[Array, " 3"],
        control: Float[Array, " 2"] | None = None,
    ) -> Float[Array, " 3"]:
        """(σ̇, ψ̈, φ̈), with K = m cos² φ + ((J + 2J_w)/ℓ²) sin² φ:

            K σ̇ + ½ K′ φ̇ σ = (sin φ/ℓ) τ_ψ ,   J_r (ψ̈ + ω̇) = τ_ψ ,   2 J_w φ̈ = τ_φ .

        Arguments as for `jaxhamel.acceleration`, whose value it equals; `control` is the value of the torques.
        """
        tau = _torques(u[1:], control)
        sin, cos = jnp.sin(q[1][1]), jnp.cos(q[1][1])
        K, slope = self._inertia_along(q[1][1], self.inertia + 2.0 * self.wheel_inertia)
        speed_up = (sin / self.half_length * tau[0] - 0.5 * slope * u[2] * u[0]) / K
        turn_up = -(sin * speed_up + cos * u[2] * u[0]) / self.half_length
        rotor = tau[0] / self.rotor_inertia - turn_up
        return jnp.stack([speed_up, rotor, tau[1] / (2.0 * self.wheel_inertia)])

    @own_equations
    def glide(
        self, t: Time, q0: Configuration, u0: Float[Array, " 3"]
    ) -> tuple[Configuration, Float[Array, " 3"]]:
        """The exact (q, u) at time t after (q_0, u_0), for φ̇ = 0 and no torque: g = g_0 exp(ξ t), ψ = ψ_0 + ψ̇ t.

        The board moves on a circle of radius ℓ |cot φ|; for φ = 0 on a straight line; for φ = ±π/2 it turns on the spot.

        **Raises:** `ValueError` for φ̇ ≠ 0.
        """
        _checks.check_zero("u0[2]", u0[2], "Only steady trucks glide; use `jaxhamel.simulate`.")
        pose, shape = q0
        space = SE2()
        later = space.retract(pose, t * self._direction(shape[1]) * u0[0])
        return (later, shape + t * u0[1:]), u0

    @own_equations
    def connection(self, r: Float[Array, " 2"]) -> Float[Array, "3 2"]:
        """A(r) of ξ = −A(r) ṙ at momentum p = 0 (the nonholonomic connection), r = (ψ, φ):

            A_ψ = −(J_r sin φ/(ℓ M)) (−sin φ/ℓ, cos φ, 0) ,   A_φ = 0 .

        For I = m ℓ² its curvature is B_ψφ = (J_r/m ℓ²) (sin 2φ, −ℓ cos 2φ, 0).
        """
        M, _ = self._inertia_along(r[1], self._whole())
        drag = self.rotor_inertia * jnp.sin(r[1]) / (self.half_length * M)
        column = -drag * self._direction(r[1])
        return jnp.stack([column, jnp.zeros_like(column)], axis=1)

    @own_equations
    def momentum_velocity(self, r: Float[Array, " 2"]) -> Float[Array, "3 1"]:
        """Γ(r) of ξ = −A ṙ + Γ p: the velocity (ω, v_x, v_y) of unit momentum, [1/kg] and [1/(kg m)]."""
        M, _ = self._inertia_along(r[1], self._whole())
        return self._direction(r[1])[:, None] / M

    @own_equations
    def momentum_rate(
        self, r: Float[Array, " 2"], rdot: Float[Array, " 2"], p: Float[Array, " 1"]
    ) -> Float[Array, " 1"]:
        """ṗ = φ̇ (½ M′ σ − (J_r/ℓ) cos φ ψ̇) [N]: the nonholonomic momentum equation, p `(1,)` [kg m/s]."""
        M, slope = self._inertia_along(r[1], self._whole())
        lever = self.rotor_inertia / self.half_length
        sigma = (p + lever * jnp.sin(r[1]) * rdot[0]) / M
        return rdot[1] * (0.5 * slope * sigma - lever * jnp.cos(r[1]) * rdot[0])

    def momentum(self, q: Configuration, u: Float[Array, " 3"]) -> Float[Array, " 1"]:
        """p = ∂L_c/∂σ = M σ − (J_r/ℓ) sin φ ψ̇ [kg m/s], `(1,)`."""
        M, _ = self._inertia_along(q[1][1], self._whole())
        return (M * u[0] - self.rotor_inertia / self.half_length * jnp.sin(q[1][1]) * u[1])[None]

    def _whole(self) -> Scalar:
        """I = J + J_r + 2 J_w."""
        return self.inertia + self.rotor_inertia + 2.0 * self.wheel_inertia

    def _inertia_along(self, phi: Scalar, inertia: Scalar) -> tuple[Scalar, Scalar]:
        """m cos² φ + (I/ℓ²) sin² φ and its derivative by φ."""
        excess = inertia / self.half_length**2 - self.mass
        return self.mass + excess * jnp.sin(phi) ** 2, excess * jnp.sin(2.0 * phi)

    def _direction(self, phi: Scalar) -> Float[Array, " 3"]:
        """(ω, v_x, v_y) for σ = 1."""
        turning = -jnp.sin(phi) / self.half_length
        return jnp.stack([turning, jnp.cos(phi), jnp.zeros_like(phi)])

    def _sin_cos_one(self, q: Configuration) -> tuple[Scalar, Scalar, Scalar]:
        return jnp.sin(q[1][1]), jnp.cos(q[1][1]), jnp.ones_like(q[1][1])


def _torques(shape_rate: Float[Array, " 2"], control: Any) -> Float[Array, " 2"]:
    return jnp.zeros_like(shape_rate) if control is None else control


def _with_shape(rows: list[Any]) -> Float[Array, "5 5"]:
    """[[board, 0], [0, 1]], where `rows` are those of the 3 × 3 block of the board's velocities."""
    board = jnp.stack([jnp.stack(row) for row in rows])
    zero = jnp.zeros((3, 2), board.dtype)
    return jnp.block([[board, zero], [zero.T, jnp.eye(2, dtype=board.dtype)]])
