"""The falling cat: two equal halves joined by a joint that bends and does not twist."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, Scalar, Time, Velocity
from jaxhamel.geometry import (
    SO3,
    quaternion_multiply,
    quaternion_rotate,
)
from jaxhamel.geometry._entire import entire
from jaxhamel.mechanics._checks._system import check_control_value
from jaxhamel.mechanics._description._declarations import ORIENTATION, Part, State
from jaxhamel.mechanics._description._drawing import Place, Shape, ring, segment
from jaxhamel.mechanics._description._parameters import parameter
from jaxhamel.systems._zero_momentum import AbstractZeroMomentum

RIBS = 4  # circles in the drawing of each half


class FallingCat(AbstractZeroMomentum):
    r"""Two equal axisymmetric halves, joined at a point, about their common centre of mass:

        R_± = M exp(±b̂/2) ,  b = (0, b_1, b_2) ,    ρ = ℓ (R_+ + R_−) e_1
        L = ½ ω_+·I ω_+ + ½ ω_−·I ω_− + ¼ m |ρ̇|² ,   I = diag(I_a, I_t, I_t) in each half's own axes,   on SO(3) × R² .

    M is the frame halfway between both halves, e_1 along the spine. The bend b is perpendicular to the spine: the halves
    bend by |b| and do not twist relative to each other. The angular momentum is zero, which is the constraint

        ω + A(b) ḃ = 0 ,    A ḃ = e_1 (b_1 ḃ_2 − b_2 ḃ_1)/|b|² (I_t sin² ϑ − I_a cos ϑ (1 − cos ϑ))/(I_a cos² ϑ + I_t sin² ϑ)

    with ϑ = |b|/2. A closed path of b turns the cat over. The angular velocity of a half relative to M is
    e_1 (1 − cos ϑ)(b_1 ḃ_2 − b_2 ḃ_1)/|b|² ± ½ (ḃ sin ϑ/ϑ + b (b·ḃ)(1 − sin ϑ/ϑ)/|b|²), and its axis is R_± e_1.

    **Arguments:** `mass`: m of each half [kg]; `length`: ℓ from the joint to a half's centre of mass [m];
    `axial_inertia`: I_a, `transverse_inertia`: I_t of each half about its centre of mass [kg m²].

    Configuration `q = (quaternion of M (4,), b (2,) [rad])`; `u = ḃ` [rad/s]; control: the moments dual to b, `(2,)` [N m].

    **Invariants** without moments: the energy.

    **Known solution:** A(b) b = 0, so that a bend along a ray turns nothing; without moments it obeys
    (I_t + m ℓ² sin²(|b|/2)) (|b|˙)² = const.

    **Raises:** `ValueError` for parameters that are not physical.

    Source: Kane and Scher 1969, with the joint of Montgomery 1993, section 4.
    """

    mass: Array = parameter("of each half", "kg", (), positive=True, default=1.5)
    length: Array = parameter(
        "from the joint to a half's centre of mass", "m", (), positive=True, default=0.12
    )
    axial_inertia: Array = parameter(
        "of a half about its axis", "kg m²", (), positive=True, default=0.0027
    )
    transverse_inertia: Array = parameter(
        "of a half across its axis", "kg m²", (), positive=True, default=0.00855
    )

    state_names: ClassVar[State | None] = State(
        (ORIENTATION, Part("bend", ("b_1", "b_2"), "rad", "about e2 and e3")),
        (Part("bend_rate", ("b_1_dot", "b_2_dot"), "rad/s", "of the bend"),),
        (Part("moments", ("moment_1", "moment_2"), "N m", "about e2 and e3"),),
    )

    def __check_init__(self) -> None:
        positive = ("mass", "length", "axial_inertia", "transverse_inertia")
        _checks.check_numbers(self, positive=positive)

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        b, b_dot, (c, s_1, s_2, s_3) = q[1], v[3:], _functions(q[1])
        opening = jnp.dot(b, b_dot)
        apart = self.length * jnp.stack([-0.5 * s_1 * opening, 2.0 * c * v[2], -2.0 * c * v[1]])
        common = v[:3] + 0.25 * s_2 * _along_spine(b[0] * b_dot[1] - b[1] * b_dot[0])
        against = 0.5 * _bend(s_1 * b_dot + 0.25 * s_3 * opening * b)
        axis, leaning = _along_spine(c), _leaning(b)
        turning = self._of_half(common + against, axis + leaning)
        turning += self._of_half(common - against, axis - leaning)
        return turning + 0.25 * self.mass * jnp.dot(apart, apart)

    def _of_half(self, omega: Float[Array, " 3"], axis: Float[Array, " 3"]) -> Scalar:
        """½ ω·I ω of an axisymmetric half."""
        excess = self.axial_inertia - self.transverse_inertia
        square = jnp.dot(omega, omega)
        return 0.5 * (self.transverse_inertia * square + excess * jnp.dot(axis, omega) ** 2)

    def connection(self, r: Float[Array, " 2"]) -> Float[Array, "3 2"]:
        """A(r) of ω = −A ṙ with r = b; only its row for e_1 is not zero."""
        c, s_1, s_2, _ = _functions(r)
        across = self.transverse_inertia * s_1 * s_1
        about_spine = self.axial_inertia * c * c + across * _quarter(r)
        size = 0.25 * (across - self.axial_inertia * c * s_2) / about_spine
        row = size * jnp.stack([-r[1], r[0]])
        return jnp.stack([row, jnp.zeros_like(row), jnp.zeros_like(row)])

    def invariants(
        self, t: Time, q: Configuration, u: Float[Array, " 2"], control: Control
    ) -> dict[str, Array]:
        """The energy; empty if moments act."""
        v = self.inverse_frame(t, q)[:, 3:] @ u
        return {"energy": self.lagrangian(t, q, v)} if control is None else {}

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control gives the moments of the joint, `(2,)`, or is None."""
        if control is not None:
            check_control_value(t, control, (2,), "moments of the joint [N m]")

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Place, ...]:
        found = []
        for half in (0.5 * _bend(q[1]), -0.5 * _bend(q[1])):
            turned = quaternion_multiply(q[0], SO3().exp(half))
            found.append((turned, jnp.zeros(3, q[0].dtype)))
        middle = self.length * _leaning(q[1])
        # the position of the joint, from the centre of mass, which is at rest
        shift = -quaternion_rotate(q[0], middle)
        return tuple((turned, at + shift) for turned, at in found)

    def shapes(self) -> tuple[Shape, ...]:
        length = 2.0 * float(self.length)
        radius = float(jnp.sqrt(2.0 * self.axial_inertia / self.mass))
        return tuple(_half(sign * length, radius) for sign in (1.0, -1.0))


