"""The built-in problem in which a ball's rails and masses are designed together with its motion."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.control._built_in._arguments import checked, number
from jaxhamel.control._built_in._balls import ball_to_point
from jaxhamel.control._problem._boundary import FreeInitialState
from jaxhamel.control._problem._costs import AbstractConstraint, AbstractCost
from jaxhamel.control._problem._limits import DesignParameter
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.geometry import quaternion_matrix
from jaxhamel.mechanics import MovingParts, System
from jaxhamel.systems import RollingBall


class Balance(AbstractConstraint):
    """The condition that the masses' centre is on the vertical through the ball's centre:

        horizontal part of  Λ Σ mᵢ χᵢ / (Σ mᵢ size)  =  0 ,

    with the ball's orientation Λ, the masses' positions χᵢ in the ball, and the `size` of the rails [m].
    """

    size: Array
    name: str = eqx.field(static=True, default="balance")
    at_end: bool = eqx.field(static=True, default=False)

    def residual(
        self, system: Any, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        ball = system.system
        centre = ball.masses @ ball.rails(q[2]) / jnp.sum(ball.masses)
        return quaternion_matrix(q[0])[:2] @ centre / self.size


class RestThere(AbstractConstraint):
    """The condition that at the last time the ball is at `place` and all velocities are zero."""

    place: Array
    name: str = eqx.field(static=True, default="rest at the end")
    at_end = True

    def residual(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        return jnp.concatenate([q[1] - self.place, u])


class PriceOfMass(AbstractCost):
    """The final cost w Σ mᵢ of the masses on the rails; `weight`: w."""

    weight: Array

    def final(
        self, system: Any, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        return jnp.sqrt(2.0 * self.weight * system.system.masses)


def radii_of_rails(driven: Any) -> Array:
    """The rails' radii."""
    return driven.system.rails.radius


def masses_of_ball(driven: Any) -> Array:
    """The masses on the rails."""
    return driven.system.masses


@checked(RollingBall, positive=("smallest", "largest", "lightest", "heaviest", "price"))
def ball_design(
    x: ArrayLike = 0.5,
    y: ArrayLike = 0.25,
    duration: ArrayLike = 4.0,
    smallest: ArrayLike = 0.04,
    largest: ArrayLike = 0.085,
    lightest: ArrayLike = 0.2,
    heaviest: ArrayLike = 1.0,
    price: ArrayLike = 1.0,
    *,
    system: RollingBall | None = None,
) -> ControlProblem:
    """Designs the rails and masses of a ball together with its motion from rest to rest:

        min  ∫ |θ̈|² dt + w Σ mᵢ

    over the control, the radii of the rails, the masses mᵢ, and their angles at the start. The masses are in balance at
    both ends.

    **Arguments:** `x`, `y`: where the ball ends [m]; `duration` [s]; `smallest`, `largest`: bounds of the radii [m];
    `lightest`, `heaviest`: bounds of the masses [kg]; `price`: w [1/kg s³]; `system`: the ball from which the search starts,
    as for `ball_to_point`.

    **Returns:** a `ControlProblem` of the `MovingParts` of the ball; `result.problem.system` has the design.
    """
    given = ball_to_point(x, y, duration, system=system)
    driven: Any = given.system
    assert isinstance(driven, MovingParts)
    size = jnp.mean(radii_of_rails(driven))
    constraints = (
        RestThere(jnp.stack([number(x), number(y)])),
        Balance(size, name="balance at the start"),
        Balance(size, name="balance at the end", at_end=True),
        FreeInitialState(q=(5, 6, 7), u=False, lower=-1.0, upper=1.0, name="masses at the start"),
        DesignParameter(radii_of_rails, number(smallest), number(largest), name="radii of rails"),
        DesignParameter(masses_of_ball, number(lightest), number(heaviest), name="masses"),
    )
    costs = (*given.costs, PriceOfMass(number(price)))
    return ControlProblem(
        driven, given.q0, given.u0, given.ts, given.curve, costs, constraints, given.guess
    )
