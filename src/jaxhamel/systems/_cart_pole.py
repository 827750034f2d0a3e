"""The cart with a pole, whose swing-up is an example in tutorials on trajectory optimisation."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, Scalar, Time, Velocity
from jaxhamel.geometry import Euclidean
from jaxhamel.mechanics import System
from jaxhamel.mechanics._checks._system import check_control_value
from jaxhamel.mechanics._description._declarations import Part, State
from jaxhamel.mechanics._description._drawing import Place, Shape, about_y, box_edges, segment
from jaxhamel.mechanics._description._parameters import parameter


class CartPole(System):
    r"""A cart on a rail with a pole, a point mass at the end of a rod without mass:

        L = ½ m_1 ẋ² + ½ m_2 ((ẋ + ℓ θ̇ cos θ)² + (ℓ θ̇ sin θ)²) + m_2 g ℓ cos θ ,    Q = (F, 0) .

    **Arguments:** `cart_mass`: m_1 [kg]; `pole_mass`: m_2 [kg]; `length`: ℓ [m]; `gravity`: g [m/s²].

    Configuration `q = (x, θ)` `(2,)` [m, rad], θ from hanging; `u = q̇`; control: the force F on the cart, `(1,)` [N].

    **Invariants** without force: the energy; the horizontal momentum (m_1 + m_2) ẋ + m_2 ℓ θ̇ cos θ.

    **Known solution:** without force and momentum, ½ m_2 ℓ² (1 − m_2 cos² θ/(m_1 + m_2)) θ̇² − m_2 g ℓ cos θ = const.

    **Raises:** `ValueError` for parameters that are not physical.

    Source: Kelly 2017, section 6, whose parameters are the defaults.
    """

    cart_mass: Array = parameter("mass of the cart", "kg", (), positive=True, default=1.0)
    pole_mass: Array = parameter(
        "mass at the end of the pole", "kg", (), positive=True, default=0.3
    )
    length: Array = parameter("length of the pole", "m", (), positive=True, default=0.5)
    gravity: Array = parameter("acceleration of gravity", "m/s²", (), least=0.0, default=9.81)

    space: ClassVar[Euclidean] = Euclidean(2)
    n_controls: ClassVar[int | None] = 1
    state_names: ClassVar[State | None] = State(
        (Part("position", ("x", "theta"), "m, rad", "of the cart, and of the pole from hanging"),),
        (Part("rate", ("x_dot", "theta_dot"), "m/s, rad/s", "of cart and pole"),),
        (Part("force", ("force",), "N", "on the cart"),),
    )

    def __check_init__(self) -> None:
        positive = ("cart_mass", "pole_mass", "length")
        _checks.check_numbers(self, positive=positive, finite=("gravity",))

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        (_, theta), (x_dot, theta_dot) = jnp.unstack(q), jnp.unstack(v)
        along = x_dot + self.length * theta_dot * jnp.cos(theta)
        up = self.length * theta_dot * jnp.sin(theta)
        kinetic = self.cart_mass * x_dot**2 + self.pole_mass * (along**2 + up**2)
        return 0.5 * kinetic + self.pole_mass * self.gravity * self.length * jnp.cos(theta)

    def force(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Float[Array, " 2"]:
        """Q = (F, 0): the force acts on the cart."""
        pushed = jnp.zeros_like(v[:1]) if control is None else control
        return jnp.concatenate([pushed, jnp.zeros_like(v[:1])])

    def invariants(
        self, t: Time, q: Configuration, u: Float[Array, " 2"], control: Control
    ) -> dict[str, Array]:
        """Energy and horizontal momentum; empty if a force acts."""
        if control is not None:
            return {}
        height = -self.length * jnp.cos(q[1])
        potential = self.pole_mass * self.gravity * height
        pole = self.pole_mass * self.length * u[1] * jnp.cos(q[1])
        return {
            "energy": self.lagrangian(t, q, u) + 2.0 * potential,
            "horizontal momentum": (self.cart_mass + self.pole_mass) * u[0] + pole,
        }

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control is the force on the cart, `(1,)`, or None."""
        if control is not None:
            check_control_value(t, control, (1,), "the force on the cart [N]")

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Place, ...]:
        zero = jnp.zeros_like(q[0])
        at = jnp.stack([q[0], zero, zero])
        return (about_y(zero), at), (about_y(-q[1]), at)

    def shapes(self) -> tuple[Shape, ...]:
        length = float(self.length)
        tip = np.array([0.0, 0.0, -length])
        cart = box_edges(length * np.array([0.5, 0.3, 0.2]))
        pole = Shape([segment((0, 0, 0), tip)], tip[None], trail=tip, trail_name="pole")
        return Shape(cart), pole
