"""The snakeboard: a board on two steered trucks, with a rotor on top; torques between its parts drive it."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, Scalar, Time, Velocity
from jaxhamel.geometry import SE2, Euclidean, Product
from jaxhamel.mechanics import Points, Spins, System
from jaxhamel.mechanics._checks._system import check_control_value
from jaxhamel.mechanics._description._declarations import Part, State
from jaxhamel.mechanics._description._drawing import Shape, about_z, ring, segment
from jaxhamel.mechanics._description._parameters import parameter
from jaxhamel.systems._descriptions import POSE
from jaxhamel.systems._own_equations import own_equations


class Snakeboard(System):
    r"""The snakeboard: two steered wheel pairs that do not slip sideways, torques on rotor and trucks.

        L = ½ m (v_x² + v_y²) + ½ J ω² + ½ J_r (ω + ψ̇)² + ½ J_w (ω + φ̇_b)² + ½ J_w (ω + φ̇_f)²
        v_x sin φ = (v_y ± ℓ ω) cos φ   with + for the front wheels, φ = φ_f, − for the back, φ_b

    on SE(2) × R³. The constraints leave one velocity of the board, (ℓω, v_x, v_y) = σ e with the
    unit vector

        e = (sin(φ_f − φ_b), 2 cos φ_f cos φ_b, sin(φ_f + φ_b)) / √(2 (cos² φ_f + cos² φ_b)) .

    **Arguments:**

    - `mass`: m of the whole [kg].
    - `inertia`: J of the board about its centre [kg m²], without rotor and trucks.
    - `rotor_inertia`: J_r; `wheel_inertia`: J_w of each truck [kg m²].
    - `half_length`: ℓ from the centre, which is the centre of mass, to either axle [m].

    Configuration `q = ((angle, x, y), (ψ, φ_b, φ_f))`: the board's pose [rad, m], the angles of rotor,
    back and front truck relative to the board [rad]. `u = (σ, ψ̇, φ̇_b, φ̇_f)` [m/s, rad/s].
    `control`: the torques on ψ, φ_b, φ_f [N m], `(3,)`, whose reactions act on the board; default none.

    The frame is regular if the two constraints are independent, for example with straight wheels,
    φ_b = φ_f = 0, where e = (0, 1, 0) and σ is the forward speed. It is singular with both trucks across
    the board, φ_b and φ_f = ±π/2, where both constraints are v_x = 0. `CoupledSnakeboard`, for
    φ_b = −φ_f at all times, has no singularity.
    The multipliers are the side forces of the ground on back and front wheels [N].

    **Invariants** without torque: the board's energy ½ (m + (J/ℓ² − m) e_1²) σ², and the angular
    velocities of rotor and trucks in space. (The total energy is the sum of this one and of theirs.)

    **Known solution:** with trucks that point in perpendicular directions fixed in space and no
    torque the board is an ellipsograph: its centre runs round a circle of radius ℓ at constant rate
    while the board turns the other way, see `ellipsograph`.

    **Raises:** ValueError for parameters that are not physical.

    Source: Bloch, Krishnaprasad, Marsden and Murray 1996, section 8.4; Ostrowski 1995. They take
    J + J_r + 2 J_w = m ℓ² and φ_b = −φ_f, and measure their momentum along another multiple of e.
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

    space: ClassVar[Product] = Product(SE2(), Euclidean(3))
    n_constraints = 2
    state_names: ClassVar[State | None] = State(
        (
            POSE,
            Part(
                "angles", ("psi", "phi_back", "phi_front"), "rad", "of rotor, back and front truck"
            ),
        ),
        (
            Part("speed", ("sigma",), "m/s", "σ along the constraints' one direction"),
            Part(
                "rates",
                ("psi_dot", "phi_back_dot", "phi_front_dot"),
                "rad/s",
                "of rotor, back and front truck",
            ),
        ),
        (
            Part(
                "torques",
                ("rotor_torque", "back_torque", "front_torque"),
                "N m",
                "on rotor, back and front truck",
            ),
        ),
    )
    n_controls: ClassVar[int | None] = 3

    def __check_init__(self) -> None:
        _checks.check_numbers(
            self, positive=("mass", "inertia", "rotor_inertia", "wheel_inertia", "half_length")
        )

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Any, ...]:
        return board_places(self.half_length, q[0], q[1][1], q[1][2], q[1][0])

    def shapes(self) -> tuple[Shape, ...]:
        return board_shapes(float(self.half_length))

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        spins = v[0] + v[3:]
        turning = self.inertia * v[0] * v[0] + jnp.dot(self._inertias(), spins * spins)
        return 0.5 * (self.mass * (v[1] * v[1] + v[2] * v[2]) + turning)

    def frame(self, t: Time, q: Configuration) -> Float[Array, "6 6"]:
        """u = (side velocities of back and front wheels, σ, ψ̇, φ̇_b, φ̇_f)."""
        board = jnp.concatenate([_sides(q[1]), _allowed_direction(q[1])[None]])
        return _with_shape(board * self._lengths()[None, :])

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "6 6"]:
        """B = A⁻¹: the dual basis of the rows b, f (the constraints) and e, by the Gram matrix of b and f."""
        back, front = _sides(q[1])
        bb, ff, bf = jnp.dot(back, back), jnp.dot(front, front), jnp.dot(back, front)
        area = bb * ff - bf * bf
        duals = [
            (back * ff - front * bf) / area,
            (front * bb - back * bf) / area,
            _allowed_direction(q[1]),
        ]
        return _with_shape(jnp.stack(duals, axis=1) / self._lengths()[:, None])

    def force(self, t: Time, q: Configuration, v: Velocity, control: Any) -> Float[Array, " 6"]:
        """Q = (0, 0, 0, τ): the torques act on the angles ψ, φ_b, φ_f."""
        none = jnp.zeros_like(v[:3])
        return jnp.concatenate([none, none if control is None else control])

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple[Any, ...]:
        torques = jnp.zeros_like(v[3:]) if control is None else control(t)
        inertias = jnp.concatenate([self.inertia[None], self._inertias()])
        return board_bodies(self.mass, inertias, v, v[0] + v[3:], torques)

    def invariants(
        self, t: Time, q: Configuration, u: Float[Array, " 4"], control: Control
    ) -> dict[str, Array]:
        """The invariants of the motion without torques; empty if a control is given."""
        if control is not None:
            return {}
        omega = _allowed_direction(q[1])[0] * u[0] / self.half_length
        names = ("rotor", "back truck", "front truck")
        spins = {
            f"spin of the {name}": omega + rate for name, rate in zip(names, u[1:], strict=True)
        }
        return {"energy of the board": 0.5 * self._inertia_along(q[1]) * u[0] * u[0], **spins}

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control gives the torques on ψ, φ_b and φ_f, `(3,)`, or is None."""
        if control is not None:
            meaning = "the torques on rotor, back and front truck [N m]"
            check_control_value(t, control, (3,), meaning)

    # --- closed forms and other quantities of this system --------------------------------------

    @own_equations
    def closed_form(
        self,
        t: Time,
        q: Configuration,
        u: Float[Array, " 4"],
        control: Float[Array, " 3"] | None = None,
    ) -> Float[Array, " 4"]:
        """(σ̇, ψ̈, φ̈_b, φ̈_f) from d'Alembert's principle along e, and from the torque on rotor and trucks:

            M σ̇ + ½ Ṁ σ = −(e_1/ℓ) Σ τ ,   M = m + (J/ℓ² − m) e_1² ;   r̈ = τ/(J_r, J_w, J_w) − ω̇ .

        Arguments as for `jaxhamel.acceleration`, whose value it equals; `control` is the value of the torques.
        """
        torques = jnp.zeros_like(u[1:]) if control is None else control
        e1, rate = _turning_part(q[1], u[1:])
        excess = self.inertia / self.half_length**2 - self.mass
        M = self.mass + excess * e1 * e1
        pull = e1 / self.half_length * jnp.sum(torques)
        speed_up = -(pull + excess * e1 * rate * u[0]) / M
        turn_up = (speed_up * e1 + u[0] * rate) / self.half_length
        return jnp.concatenate([speed_up[None], torques / self._inertias() - turn_up])

    @own_equations
    def ellipsograph(self, t: Time, turn_rate: Scalar) -> tuple[Configuration, Float[Array, " 4"]]:
        """(q, u) at time t of the motion in which the front axle runs along x, the back one along y:

            θ = Ω t ,   (x, y) = ℓ (cos θ, −sin θ) ,   ψ = φ_f = −θ ,   φ_b = π/2 − θ ,   σ = −√2 ℓ Ω .

        **Arguments:** `turn_rate`: Ω [rad/s]. The board moves like the rod of a trammel of Archimedes.
        """
        angle = turn_rate * jnp.asarray(t, dtype=turn_rate.dtype)
        centre = self.half_length * jnp.stack([jnp.cos(angle), -jnp.sin(angle)])
        steering = jnp.stack([-angle, jnp.pi / 2 - angle, -angle])
        speed = -jnp.sqrt(jnp.asarray(2.0, angle.dtype)) * self.half_length * turn_rate
        pose = jnp.concatenate([angle[None], centre])
        return (pose, steering), jnp.stack([speed, -turn_rate, -turn_rate, -turn_rate])

    def _inertias(self) -> Float[Array, " 3"]:
        """(J_r, J_w, J_w)."""
        return jnp.stack([self.rotor_inertia, self.wheel_inertia, self.wheel_inertia])

    def _lengths(self) -> Float[Array, " 3"]:
        """(ℓ, 1, 1), the factors from (ω, v_x, v_y) to the velocities (ℓω, v_x, v_y)."""
        one = jnp.ones_like(self.half_length)
        return jnp.stack([self.half_length, one, one])

    def _inertia_along(self, r: Float[Array, " 3"]) -> Scalar:
        """M = m + (J/ℓ² − m) e_1² [kg], such that ½ M σ² is the board's kinetic energy."""
        e1 = _allowed_direction(r)[0]
        return self.mass + (self.inertia / self.half_length**2 - self.mass) * e1 * e1


