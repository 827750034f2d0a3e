"""The knife edge on an inclined plane."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Control, Scalar, Time, Velocity
from jaxhamel.geometry import SE2
from jaxhamel.mechanics import Points, Spins, System
from jaxhamel.mechanics._description._declarations import Part, State
from jaxhamel.mechanics._description._drawing import Shape, segment
from jaxhamel.mechanics._description._parameters import parameter
from jaxhamel.systems._descriptions import POSE
from jaxhamel.systems._own_equations import own_equations


class KnifeEdge(System):
    r"""A blade on a slope, its centre of mass above the point of contact: v̇ = g sin α cos φ, ω̇ = 0.

        L = ½ m (v_1² + v_2²) + ½ I ω² + m g x sin α on SE(2) ,    v_2 = 0 ,    u = (v, ω) = (v_1, ω)

    **Arguments:**

    - `mass`: m [kg].
    - `inertia`: I about the normal of the plane [kg m²].
    - `slope`: α [rad], the inclination of the plane; x points down the slope.
    - `gravity`: g [m/s²].

    Configuration `q (3,)`: (φ, x, y) [rad, m], φ from the line of steepest descent to the blade;
    `u = (v, ω)` [m/s, rad/s], v along the blade.

    **Invariants:** energy; ω; ω v − g sin α sin φ.

    **Known solution:** from rest at φ = 0 with ω ≠ 0 the cycloid x = g sin α sin²ωt/(2 ω²),
    y = g sin α (ωt − ½ sin 2ωt)/(2 ω²): the blade drifts *across* the slope and on average does not
    go down. `solution` takes any initial state with ω ≠ 0.

    **Raises:** ValueError for parameters that are not physical.

    Source: Bloch 2003, section 1.6; Neimark and Fufaev 1972.
    """

    mass: Array = parameter("mass", "kg", (), positive=True, example=1.0)
    inertia: Array = parameter(
        "about the normal of the plane", "kg m²", (), positive=True, example=0.1
    )
    slope: Array = parameter("inclination of the plane, x points down", "rad", (), example=0.3)
    gravity: Array = parameter("acceleration of gravity", "m/s²", (), least=0.0, default=9.81)

    space: ClassVar[SE2] = SE2()
    n_constraints = 1
    state_names: ClassVar[State | None] = State(
        (POSE,),
        (Part("velocities", ("v", "omega"), "m/s, rad/s", "along the blade, and of turning"),),
    )

    def __check_init__(self) -> None:
        _checks.check_numbers(self, positive=("mass", "inertia"), finite=("slope", "gravity"))

    def shapes(self) -> tuple[Shape, ...]:
        half = float(jnp.sqrt(3.0 * self.inertia / self.mass))
        blade = segment((-half, 0, 0), (half, 0, 0))
        return (Shape([blade], np.zeros((1, 3)), trail=np.zeros(3), trail_name="blade"),)

    def lagrangian(self, t: Time, q: Float[Array, " 3"], v: Velocity) -> Scalar:
        omega, x, y = jnp.unstack(v)
        squared = x * x + y * y
        spin = 0.5 * self.inertia * omega * omega
        return spin + self.mass * (0.5 * squared + self._pull() * q[1])

    def frame(self, t: Time, q: Float[Array, " 3"]) -> Float[Array, "3 3"]:
        """u = (v_2, v_1, ω)."""
        return jnp.eye(3, dtype=q.dtype)[::-1]

    def inverse_frame(self, t: Time, q: Float[Array, " 3"]) -> Float[Array, "3 3"]:
        return jnp.eye(3, dtype=q.dtype)[::-1]

    def bodies(
        self, t: Time, q: Float[Array, " 3"], v: Velocity, control: Control
    ) -> tuple[Any, ...]:
        """The mass as a point in the axes of the blade, with the weight m g sin α (cos φ, −sin φ), and the rotation."""
        zero = jnp.zeros_like(v[0])
        omega = jnp.stack([zero, zero, v[0]])
        velocity = jnp.stack([v[1], v[2], zero])
        weight = self.mass * self._pull() * jnp.stack([jnp.cos(q[0]), -jnp.sin(q[0]), zero])
        inertia = self.inertia * jnp.eye(3, dtype=v.dtype)  # only the moment about e_3 is used
        return Points(self.mass[None], velocity[None], weight[None], omega), Spins(
            inertia[None], omega[None], jnp.zeros((1, 3), v.dtype)
        )

    def invariants(
        self, t: Time, q: Float[Array, " 3"], u: Float[Array, " 2"], control: Control
    ) -> dict[str, Array]:
        kinetic = 0.5 * (self.mass * u[0] * u[0] + self.inertia * u[1] * u[1])
        return {
            "energy": kinetic - self.mass * self._pull() * q[1],
            "angular velocity": u[1],
            "turning speed": u[1] * u[0] - self._pull() * jnp.sin(q[0]),
        }

    # --- closed forms and other quantities of this system --------------------------------------

    @own_equations
    def closed_form(
        self, t: Time, q: Float[Array, " 3"], u: Float[Array, " 2"], control: Control = None
    ) -> Float[Array, " 2"]:
        """(v̇, ω̇) = (g sin α cos φ, 0). Arguments as for `jaxhamel.acceleration`, whose value it equals."""
        return jnp.stack([self._pull() * jnp.cos(q[0]), jnp.zeros_like(u[1])])

    @own_equations
    def solution(
        self, t: Time, q0: Float[Array, " 3"], u0: Float[Array, " 2"]
    ) -> tuple[Float[Array, " 3"], Float[Array, " 2"]]:
        """The exact (q, u) at time t after (q_0, u_0) with ω ≠ 0; with s = g sin α and φ = φ_0 + ω t:

        v = c + (s/ω) sin φ ,    c = v_0 − (s/ω) sin φ_0
        x = x_0 + (c/ω) [sin φ] + (s/2ω²) [sin² φ] ,
        y = y_0 − (c/ω) [cos φ] + (s/2ω²) [φ − sin φ cos φ] ,    [f] = f(φ) − f(φ_0) .
        """
        omega = u0[1]
        phi = q0[0] + omega * t
        sin, cos, sin0, cos0 = jnp.sin(phi), jnp.cos(phi), jnp.sin(q0[0]), jnp.cos(q0[0])
        pull = self._pull() / omega
        base = u0[0] - pull * sin0
        x = base * (sin - sin0) + 0.5 * pull * (sin * sin - sin0 * sin0)
        y = base * (cos0 - cos) + 0.5 * pull * (phi - q0[0] - sin * cos + sin0 * cos0)
        q = jnp.stack([phi, q0[1] + x / omega, q0[2] + y / omega])
        return q, jnp.stack([base + pull * sin, omega])

    def _pull(self) -> Scalar:
        """g sin α."""
        return self.gravity * jnp.sin(self.slope)
