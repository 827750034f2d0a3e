r"""Costs and constraints, as residuals: J = ½ Σ_costs [ ∫ |r(t)|² dt + |r_end|² ] .

Costs are residuals rather than values, because Levenberg–Marquardt needs residuals; gradient descent uses half the sum
of their squares. Weights w multiply the square, r = √w · (…), and are leaves.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel._checks._values import check_callable, check_real
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.control._checks._problem import (
    check_has_contact,
    check_limits,
    check_some_given,
    check_target,
    check_terms,
    check_weight,
)
from jaxhamel.control._checks._problem_parts import check_free, check_rows
from jaxhamel.mechanics import System
from jaxhamel.mechanics._description._parameters import as_parameter, parameter


def last_factor(q: Configuration) -> Array:
    """The last factor of a product configuration (the ball's position), or q itself."""
    return q[-1] if isinstance(q, tuple) else q


def _as_configuration(q):
    """Converts lists to arrays; a tuple is a point of a product space."""
    return jax.tree.map(as_parameter, q, is_leaf=lambda x: isinstance(x, list))


def rate(control: Callable[..., Any], t: Time) -> Array:
    """The derivative θ̇(t) of a control by time."""
    t = jnp.asarray(t)
    return jax.jvp(control, (t,), (jnp.ones_like(t),))[1]


def second_rate(control: Callable[..., Any], t: Time) -> Array:
    """The second derivative θ̈(t) of a control by time."""
    return rate(lambda t: rate(control, t), t)


class AbstractCost(eqx.Module):
    """A term of J: a subclass defines `running`, `final` or both; a residual that it does not define is empty."""

    def __check_init__(self) -> None:
        check_real("weight", getattr(self, "weight", 1.0))

    def running(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Float[Array, " r"]:
        """The residual r(t) under the integral."""
        return jnp.zeros(0, u.dtype)

    def final(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Float[Array, " r"]:
        """The residual r_end at the last time."""
        return jnp.zeros(0, u.dtype)

    def check(self, system: System, ts: ArrayLike, q0: Configuration, u0: ArrayLike) -> None:
        """Raises if the cost does not fit the problem; default: checks `weight`, if there is one."""
        check_weight(getattr(self, "weight", 1.0))

    def check_function(self, t: Time, q: Configuration, u: QuasiVelocity, control: Control) -> None:
        """Raises if a user's function cannot be called, or if its value has a wrong shape or dtype; default: never."""


class Tracking(AbstractCost):
    """The cost of the distance from a path, ½ w ∫ |output(q) − path(t)|² dt.

    **Arguments:** `path`: t -> `(d,)`; `weight`: w; `output`: q -> `(d,)`, by default the last factor of q, which for a
    rolling ball is its position.
    """

    path: Callable[..., Any]
    weight: Any = parameter(default=1.0)
    output: Callable[..., Any] = last_factor

    def __check_init__(self) -> None:
        check_callable("path", self.path, "t -> (d,)")
        check_callable("output", self.output, "q -> (d,)")

    def error(self, t: Time, q: Configuration) -> Array:
        """The tracking error, output(q) − path(t)."""
        return self.output(q) - self.path(t)

    def check(self, system: System, ts: ArrayLike, q0: Configuration, u0: ArrayLike) -> None:
        super().check(system, ts, q0, u0)
        check_terms(self, system, ts, q0)

    def running(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        return jnp.sqrt(self.weight) * self.error(t, q)


class Endpoint(AbstractCost):
    """The cost of the last state's distance from a target, ½ w |(local(q_target, q), u − u_target)|².

    **Arguments:** `q`, `u`: the targets, a configuration and `(k,)`; one of them may be None and is then free; `weight`: w.
    """

    q: Configuration | None = eqx.field(default=None, converter=_as_configuration)
    u: Any = parameter(default=None)
    weight: Any = parameter(default=1.0)

    def __check_init__(self) -> None:
        check_some_given(self, ("q", "u"))

    def check(self, system: System, ts: ArrayLike, q0: Configuration, u0: ArrayLike) -> None:
        super().check(system, ts, q0, u0)
        check_target(self, system)

    def final(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        return jnp.sqrt(self.weight) * _distance(system, self.q, self.u, q, u)


class ControlEnergy(AbstractCost):
    """The cost ½ w ∫ |control(t)|² dt, for controls that are forces; `weight`: w."""

    weight: Any = parameter(default=1.0)

    def running(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        return jnp.sqrt(self.weight) * control(t)


class MassAcceleration(AbstractCost):
    """The cost ½ w ∫ |θ̈(t)|² dt, for controls θ(t) that prescribe a motion; `weight`: w."""

    weight: Any = parameter(default=1.0)

    def running(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        return jnp.sqrt(self.weight) * second_rate(control, t)


class RailLimits(AbstractCost):
    """A soft limit of θ, ½ w ∫ |max(θ − upper, 0)|² + |max(lower − θ, 0)|² dt. For a hard limit use `Limited`.

    **Arguments:** `lower`, `upper`: `(n,)`, in the unit of θ; `weight`: w.
    """

    lower: Any = parameter()
    upper: Any = parameter()
    weight: Any = parameter(default=1.0)

    def __check_init__(self) -> None:
        check_limits(self.lower, self.upper)

    def running(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        theta = control(t)
        over = jnp.concatenate([theta - self.upper, self.lower - theta])
        return jnp.sqrt(self.weight) * jnp.maximum(over, jnp.zeros_like(over))


class ContactLimits(AbstractCost):
    """Soft limits on the contact of a ball with the ground, from `system.contact_force`:

        ½ w ∫ max(N_min − N, 0)² + max(|f| − μ N, 0)² dt .

    **Arguments:** `normal`: N_min [N]; `friction`: μ; `weight`: w [1/N²].
    """

    normal: Any = parameter(default=0.0)
    friction: Any = parameter(default=jnp.inf)
    weight: Any = parameter(default=1.0)

    def check(self, system: System, ts: ArrayLike, q0: Configuration, u0: ArrayLike) -> None:
        super().check(system, ts, q0, u0)
        check_has_contact(system)

    def running(
        self, system: Any, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        force = system.contact_force(t, q, u, control)
        squared = force[0] ** 2 + force[1] ** 2
        sliding = jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1.0)), 0.0)
        limited = jnp.isfinite(self.friction)
        allowed = jnp.where(limited, self.friction, 0.0) * force[2]
        over = jnp.stack([self.normal - force[2], jnp.where(limited, sliding - allowed, -1.0)])
        return jnp.sqrt(self.weight) * jnp.maximum(over, jnp.zeros_like(over))


class Running(AbstractCost):
    """The cost ½ w ∫ |function(t, q, u, control)|² dt of any function.

    **Arguments:** `function`: (t, q, u, control) → `(r,)` or one number, where `control` is the callable; `weight`: w.
    """

    function: Callable[..., Any]
    weight: Any = parameter(default=1.0)

    def __check_init__(self) -> None:
        check_callable("function", self.function, "(t, q, u, control) -> (r,)")

    def check_function(self, t: Time, q: Configuration, u: QuasiVelocity, control: Control) -> None:
        check_rows("`function` of `Running`", self.function, t, q, u, control)

    def running(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        return jnp.sqrt(self.weight) * jnp.atleast_1d(self.function(t, q, u, control))


class AbstractConstraint(eqx.Module):
    """Conditions that must hold exactly, residual = 0, at the first time (`at_end` False) or at the last time (True).

    `at_end` is None for constraints that belong to neither time alone.
    """

    @abstractmethod
    def residual(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Float[Array, " r"]:
        """The conditions' residual at one state; `control` is the callable."""

    def check(self, system: System, ts: ArrayLike, q0: Configuration, u0: ArrayLike) -> None:
        """Raises if the constraint does not fit the problem; default: never."""

    def check_function(self, t: Time, q: Configuration, u: QuasiVelocity, control: Control) -> None:
        """Raises if a user's function cannot be called, or if its value has a wrong shape or dtype; default: never."""


class ControlAt(AbstractConstraint):
    """The conditions θ = `value` and θ̇ = `rate`, each `(n,)`, at the first time or, with `at_end`, at the last time.

    A quantity that is None is free.
    """

    value: Any = parameter(default=None)
    rate: Any = parameter(default=None)
    at_end: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        check_some_given(self, ("value", "rate"))

    def residual(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        pairs = ((self.value, control), (self.rate, lambda t: rate(control, t)))
        return jnp.concatenate([f(t) - x for x, f in pairs if x is not None])


class StateAtEnd(AbstractConstraint):
    """The conditions q(t_N) = `q` and u(t_N) = `u` at the last time. If one of them is None, it is free.

    `free_q`, `free_u`: the indices of coordinates of δ_q = local(`q`, q) and of u without a condition, such as `(2,)`; their
    numbers in `q` and `u` are then only where the search starts.
    """

    q: Configuration | None = eqx.field(default=None, converter=_as_configuration)
    u: Any = parameter(default=None)
    free_q: tuple[int, ...] = eqx.field(static=True, default=())
    free_u: tuple[int, ...] = eqx.field(static=True, default=())
    at_end = True

    def __check_init__(self) -> None:
        check_some_given(self, ("q", "u"))

    def check(self, system: System, ts: ArrayLike, q0: Configuration, u0: ArrayLike) -> None:
        check_target(self, system)
        check_free("StateAtEnd", "q", self.q, self.free_q, system.space.dim)
        check_free("StateAtEnd", "u", self.u, self.free_u, system.n_independent)

    def residual(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        return _distance(system, self.q, self.u, q, u, self.free_q, self.free_u)


def _distance(
    system: System,
    q_target: Configuration | None,
    u_target: ArrayLike | None,
    q: Configuration,
    u: QuasiVelocity,
    free_q: tuple[int, ...] = (),
    free_u: tuple[int, ...] = (),
) -> Array:
    """(local(q_target, q), u − u_target), without the part whose target is None and without free coordinates."""
    parts = [jnp.zeros(0, u.dtype)]
    if q_target is not None:
        parts.append(without(system.space.local(q_target, q), free_q))
    if u_target is not None:
        parts.append(without(u - u_target, free_u))
    return jnp.concatenate(parts)


def without(x: Float[Array, " n"], free: tuple[int, ...]) -> Array:
    """x without the entries at the indices `free`."""
    kept = [i for i in range(x.shape[0]) if i not in free]
    return x[jnp.asarray(kept, int)] if free else x


def running_residual(costs, system: System, t, q, u, control: Control) -> Float[Array, " r"]:
    """All running residuals, concatenated."""
    parts = [cost.running(system, t, q, u, control) for cost in costs]
    return jnp.concatenate([jnp.zeros(0, u.dtype), *parts])


def final_residual(costs, system: System, t, q, u, control: Control) -> Float[Array, " r"]:
    """All final residuals, concatenated."""
    parts = [cost.final(system, t, q, u, control) for cost in costs]
    return jnp.concatenate([jnp.zeros(0, u.dtype), *parts])


def constraint_residual(
    constraints, at_end: bool, system: System, t, q, u, control: Control
) -> Float[Array, " r"]:
    """The residuals of all constraints at the first or at the last time, concatenated."""
    chosen = [c for c in constraints if c.at_end == at_end]
    parts = [c.residual(system, t, q, u, control) for c in chosen]
    return jnp.concatenate([jnp.zeros(0, u.dtype), *parts])