def _sides(r: Float[Array, " 3"]) -> Float[Array, "2 3"]:
    """The constraint one-forms of back and front wheels on (ℓω, v_x, v_y)."""
    sin, cos = jnp.sin(r[1:]), jnp.cos(r[1:])
    back, front = jnp.unstack(cos)
    across = jnp.stack([-back, front])
    return jnp.stack([across, -sin, cos], axis=1)


def _allowed_direction(r: Float[Array, " 3"]) -> Float[Array, " 3"]:
    """e, the unit vector that both one-forms annihilate."""
    sin, cos = jnp.sin(r[1:]), jnp.cos(r[1:])
    (sin_b, sin_f), (cos_b, cos_f) = jnp.unstack(sin), jnp.unstack(cos)
    of_front, of_back = sin_f * cos_b, cos_f * sin_b
    along = jnp.stack([of_front - of_back, 2.0 * cos_b * cos_f, of_front + of_back])
    return along / jnp.sqrt(2.0 * jnp.dot(cos, cos))


def _turning_part(r: Float[Array, " 3"], rdot: Float[Array, " 3"]) -> tuple[Scalar, Scalar]:
    """e_1 = sin(φ_f − φ_b)/√N with N = 2 (cos² φ_b + cos² φ_f), and its rate ė_1 in closed form."""
    difference, rate = r[2] - r[1], rdot[2] - rdot[1]
    N = 2.0 * (jnp.cos(r[1]) ** 2 + jnp.cos(r[2]) ** 2)
    N_rate = -2.0 * (jnp.sin(2.0 * r[1]) * rdot[1] + jnp.sin(2.0 * r[2]) * rdot[2])
    e1 = jnp.sin(difference) / jnp.sqrt(N)
    return e1, jnp.cos(difference) * rate / jnp.sqrt(N) - 0.5 * e1 * N_rate / N


