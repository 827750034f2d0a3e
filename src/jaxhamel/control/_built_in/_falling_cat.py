"""The falling cat: two equal halves joined by a joint that bends and does not twist."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, Scalar, Time, Velocity
from jaxhamel.geometry import (
    SO3,
    Euclidean,
    Product,
    quaternion_matrix,
    quaternion_multiply,
    quaternion_rotate,
)
from jaxhamel.mechanics import System, symmetric_solve
from jaxhamel.mechanics._checks._system import check_control_value
from jaxhamel.mechanics._description._declarations import ORIENTATION, Part, State
from jaxhamel.mechanics._description._drawing import Place, Shape, ring, segment
from jaxhamel.systems._parameters import parameter

RIBS = 4  # circles in the drawing of each half


class FallingCat(System):
    r"""Two equal axisymmetric halves, joined at a point, about their common centre of mass:

        R_± = M exp(±b̂/2) ,  b = (0, b_1, b_2) ,    ρ = ℓ (R_+ + R_−) e_1
        L = ½ ω_+·I ω_+ + ½ ω_−·I ω_− + ¼ m |ρ̇|² ,   I = diag(I_a, I_t, I_t) in each half's own axes,   on SO(3) × R² .

    M is halfway between both halves, e_1 along the spine. The bend b is perpendicular to the spine: the halves bend by |b|
    and have no twist against each other. The angular momentum is zero, which is the constraint

        ω + A(b) ḃ = 0 ,    A = L⁻¹ K ,    L = Σ R I Rᵀ + ½ m (|ρ|² 1 − ρ ρᵀ) ,    K ḃ = Σ R I Rᵀ w + ½ m ρ × ρ̇

    with w the angular velocity of a half relative to M. A closed path of b turns the cat over.

    **Arguments:** `mass`: m of each half [kg]; `length`: ℓ from the joint to a half's centre of mass [m];
    `axial_inertia`: I_a, `transverse_inertia`: I_t of each half about its centre of mass [kg m²].

    Configuration `q = (quaternion of M (4,), b (2,) [rad])`; `u = ḃ` [rad/s]; control: the moments dual to b, `(2,)` [N m].

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

    space: ClassVar[Product] = Product(SO3(), Euclidean(2))
    n_constraints = 3
    n_controls: ClassVar[int | None] = 2
    state_names: ClassVar[State | None] = State(
        (ORIENTATION, Part("bend", ("b_1", "b_2"), "rad", "about e2 and e3")),
        (Part("bend_rate", ("b_1_dot", "b_2_dot"), "rad/s", "of the bend"),),
    )

    def __check_init__(self) -> None:
        positive = ("mass", "length", "axial_inertia", "transverse_inertia")
        _checks.check_numbers(self, positive=positive)

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        halves, moving = jax.jvp(_halves, (q[1],), (v[3:],))
        spins = jnp.einsum("hji,j->hi", halves, v[:3]) + _spins(halves, moving)
        reach, opening = _reach(halves), _reach(moving)
        apart = self.length * (jnp.cross(v[:3], reach) + opening)
        turning = jnp.sum(spins**2 @ self._moments())
        return 0.5 * turning + 0.25 * self.mass * jnp.dot(apart, apart)

    def connection(self, b: Float[Array, " 2"]) -> Float[Array, "3 2"]:
        """A(b) = L⁻¹ K."""
        push = lambda db: jax.jvp(_halves, (b,), (db,))  # noqa: E731
        halves, moving = jax.vmap(push, out_axes=(None, 0))(jnp.eye(2, dtype=b.dtype))
        moments, reach = self._moments(), _reach(halves)
        inertia = jnp.einsum("hij,j,hkj->ik", halves, moments, halves)
        apart = 0.5 * self.mass * self.length**2
        square = jnp.dot(reach, reach) * jnp.eye(3, dtype=b.dtype) - jnp.outer(reach, reach)

        def momentum(moving):
            own = jnp.einsum("hij,j,hj->i", halves, moments, _spins(halves, moving))
            return own + apart * jnp.cross(reach, _reach(moving))

        return symmetric_solve(inertia + apart * square, jax.vmap(momentum)(moving).T)

    def frame(self, t: Time, q: Configuration) -> Float[Array, "5 5"]:
        """u = (ω + A ḃ, ḃ)."""
        return with_connection(self.connection(q[1]))

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "5 5"]:
        return with_connection(-self.connection(q[1]))

    def _moments(self) -> Float[Array, " 3"]:
        """(I_a, I_t, I_t)."""
        return jnp.stack([self.axial_inertia, *[self.transverse_inertia] * 2])

    def force(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Float[Array, " 5"]:
        """(0, 0, 0, τ)."""
        torque = jnp.zeros_like(v[3:]) if control is None else control
        return jnp.concatenate([jnp.zeros_like(v[:3]), torque])

    def check_control(self, t: Time, control: Control) -> None:
        """The moments of the joint, or none."""
        if control is not None:
            check_control_value(t, control, (2,), "moments of the joint [N m]")

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Place, ...]:
        found = []
        for half in (0.5 * _bend(q[1]), -0.5 * _bend(q[1])):
            turned = quaternion_multiply(q[0], SO3().exp(half))
            found.append((turned, jnp.zeros(3, q[0].dtype)))
        middle = 0.5 * self.length * (_halves(q[1])[0] - _halves(q[1])[1])[:, 0]
        shift = -quaternion_rotate(q[0], middle)  # the joint, where the centre of mass rests
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


def with_connection(A: Float[Array, "3 2"]) -> Float[Array, "5 5"]:
    """[[1, A], [0, 1]]."""
    eye = lambda n: jnp.eye(n, dtype=A.dtype)  # noqa: E731
    return jnp.block([[eye(3), A], [jnp.zeros_like(A.T), eye(2)]])


def _spins(halves: Float[Array, "2 3 3"], moving: Float[Array, "2 3 3"]) -> Float[Array, "2 3"]:
    """The angular velocity of each half relative to M in the half's axes, from Rᵀ Ṙ."""
    own = jnp.einsum("hji,hjk->hik", halves, moving)
    return jnp.stack([own[:, 2, 1], own[:, 0, 2], own[:, 1, 0]], axis=1)


def _reach(halves: Float[Array, "2 3 3"]) -> Float[Array, " 3"]:
    """(R_+ + R_−) e_1."""
    return jnp.sum(halves[:, :, 0], axis=0)


def _bend(b: Float[Array, " 2"]) -> Float[Array, " 3"]:
    return jnp.concatenate([jnp.zeros_like(b[:1]), b])


def _halves(b: Float[Array, " 2"]) -> Float[Array, "2 3 3"]:
    """exp(±b̂/2)."""
    bend = 0.5 * _bend(b)
    return jnp.stack([quaternion_matrix(SO3().exp(bend)), quaternion_matrix(SO3().exp(-bend))])
