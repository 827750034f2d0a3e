"""The Whipple bicycle: four bodies, two wheels that roll, six constraints of which two can be integrated."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, Scalar, Time, Vector3, Velocity
from jaxhamel.geometry import SO3, Euclidean, Product, cross, hat, quaternion_matrix
from jaxhamel.geometry import quaternion_multiply as multiply
from jaxhamel.mechanics import (
    Constant,
    Points,
    Spins,
    System,
    acceleration,
    constraint_force,
    energy,
    inverse,
)
from jaxhamel.systems._parameters import inertia_matrix, parameter

_NEWTON_STEPS = 10  # of the pitch, from zero; five reach rounding for a lean and a steer of 1 rad


class _Geometry(NamedTuple):
    """Where things are at q, in the axes of the rear frame unless said otherwise.

    `up`: Γ; `steered`: S, fork to rear frame; `rear`, `front`: hub to point of contact, r d, front in
    fork axes; `steer_arm`: from the foot of the steer axis to the front point of contact, fork axes;
    `reach`: from the rear hub to the front point of contact; `heading`: horizontal, across the axle.
    """

    up: Vector3
    steered: Float[Array, "3 3"]
    rear: Vector3
    front: Vector3
    steer_arm: Vector3
    reach: Vector3
    heading: Vector3


class CanonicalMatrices(NamedTuple):
    """M q̈ + v C_1 q̇ + (g K_0 + v² K_2) q = (T_φ, T_δ), q = (φ, δ), each `(2, 2)`."""

    mass: Float[Array, "2 2"]
    damping: Float[Array, "2 2"]
    gravity_stiffness: Float[Array, "2 2"]
    speed_stiffness: Float[Array, "2 2"]


class WhippleBicycle(System):
    r"""A bicycle without hands: rear frame B with the rider, front frame H, wheels R and F as thin as blades.

        L = Σ ½ m |ẋ_i|² + ½ ω_i·I_i ω_i − m_i g x_i,3 on SO(3) × R³ × R³ ,    i = R, B, H, F
        ẋ_R + ω_R × r_R d_R = 0 ,    ẋ_F + ω_F × r_F d_F = 0 ,    d = −(e_3 − a a_3)/|e_3 − a a_3| ,  a the axle

    **Arguments:** of the bicycle upright and straight, x forward, y to the left, z up from the rear
    point of contact:

    - `wheel_base`: w [m]; `trail`: c, by which the steer axis meets the ground ahead of the front
        point of contact [m]; `steer_axis_tilt`: λ of the steer axis from the vertical, its top to the
        rear [rad].
    - `rear_radius`, `front_radius`: r_R, r_F [m]; `rear_mass`, `front_mass` [kg]; `rear_inertia`,
        `front_inertia`: of the wheels about their centres, which are their hubs, `(3,)` or `(3, 3)`
        [kg m²], the axle along y. A round wheel has equal moments along x and z.
    - `frame_mass`, `fork_mass`: m_B, m_H [kg]; `frame_com`, `fork_com`: their centres of mass, from
        the rear point of contact, `(3,)` [m]; `frame_inertia`, `fork_inertia`: about these, `(3,)` or
        `(3, 3)` [kg m²].
    - `gravity`: g [m/s²], along −z.

    Configuration `q = (quaternion (4,) of B, rear hub (3,), (δ, θ_R, θ_F))` [rad, m]: the steer angle
    δ, positive to the right, and the wheels' turns relative to their frames, positive forward.
    `u = (φ̇, δ̇, θ̇_R)` [rad/s]: the rates of lean (positive to the right), of steer, of the rear wheel,
    which rolls at r_R θ̇_R. `control`: the torques (T_φ, T_δ, T_R) [N m] dual to these: one that leans
    the rear frame from without, one between the frames, one that drives the rear wheel against its
    frame; default none.
    The three components of the velocity of each contact point are constraints, so the multipliers
    are the whole forces of the ground on rear and front wheel, `(6,)` [N]. The vertical ones say that
    the wheels stay on the ground: they can be integrated, and `configuration` solves them for the
    pitch.

    **Invariants:** the heights of the two contact points, zero on the ground; energy, where no torque acts.

    **Known solution:** straight on at any constant speed. The `benchmark` bicycle, with M q̈ + v C_1 q̇ +
    (g K_0 + v² K_2) q = 0 about it, q = (φ, δ), steers itself upright from 4.292 to 6.024 m/s.

    **Raises:** ValueError for parameters that are not physical.

    Source: Whipple 1899; Meijaard, Papadopoulos, Ruina and Schwab 2007, whose y points to the right, z
    down: products of inertia with one of x or z and the signs of wheel rates differ, φ and δ do not. Basu-Mandal,
    Chatterjee and Papadopoulos 2007 for large angles.
    """

    wheel_base: Array = parameter()
    trail: Array = parameter()
    steer_axis_tilt: Array = parameter()
    rear_radius: Array = parameter()
    rear_mass: Array = parameter()
    rear_inertia: Array = parameter()
    frame_mass: Array = parameter()
    frame_com: Array = parameter()
    frame_inertia: Array = parameter()
    fork_mass: Array = parameter()
    fork_com: Array = parameter()
    fork_inertia: Array = parameter()
    front_radius: Array = parameter()
    front_mass: Array = parameter()
    front_inertia: Array = parameter()
    gravity: Array = parameter(default=9.81)

    space = Product(SO3(), Euclidean(3), Euclidean(3))
    n_constraints = 6

    def __check_init__(self):
        _checks.check_numbers(
            self,
            positive=("wheel_base", "rear_radius", "front_radius"),
            finite=("trail", "steer_axis_tilt", "gravity"),
        )
        for part in ("rear", "frame", "fork", "front"):
            _checks.check_shape(f"{part}_mass", getattr(self, f"{part}_mass"), ())
            _checks.check_positive(f"{part}_mass", getattr(self, f"{part}_mass"))
            _checks.check_inertia(f"{part}_inertia", getattr(self, f"{part}_inertia"))
        for name in ("frame_com", "fork_com"):
            _checks.check_shape(name, getattr(self, name), (3,))
            _checks.check_finite(name, getattr(self, name))

    @classmethod
    def benchmark(cls) -> "WhippleBicycle":
        """The bicycle with rider of Meijaard et al. 2007, table 1; signs of x–z products for z up."""
        given: dict[str, Any] = {
            "wheel_base": 1.02,
            "trail": 0.08,
            "steer_axis_tilt": jnp.pi / 10,
            "rear_radius": 0.3,
            "rear_mass": 2.0,
            "rear_inertia": (0.0603, 0.12, 0.0603),
            "frame_mass": 85.0,
            "frame_com": (0.3, 0.0, 0.9),
            "frame_inertia": ((9.2, 0.0, -2.4), (0.0, 11.0, 0.0), (-2.4, 0.0, 2.8)),
            "fork_mass": 4.0,
            "fork_com": (0.9, 0.0, 0.7),
            "fork_inertia": ((0.05892, 0.0, 0.00756), (0.0, 0.06, 0.0), (0.00756, 0.0, 0.00708)),
            "front_radius": 0.35,
            "front_mass": 3.0,
            "front_inertia": (0.1405, 0.28, 0.1405),
        }
        return cls(**given)

    # --- the system, as the general equations take it ---------------------------------------------

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        up = quaternion_matrix(q[0])[2]
        mass, inertia = self._masses(), self._inertias()
        velocity, omega = self._velocities(q, v)
        height = q[1][2] + self._centres(q) @ up
        kinetic = jnp.dot(mass, jnp.sum(velocity * velocity, axis=1))
        turning = jnp.einsum("bi,bij,bj->", omega, inertia, omega)
        return 0.5 * (kinetic + turning) - self.gravity * jnp.dot(mass, height)

    def frame(self, t: Time, q: Configuration) -> Float[Array, "9 9"]:
        """u = (slip of rear and front wheel, φ̇, δ̇, θ̇_R) on v = (Ω, ẋ_R, δ̇, θ̇_R, θ̇_F)."""
        at, rotation = self._geometry(q), quaternion_matrix(q[0])
        eye = jnp.eye(9, dtype=rotation.dtype)
        none, axle, to_space = jnp.zeros_like(at.up), eye[1, :3], rotation @ at.steered
        rear = jnp.stack([none, rotation @ cross(axle, at.rear), none], axis=1)
        steering = to_space @ cross(self._steer_axis(), at.steer_arm)
        front = jnp.stack([steering, none, to_space @ cross(axle, at.front)], axis=1)
        return jnp.concatenate(
            [
                jnp.concatenate([-rotation @ hat(at.rear), eye[:3, :3], rear], axis=1),
                jnp.concatenate([-rotation @ hat(at.reach), eye[:3, :3], front], axis=1),
                jnp.concatenate([at.heading, jnp.zeros(6, rotation.dtype)])[None],
                eye[6:8],
            ]
        )

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "9 9"]:
        """B = A⁻¹. With Ω = φ̇ h + ψ̇ Γ + θ̇ a (heading, vertical, axle), c from contact to contact and

            ψ̇ Γ × c + θ̇ a × c + θ̇_F S (a × r_F d_F) = Λᵀ(s_F − s_R) − φ̇ h × c − δ̇ S (e × g) + θ̇_R a × r_R d_R

        three equations are left to solve: the velocity of the front point of contact, seen from the rear.
        """
        at, rotation = self._geometry(q), quaternion_matrix(q[0])
        eye = jnp.eye(9, dtype=rotation.dtype)
        axle, between = eye[1, :3], at.reach - at.rear
        turns = [cross(at.up, between), cross(axle, between), at.steered @ cross(axle, at.front)]
        dual = jnp.stack([cross(turns[i - 2], turns[i - 1]) for i in range(3)])
        steering = at.steered @ cross(self._steer_axis(), at.steer_arm)
        rolling = cross(axle, at.rear)
        given = jnp.stack([-cross(at.heading, between), -steering, rolling], axis=1)
        right = jnp.concatenate([-rotation.T, rotation.T, given], axis=1)
        yaw, pitch, front = (dual @ right) / jnp.dot(dual[0], turns[0])
        omega = _outer(at.heading, eye[6]) + _outer(at.up, yaw) + _outer(axle, pitch)
        hub = eye[:3] + rotation @ (hat(at.rear) @ omega - _outer(rolling, eye[8]))
        return jnp.concatenate([omega, hub, eye[7:], front[None]])

    def force(self, t: Time, q: Configuration, v: Velocity, control: Any) -> Float[Array, " 9"]:
        """T_φ along the heading, T_δ and T_R on the coordinates that they turn."""
        if control is None:
            return jnp.zeros_like(v)
        none = jnp.zeros_like(v[:3])
        return jnp.concatenate(
            [control[0] * self._geometry(q).heading, none, control[1:], none[:1]]
        )

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple:
        """Centres of mass in the axes of the rear frame, spins each in its body's; the torques act between bodies."""
        mass, (velocity, omega) = self._masses(), self._velocities(q, v)
        weight = -self.gravity * mass[:, None] * quaternion_matrix(q[0])[2][None]
        torques = jnp.zeros_like(omega)
        if control is not None:
            lean, steer, drive = control(t)
            axle, axis = jnp.eye(3, dtype=v.dtype)[1], self._steer_axis()
            on_frame = lean * self._geometry(q).heading - steer * axis - drive * axle
            torques = jnp.stack([drive * axle, on_frame, steer * axis, jnp.zeros_like(axis)])
        return Points(mass, velocity, weight, v[:3]), Spins(self._inertias(), omega, torques)

    def invariants(
        self, t: Time, q: Configuration, u: Vector3, control: Control
    ) -> dict[str, Array]:
        heights = {"heights": self.contact_points(q)[:, 2]}
        return heights if control is not None else {"energy": energy(self, t, q, u), **heights}

    def check_control(self, t: Time, control: Control) -> None:
        """Three torques."""
        if control is not None:
            meaning = "the torques on lean, steer and rear wheel [N m]"
            _checks.check_control_value(t, control, (3,), meaning)

    # --- what this system knows beyond the general equations --------------------------------------

    def pitch(self, lean: Scalar, steer: Scalar) -> Scalar:
        """θ of the rear frame about its axle [rad], positive nose down, for which both wheels touch the ground."""

        def front_height(pitch):
            at = self._geometry_of(_up(lean, pitch), steer)
            return jnp.dot(at.up, at.reach - at.rear)

        def newton(height, pitch):
            def step(_, pitch):
                value, slope = jax.jvp(height, (pitch,), (jnp.ones_like(pitch),))
                return pitch - value / slope

            return jax.lax.fori_loop(0, _NEWTON_STEPS, step, pitch)

        def divide(slope, right):
            return right / slope(jnp.ones_like(right))

        return jax.lax.custom_root(front_height, jnp.zeros_like(lean), newton, divide)

    def configuration(
        self,
        lean: Scalar,
        steer: Scalar,
        heading: Scalar = 0.0,  # pyright: ignore[reportArgumentType]
        contact: Float[Array, " 2"] = (0.0, 0.0),  # pyright: ignore[reportArgumentType]
        wheels: Float[Array, " 2"] = (0.0, 0.0),  # pyright: ignore[reportArgumentType]
    ) -> Configuration:
        """The bicycle on the ground with both wheels.

        **Arguments:** `lean`: φ, `steer`: δ, both positive to the right [rad]; `heading`: of the rear
        frame from the x axis, counter-clockwise from above [rad]; `contact`: of the rear wheel, (x, y)
        [m]; `wheels`: (θ_R, θ_F) [rad].
        """
        lean, steer, heading, contact, wheels = _in_one_dtype(lean, steer, heading, contact, wheels)
        leaned = multiply(_turn(2, heading), _turn(0, lean))
        q = multiply(leaned, _turn(1, self.pitch(lean, steer)))
        rotation = quaternion_matrix(q)
        hub = -rotation @ self._geometry_of(rotation[2], steer).rear
        ground = jnp.concatenate([contact, jnp.zeros(1, contact.dtype)])
        return q, ground + hub, jnp.concatenate([steer[None], wheels])

    def contact_points(self, q: Configuration) -> Float[Array, "2 3"]:
        """The lowest points of rear and front wheel in space [m]."""
        at = self._geometry(q)
        return q[1][None] + jnp.stack([at.rear, at.reach]) @ quaternion_matrix(q[0]).T

    def contact_forces(
        self, t: Time, q: Configuration, u: Vector3, control: Control = None
    ) -> Float[Array, "2 3"]:
        """Forces of the ground on rear and front wheel in space [N]: the multipliers."""
        return constraint_force(self, t, q, u, control).reshape(2, 3)

    def canonical_matrices(self) -> CanonicalMatrices:
        """M, C_1, K_0, K_2 of the linear equations about riding straight on, from the nonlinear ones by their derivatives.

        Source: Meijaard et al. 2007, eq. (5.3).
        """

        def rates(x, speed):
            q = self.configuration(x[0], x[1])
            u = jnp.stack([x[2], x[3], speed / self.rear_radius])
            control = Constant(jnp.concatenate([x[4:], jnp.zeros_like(x[:1])]))
            return acceleration(self, 0.0, q, u, control)[:2]

        # q̈ by (φ, δ, φ̇, δ̇, T_φ, T_δ), at rest and at 1 m/s
        speeds = jnp.stack([jnp.zeros_like(self.gravity), jnp.ones_like(self.gravity)])
        at_rest, moving = jax.vmap(jax.jacfwd(rates), in_axes=(None, 0))(
            jnp.zeros(6, speeds.dtype), speeds
        )
        mass = inverse(at_rest[:, 4:])
        stiffness = -mass @ at_rest[:, :2]
        return CanonicalMatrices(
            mass,
            -mass @ moving[:, 2:4],
            stiffness / self.gravity,
            -mass @ moving[:, :2] - stiffness,
        )

    # --- geometry ---------------------------------------------------------------------------------

    def _steer_axis(self) -> Vector3:
        """e, downwards."""
        tilt = self.steer_axis_tilt
        return jnp.stack([jnp.sin(tilt), jnp.zeros_like(tilt), -jnp.cos(tilt)])

    def _foot(self) -> Vector3:
        """Where the steer axis meets the ground, from the rear point of contact, upright."""
        zero = jnp.zeros_like(self.trail)
        return jnp.stack([self.wheel_base + self.trail, zero, zero])

    def _rear_hub(self) -> Vector3:
        return self.rear_radius * jnp.eye(3, dtype=self.rear_radius.dtype)[2]

    def _front_hub(self) -> Vector3:
        """From the foot of the steer axis, fork axes."""
        return jnp.stack([-self.trail, jnp.zeros_like(self.trail), self.front_radius])

    def _geometry(self, q: Configuration) -> _Geometry:
        return self._geometry_of(quaternion_matrix(q[0])[2], q[2][0])

    def _geometry_of(self, up: Vector3, steer: Scalar) -> _Geometry:
        steered = _rotation(self._steer_axis(), steer)
        rear, front = self.rear_radius * _down(up), self.front_radius * _down(up @ steered)
        steer_arm = self._front_hub() + front
        reach = self._foot() - self._rear_hub() + steered @ steer_arm
        heading = cross(_down(up), jnp.eye(3, dtype=up.dtype)[1])
        return _Geometry(up, steered, rear, front, steer_arm, reach, heading)

    def _centres(self, q: Configuration) -> Float[Array, "4 3"]:
        """Centres of mass of R, B, H, F from the rear hub, rear frame's axes."""
        steered = _rotation(self._steer_axis(), q[2][0])
        fork = jnp.stack([self.fork_com - self._foot(), self._front_hub()]) @ steered.T
        fork = fork + (self._foot() - self._rear_hub())[None]
        frame = self.frame_com - self._rear_hub()
        return jnp.concatenate([jnp.stack([jnp.zeros_like(frame), frame]), fork])

    def _velocities(
        self, q: Configuration, v: Velocity
    ) -> tuple[Float[Array, "4 3"], Float[Array, "4 3"]]:
        """Of R, B, H, F: velocities in the axes of the rear frame, angular velocities each in its own."""
        omega, (steer, rear, front) = v[:3], q[2]
        axis, axle = self._steer_axis(), jnp.eye(3, dtype=v.dtype)[1]
        steered = _rotation(axis, steer)
        of_fork = omega @ steered + v[6] * axis
        hub, centres = v[3:6] @ quaternion_matrix(q[0]), self._centres(q)
        foot = hub + cross(omega, self._foot() - self._rear_hub())
        arms = jnp.stack([self.fork_com - self._foot(), self._front_hub()])
        fork = foot[None] + jnp.stack([steered @ cross(of_fork, arm) for arm in arms])
        velocity = jnp.concatenate([jnp.stack([hub, hub + cross(omega, centres[1])]), fork])
        of_rear = omega @ _rotation(axle, rear) + v[7] * axle
        of_front = of_fork @ _rotation(axle, front) + v[8] * axle
        return velocity, jnp.stack([of_rear, omega, of_fork, of_front])

    def _masses(self) -> Float[Array, " 4"]:
        return jnp.stack([self.rear_mass, self.frame_mass, self.fork_mass, self.front_mass])

    def _inertias(self) -> Float[Array, "4 3 3"]:
        given = (self.rear_inertia, self.frame_inertia, self.fork_inertia, self.front_inertia)
        return jnp.stack([inertia_matrix(inertia) for inertia in given])