def _with_shape(board: Float[Array, "3 3"]) -> Float[Array, "6 6"]:
    """[[board, 0], [0, 1]] with the 3 × 3 block of the board's velocities."""
    eye, zero = jnp.eye(3, dtype=board.dtype), jnp.zeros_like(board)
    return jnp.block([[board, zero], [zero, eye]])


def board_bodies(mass, inertias, v, spins, torques) -> tuple[Any, ...]:
    """The mass as a point in the board's axes, and the rotations of board, rotor and trucks; the reactions of the torques
    act on the board.

    **Arguments:** `inertias` `(4,)`, the board's first; `v = (ω, v_x, v_y, …)`; `spins`, `torques` `(3,)`
    of rotor, back and front truck.
    """
    up = jnp.eye(3, dtype=v.dtype)[2:]
    velocity = jnp.concatenate([v[1:3], jnp.zeros_like(v[:1])])
    omega = jnp.concatenate([v[:1], spins])[:, None] * up
    torque = jnp.concatenate([-jnp.sum(torques)[None], torques])[:, None] * up
    inertia = (
        inertias[:, None, None] * jnp.eye(3, dtype=v.dtype)[None]
    )  # only the moments about e_3 are used
    none = jnp.zeros((1, 3), v.dtype)
    return Points(mass[None], velocity[None], none, omega[0]), Spins(inertia, omega, torque)


def board_places(half_length: Array, pose: Array, back: Array, front: Array, rotor: Array) -> tuple:
    """The poses of board, back and front truck and rotor, for `places`."""
    level = jnp.zeros_like(half_length)
    ahead = half_length * jnp.stack([jnp.cos(pose[0]), jnp.sin(pose[0]), level])
    centre = jnp.concatenate([pose[1:], level[None]])
    turned = [about_z(pose[0] + angle) for angle in (back, front, rotor)]
    where = centre - ahead, centre + ahead, centre
    return ((about_z(pose[0]), centre), *zip(turned, where, strict=True))


def board_shapes(half: float) -> tuple[Shape, ...]:
    """The shapes of the board, of back and front truck with their wheels, and of the rotor."""
    wheels = [
        segment((x, y, 0), (-x, y, 0)) for x in (0.2 * half,) for y in (0.35 * half, -0.35 * half)
    ]
    truck = Shape([segment((0, -0.35 * half, 0), (0, 0.35 * half, 0)), *wheels])
    spokes = segment((-0.5 * half, 0, 0), (0.5 * half, 0, 0))
    rotor = Shape([ring(0.5 * half), spokes], np.array([[0.5 * half, 0.0, 0.0]]))
    deck = segment((half, 0, 0), (-half, 0, 0))
    return Shape([deck], trail=np.zeros(3), trail_name="centre"), truck, truck, rotor
