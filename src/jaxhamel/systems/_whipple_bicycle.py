"""The Whipple bicycle: four bodies, two wheels that roll, six constraints of which two can be integrated."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, Scalar, Time, Vector3, Velocity
from jaxhamel.geometry import (
    SO3,
    Euclidean,
    Product,
    quaternion_matrix,
    quaternion_rotate,
)
from jaxhamel.geometry import quaternion_multiply as multiply
from jaxhamel.mechanics import Points, Spins, System, constraint_force, energy
from jaxhamel.mechanics._checks._system import check_control_value
from jaxhamel.mechanics._description._declarations import ORIENTATION, Part, State
from jaxhamel.mechanics._description._drawing import Shape, about_y, segment, wheel
from jaxhamel.mechanics._description._parameters import INERTIA, parameter
from jaxhamel.systems._bicycle_geometry import (
    centres,
    configuration_on_ground,
    foot,
    frame,
    front_hub,
    geometry,
    inertias,
    inverse_frame,
    masses,
    pitch,
    rear_hub,
    steer_axis,
    velocities,
)
from jaxhamel.systems._bicycle_linear import CanonicalMatrices, canonical_matrices
from jaxhamel.systems._checks import check_inertia
from jaxhamel.systems._own_equations import own_equations


class WhippleBicycle(System):
    r"""A bicycle ridden hands off: rear frame B with the rider fixed to it, front frame H, thin wheels R and F.

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
    which rolls at r_R θ̇_R. `control`: the torques (T_φ, T_δ, T_R) [N m] dual to these rates: T_φ from
    outside on the lean of the rear frame, T_δ between the frames, T_R between rear frame and rear wheel;
    default none.
    The three components of the velocity of each contact point are constraints, so the multipliers
    are the whole forces of the ground on rear and front wheel, `(6,)` [N]. The vertical ones say that
    the wheels stay on the ground: they can be integrated, and `configuration` solves them for the
    pitch.

    **Invariants:** the heights of the two contact points, zero on the ground; energy, where no torque acts.

    **Known solution:** straight on at any constant speed v, about which lean and steer q = (φ, δ) obey
    M q̈ + v C_1 q̇ + (g K_0 + v² K_2) q = 0. The `benchmark` bicycle steers itself upright from 4.292 to
    6.024 m/s.

    **Raises:** ValueError for parameters that are not physical.

    Source: Whipple 1899; Meijaard, Papadopoulos, Ruina and Schwab 2007, whose y points to the right and z
    down: their product of inertia I_xz and their wheel rates have the opposite sign here, φ and δ the same.
    Basu-Mandal, Chatterjee and Papadopoulos 2007 for large angles.
    """

    wheel_base: Array = parameter(
        "distance of the points of contact", "m", (), positive=True, example=1.02
    )
    trail: Array = parameter(
        "by which the steer axis meets the ground ahead of the front contact", "m", (), example=0.08
    )
    steer_axis_tilt: Array = parameter(
        "of the steer axis from the vertical, its top to the rear", "rad", (), example=0.3
    )
    rear_radius: Array = parameter("of the rear wheel", "m", (), positive=True, example=0.3)
    rear_mass: Array = parameter("of the rear wheel", "kg", (), positive=True, example=2.0)
    rear_inertia: Array = parameter(
        "of the rear wheel about its hub: principal moments or matrix",
        "kg m²",
        INERTIA,
        example=(0.0603, 0.12, 0.0603),
    )
    frame_mass: Array = parameter("of rear frame and rider", "kg", (), positive=True, example=85.0)
    frame_com: Array = parameter(
        "centre of mass of the rear frame, from the rear contact",
        "m",
        (3,),
        example=(0.3, 0.0, 0.9),
    )
    frame_inertia: Array = parameter(
        "of the rear frame about its centre of mass: principal moments or matrix",
        "kg m²",
        INERTIA,
        example=((9.2, 0.0, -2.4), (0.0, 11.0, 0.0), (-2.4, 0.0, 2.8)),
    )
    fork_mass: Array = parameter("of the front frame", "kg", (), positive=True, example=4.0)
    fork_com: Array = parameter(
        "centre of mass of the front frame, from the rear contact",
        "m",
        (3,),
        example=(0.9, 0.0, 0.7),
    )
    fork_inertia: Array = parameter(
        "of the front frame about its centre of mass: principal moments or matrix",
        "kg m²",
        INERTIA,
        example=((0.05892, 0.0, 0.00756), (0.0, 0.06, 0.0), (0.00756, 0.0, 0.00708)),
    )
    front_radius: Array = parameter("of the front wheel", "m", (), positive=True, example=0.35)
    front_mass: Array = parameter("of the front wheel", "kg", (), positive=True, example=3.0)
    front_inertia: Array = parameter(
        "of the front wheel about its hub: principal moments or matrix",
        "kg m²",
        INERTIA,
        example=(0.1405, 0.28, 0.1405),
    )
    gravity: Array = parameter(
        "acceleration of gravity, along −z", "m/s²", (), least=0.0, default=9.81
    )

    space: ClassVar[Product] = Product(SO3(), Euclidean(3), Euclidean(3))
    n_constraints = 6
    state_names: ClassVar[State | None] = State(
        (
            ORIENTATION,
            Part("position", ("x", "y", "z"), "m", "of the rear hub"),
            Part(
                "angles",
                ("delta", "theta_rear", "theta_front"),
                "rad",
                "of steer and wheels",
                ("δ", "θ_R", "θ_F"),
            ),
        ),
        (
            Part(
                "rates",
                ("phi_dot", "delta_dot", "theta_rear_dot"),
                "rad/s",
                "of lean, steer and rear wheel",
                ("φ̇", "δ̇", "θ̇_R"),
            ),
        ),
        (
            Part(
                "torques",
                ("lean_torque", "steer_torque", "drive_torque"),
                "N m",
                "on lean, steer and rear wheel",
            ),
        ),
    )
    n_controls: ClassVar[int | None] = 3
    on_ground = True

    def __check_init__(self) -> None:
        _checks.check_numbers(
            self,
            positive=("wheel_base", "rear_radius", "front_radius"),
            finite=("trail", "steer_axis_tilt", "gravity"),
        )
        for part in ("rear", "frame", "fork", "front"):
            _checks.check_shape(f"{part}_mass", getattr(self, f"{part}_mass"), ())
            _checks.check_positive(f"{part}_mass", getattr(self, f"{part}_mass"))
            check_inertia(f"{part}_inertia", getattr(self, f"{part}_inertia"))
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

    # --- the system, for the general equations ---------------------------------------------

    def initial_state(self) -> tuple[Any, ...]:
        """The bicycle at rest, upright and straight on the ground, with the rear wheel above the origin."""
        return self.configuration(jnp.zeros(()), jnp.zeros(())), jnp.zeros(3)

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Any, ...]:
        frame, hub, (steer, rear, front) = q
        foot_at = foot(self) - rear_hub(self)
        fork = multiply(frame, SO3().exp(steer * steer_axis(self)))
        fork_at = hub + quaternion_rotate(frame, foot_at)
        front_at = fork_at + quaternion_rotate(fork, front_hub(self))
        wheels = multiply(frame, about_y(rear)), multiply(fork, about_y(front))
        return (frame, hub), (fork, fork_at), (wheels[0], hub), (wheels[1], front_at)

    def shapes(self) -> tuple[Shape, ...]:
        hub, fork_foot = np.asarray(rear_hub(self)), np.asarray(foot(self))
        down, wheels = (
            np.asarray(steer_axis(self)),
            (float(self.rear_radius), float(self.front_radius)),
        )
        saddle, head = np.asarray(self.frame_com) - hub, -2.6 * max(wheels) * down
        frame = segment((0, 0, 0), saddle, fork_foot - hub + head, (0, 0, 0))
        fork = segment(head, -0.7 * max(wheels) * down, np.asarray(front_hub(self)))
        rear, front = (Shape(wheel(radius)) for radius in wheels)
        return Shape([frame], saddle[None]), Shape([fork]), rear, front

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        up = quaternion_matrix(q[0])[2]
        mass, inertia = masses(self), inertias(self)
        velocity, omega = velocities(self, q, v)
        height = q[1][2] + centres(self, q) @ up
        kinetic = jnp.dot(mass, jnp.sum(velocity * velocity, axis=1))
        turning = jnp.einsum("bi,bij,bj->", omega, inertia, omega)
        return 0.5 * (kinetic + turning) - self.gravity * jnp.dot(mass, height)

    def frame(self, t: Time, q: Configuration) -> Float[Array, "9 9"]:
        """u = (slip of rear and front wheel, φ̇, δ̇, θ̇_R) on v = (Ω, ẋ_R, δ̇, θ̇_R, θ̇_F)."""
        return frame(self, q)

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "9 9"]:
        """B = A⁻¹ in closed form, up to three equations for the velocity of the front point of contact, which are solved."""
        return inverse_frame(self, q)

    def force(self, t: Time, q: Configuration, v: Velocity, control: Any) -> Float[Array, " 9"]:
        """Q: T_φ acts about the heading, T_δ on the steer angle, T_R on the angle of the rear wheel."""
        if control is None:
            return jnp.zeros_like(v)
        none = jnp.zeros_like(v[:3])
        return jnp.concatenate(
            [control[0] * geometry(self, q).heading, none, control[1:], none[:1]]
        )

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple[Any, ...]:
        """The masses as points in the axes of the rear frame, the rotations each in its own body's axes, with the
        torques.
        """
        mass, (velocity, omega) = masses(self), velocities(self, q, v)
        weight = -self.gravity * mass[:, None] * quaternion_matrix(q[0])[2][None]
        torques = jnp.zeros_like(omega)
        if control is not None:
            lean, steer, drive = control(t)
            axle, axis = jnp.eye(3, dtype=v.dtype)[1], steer_axis(self)
            on_frame = lean * geometry(self, q).heading - steer * axis - drive * axle
            torques = jnp.stack([drive * axle, on_frame, steer * axis, jnp.zeros_like(axis)])
        return Points(mass, velocity, weight, v[:3]), Spins(inertias(self), omega, torques)

    def invariants(
        self, t: Time, q: Configuration, u: Vector3, control: Control
    ) -> dict[str, Array]:
        heights = {"heights": self.contact_points(q)[:, 2]}
        return heights if control is not None else {"energy": energy(self, t, q, u), **heights}

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control gives the torques on lean, steer and rear wheel, `(3,)`, or is None."""
        if control is not None:
            meaning = "the torques on lean, steer and rear wheel [N m]"
            check_control_value(t, control, (3,), meaning)

    # --- closed forms and other quantities of this system --------------------------------------

    def pitch(self, lean: Scalar, steer: Scalar) -> Scalar:
        """θ of the rear frame about its axle [rad], positive nose down, for which both wheels touch the ground."""
        return pitch(self, lean, steer)

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
        given = _in_one_dtype(lean, steer, heading, contact, wheels)
        return configuration_on_ground(self, *given)

    def contact_points(self, q: Configuration) -> Float[Array, "2 3"]:
        """The lowest points of rear and front wheel in space [m]."""
        at = geometry(self, q)
        return q[1][None] + jnp.stack([at.rear, at.reach]) @ quaternion_matrix(q[0]).T

    def contact_forces(
        self, t: Time, q: Configuration, u: Vector3, control: Control = None
    ) -> Float[Array, "2 3"]:
        """Forces of the ground on rear and front wheel in space [N]: the multipliers."""
        return constraint_force(self, t, q, u, control).reshape(2, 3)

    @own_equations
    def canonical_matrices(self) -> CanonicalMatrices:
        """M, C_1, K_0, K_2 of the linear equations about riding straight on, by derivatives of the nonlinear equations:

            M q̈ + v C_1 q̇ + (g K_0 + v² K_2) q = (T_φ, T_δ) ,    q = (φ, δ) .

        Source: Meijaard et al. 2007, eq. (5.3).
        """
        return canonical_matrices(self)


def _in_one_dtype(*values: Any) -> tuple[Array, ...]:
    """The values as arrays of one dtype: that of the arrays among them, by default JAX's."""
    given = [x.dtype for x in values if hasattr(x, "dtype")]
    dtype = jnp.result_type(*given) if given else jnp.result_type(float)
    return tuple(jnp.asarray(x, dtype) for x in values)