def _half(length: float, radius: float) -> Shape:
    """A cylinder along e_1 with its legs towards −e_3."""
    rings = [ring(radius, (1.0, 0.0, 0.0), (x, 0.0, 0.0)) for x in np.linspace(0, length, RIBS)]
    legs = [
        segment((0.8 * length, y, -radius), (0.8 * length, y, -3.0 * radius))
        for y in (-0.5 * radius, 0.5 * radius)
    ]
    return Shape([*rings, segment((0, 0, 0), (length, 0, 0)), *legs])


def _bend(b: Float[Array, " 2"]) -> Float[Array, " 3"]:
    return jnp.concatenate([jnp.zeros_like(b[:1]), b])


def _along_spine(x: Scalar) -> Float[Array, " 3"]:
    return jnp.stack([x, jnp.zeros_like(x), jnp.zeros_like(x)])


def _leaning(b: Float[Array, " 2"]) -> Float[Array, " 3"]:
    """½ (R_+ − R_−) e_1."""
    half = 0.5 * _functions(b)[1]
    return jnp.stack([jnp.zeros_like(half), half * b[1], -half * b[0]])


def _quarter(b: Float[Array, " 2"]) -> Scalar:
    return 0.25 * jnp.dot(b, b)


def _functions(b: Float[Array, " 2"]) -> tuple[Scalar, ...]:
    """cos ϑ, sin ϑ/ϑ, (1 − cos ϑ)/ϑ² and (ϑ − sin ϑ)/ϑ³ for ϑ = |b|/2, smooth at b = 0 (Stumpff's C_0 to C_3 of ϑ²)."""
    return tuple(entire(k, _quarter(b)) for k in range(4))
