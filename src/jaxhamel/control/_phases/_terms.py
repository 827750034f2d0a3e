"""Converts costs and constraints of one phase to those of the problem of all phases."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time
from jaxhamel.control._problem._boundary import AbstractBoundaryConditions, EndState
from jaxhamel.control._problem._costs import AbstractConstraint, AbstractCost
from jaxhamel.control._problem._limits import DesignParameter, FreeEndTime, PathLimit
from jaxhamel.control._problem._scalar_costs import (
    AbstractScalarCost,
    FinalCost,
    InitialCost,
    RunningCost,
)
from jaxhamel.mechanics import System


class PhaseCost(AbstractCost):
    """The cost ½ ∫ |r_k|² T_k ds + ½ |r_end|² of phase k."""

    term: AbstractCost
    k: int = eqx.field(static=True)

    def check(self, system: System, ts: ArrayLike, q0: Configuration, u0: ArrayLike) -> None:
        """Does nothing: the problem of the phase has checked this term."""

    def running(self, system: Any, t: Time, q: Configuration, u: QuasiVelocity, control: Control):
        clock = system.function
        root = jnp.sqrt(clock.durations[self.k])
        return root * self.term.running(*clock.at(self.k, t, q, control))

    def final(self, system: Any, t: Time, q: Configuration, u: QuasiVelocity, control: Control):
        return self.term.final(*system.function.at(self.k, t, q, control))


class _PhaseScalar(AbstractScalarCost):
    """A scalar cost of phase k; the integrand of a `RunningCost` has the factor T_k."""

    function: Any
    weight: Any
    k: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        """Does nothing: the problem of the phase has checked this term."""

    def check(self, system: System, ts: ArrayLike, q0: Configuration, u0: ArrayLike) -> None:
        """Does nothing: the problem of the phase has checked this term."""

    def check_function(self, t: Time, q: Configuration, u: QuasiVelocity, control: Control) -> None:
        """Does nothing: the problem of the phase has checked this term."""

    def value(
        self, system: Any, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Scalar:
        clock = system.function
        at = clock.at(self.k, t, q, control)[1:]
        share = clock.durations[self.k] if isinstance(self, RunningCost) else 1.0
        return jnp.reshape(share * self.weight * self.function(*at), ())


class PhaseRunningCost(_PhaseScalar, RunningCost):
    """A `RunningCost` of one phase."""


class PhaseFinalCost(_PhaseScalar, FinalCost):
    """A `FinalCost` of one phase."""


class PhaseInitialCost(_PhaseScalar, InitialCost):
    """An `InitialCost` of one phase."""


class PhaseLimit(PathLimit):
    """A path limit of one phase."""

    k: int = eqx.field(static=True, default=0)

    def check_function(self, t: Time, q: Configuration, u: QuasiVelocity, control: Control) -> None:
        """Does nothing: the problem of the phase has checked this term."""

    def residual(
        self, system: Any, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Float[Array, " r"]:
        at = system.function.at(self.k, t, q, control)[1:]
        return jnp.asarray(self.function(*at))


class PhaseCondition(AbstractConstraint):
    """Conditions at one end of a phase."""

    term: AbstractConstraint
    k: int = eqx.field(static=True)
    name: str = eqx.field(static=True)
    at_end: bool = eqx.field(static=True)

    def residual(
        self, system: Any, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        return self.term.residual(*system.function.at(self.k, t, q, control))


class PhaseBoundary(AbstractBoundaryConditions):
    """Conditions that relate both ends of a phase."""

    term: AbstractBoundaryConditions
    k: int = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def between(self, system: Any, first: EndState, last: EndState) -> Array:
        clock = system.function
        ends = [clock.state(self.k, q) for q, _ in (first, last)]
        return self.term.between(clock.systems[self.k], *ends)


class Link(AbstractBoundaryConditions):
    """function(q, u, q_next, u_next) = 0, with (q, u) at the end of phase k, (q_next, u_next) at the start of the next.

    Without a function both states are equal.
    """

    function: Callable[..., Any] | None
    k: int = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def between(self, system: Any, first: EndState, last: EndState) -> Array:
        clock = system.function
        (q, u), (new_q, new_u) = clock.state(self.k, last[0]), clock.state(self.k + 1, first[0])
        if self.function is not None:
            return self.function(q, u, new_q, new_u)
        space = clock.systems[self.k].space
        return jnp.concatenate([space.local(q, new_q), new_u - u])


class OfDuration(eqx.Module):
    """Selects the duration of phase k, as the `where` of a `DesignParameter`."""

    k: int = eqx.field(static=True)

    def __call__(self, system: Any) -> Array:
        return system.function.durations[self.k]


class OfSystem(eqx.Module):
    """The argument `where` of a `DesignParameter` that selects a parameter of the system of phase k."""

    where: Callable[..., Any]
    k: int = eqx.field(static=True)

    def __call__(self, system: Any) -> Array:
        return self.where(system.function.systems[self.k])


SCALAR_COSTS = {
    RunningCost: PhaseRunningCost,
    FinalCost: PhaseFinalCost,
    InitialCost: PhaseInitialCost,
}


def cost_of_phase(cost: Any, k: int) -> Any:
    """Converts a cost of phase k to a cost of the problem of all phases."""
    for kind, wrapped in SCALAR_COSTS.items():
        if isinstance(cost, kind):
            return wrapped(cost.function, cost.weight, k)
    return PhaseCost(cost, k)


def constraint_of_phase(term: Any, k: int, begin: Any) -> Any:
    """Converts a constraint of phase k to one of the problem of all phases; `begin`: the first of the phase's own `ts`."""
    named = getattr(term, "label", getattr(term, "name", type(term).__name__))
    name = f"{named}, phase {k + 1}"
    if isinstance(term, FreeEndTime):
        lower, upper = (np.asarray(x) - np.asarray(begin) for x in (term.lower, term.upper))
        return DesignParameter(OfDuration(k), lower, upper, name=f"duration of phase {k + 1}")
    if isinstance(term, DesignParameter):
        return DesignParameter(OfSystem(term.where, k), term.lower, term.upper, name=name)
    if isinstance(term, PathLimit):
        return PhaseLimit(term.function, term.lower, term.upper, name=name, k=k)
    if isinstance(term, AbstractBoundaryConditions):
        return PhaseBoundary(term, k, name)
    return PhaseCondition(term, k, name, bool(term.at_end))