def _down(up: Vector3) -> Vector3:
    """d: the unit vector across the axle e_2 that points down most."""
    zero = jnp.zeros_like(up[0])
    return -jnp.stack([up[0], zero, up[2]]) / jnp.sqrt(up[0] * up[0] + up[2] * up[2])


def _up(lean: Scalar, pitch: Scalar) -> Vector3:
    """Γ of the rear frame, leaned and then pitched."""
    across = jnp.cos(lean)
    return jnp.stack([-across * jnp.sin(pitch), jnp.sin(lean), across * jnp.cos(pitch)])


def _rotation(axis: Vector3, angle: Scalar) -> Float[Array, "3 3"]:
    """cos θ + sin θ â + (1 − cos θ) a aᵀ (Rodrigues)."""
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    eye = jnp.eye(3, dtype=axis.dtype)
    return cos * eye + sin * hat(axis) + (1.0 - cos) * _outer(axis, axis)


def _turn(axis: int, angle: Scalar) -> Float[Array, " 4"]:
    """The quaternion of a turn about a coordinate axis."""
    half = 0.5 * angle
    vector = jnp.sin(half) * jnp.eye(3, dtype=half.dtype)[axis]
    return jnp.concatenate([jnp.cos(half)[None], vector])


def _outer(a: Array, b: Array) -> Array:
    return a[:, None] * b[None, :]


def _in_one_dtype(*values: Any) -> tuple[Array, ...]:
    """Numbers and lists in the precision of the arrays among them."""
    given = [x.dtype for x in values if hasattr(x, "dtype")]
    dtype = jnp.result_type(*given) if given else jnp.result_type(float)
    return tuple(jnp.asarray(x, dtype) for x in values)
