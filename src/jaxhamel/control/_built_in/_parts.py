"""Parts that several built-in problems share: conditions at the end, limits as callables, initial guesses."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._checks._values import check_callable
from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.control._checks._collocation import check_name
from jaxhamel.control._checks._problem_parts import check_depends, check_rows
from jaxhamel.control._problem._costs import AbstractConstraint, ControlEnergy
from jaxhamel.control._problem._curves import Spline
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics import Constant, Kinematic, System
from jaxhamel.mechanics._acceleration import motion

GUESS_INTERVALS = 40  # number of equal intervals between the times of a guess
STEPS_OF_GUESS = 8  # midpoint steps per interval, if the guess is a simulated motion


class ConditionsAtEnd(AbstractConstraint):
    """The condition function(q, u) = 0 at the last time.

    **Arguments:** `function`: a callable pytree (q, u) → `(r,)` or one number, smooth, with independent rows; `name`: for
    messages.
    """

    function: Callable[..., Any]
    name: str = eqx.field(static=True, default="conditions at the end")
    at_end = True

    def __check_init__(self) -> None:
        check_callable("function", self.function, "(q, u) -> (r,)")
        check_name(self.name)

    def check_function(self, t: Time, q: Configuration, u: QuasiVelocity, control: Control) -> None:
        name = f"the function of `{self.name}`"
        check_rows(name, self.function, q, u)
        check_depends(name, self.function, q, u)

    def residual(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Float[Array, " r"]:
        return jnp.atleast_1d(self.function(q, u))


class FactorAtEnd(eqx.Module):
    """The residual local(target, q[0]): the first factor of the configuration reaches `target`, the others are free."""

    space: AbstractSpace
    target: Array

    def __call__(self, q: Configuration, u: QuasiVelocity) -> Array:
        return self.space.local(self.target, q[0])


def least_effort(
    system: System,
    start: tuple[Configuration, Array],
    duration: Any,
    constraints: tuple[Any, ...],
    guess: Callable[[Array], tuple[Configuration, Array, Array]],
) -> ControlProblem:
    """The problem of least ∫ |control|² dt from the state `start`, under constraints.

    `guess`: s ↦ (q, u, control) on [0, 1], with the share s of the duration; a `jax.tree_util.Partial` of its numbers, so
    that other numbers compile nothing.
    """
    return from_guess(system, start, duration, constraints, *_guessed(guess, shares_of_guess()))


@compiled_with(QUICK)
def _guessed(guess: Callable[[Array], Any], shares: Array) -> tuple[Configuration, Array, Array]:
    """(q, u, control) of a guess at all `shares` of the duration."""
    return jax.vmap(guess)(shares)


def from_guess(
    system: System,
    start: tuple[Configuration, Array],
    duration: Any,
    constraints: tuple[Any, ...],
    q: Configuration,
    u: Array,
    c: Array,
) -> ControlProblem:
    """The problem `least_effort` with the guess as arrays: `q`, `u` and the control `c` at the times `shares_of_guess()`."""
    q0, u0 = start
    ts = duration * shares_of_guess()
    curve = spline_through(c, ts[-1], degree=3)
    cost = ControlEnergy(weight=2.0)
    return ControlProblem(system, q0, u0, ts, curve, (cost,), constraints, (q, u))


COEFFICIENTS = 20


def spline_through(values: Array, end: Array, degree: int) -> Spline:
    """The spline with `COEFFICIENTS` coefficients on [0, end] nearest to `values`, `(T, n)`, at T equally spaced times."""
    fit = jnp.asarray(_matrix_of_fit(values.shape[0], degree), values.dtype)
    return Spline(fit @ values, jnp.zeros_like(end), end, degree)


@lru_cache
def _matrix_of_fit(count: int, degree: int) -> Float[np.ndarray, "J T"]:
    """The matrix by which the coefficients of the nearest spline follow from `count` samples."""
    shares = np.linspace(0.0, 1.0, count)
    with jax.ensure_compile_time_eval():  # also while another function is traced
        return np.asarray(Spline.fit(shares, np.eye(count), COEFFICIENTS, degree).coefficients)


def shares_of_guess() -> Array:
    """The times of a guess as shares of the duration."""
    return jnp.linspace(0.0, 1.0, GUESS_INTERVALS + 1)


def least_effort_driven(
    system: Kinematic,
    q0: Configuration,
    duration: Any,
    constraints: tuple[Any, ...],
    control: Callable[[Array], Array],
) -> ControlProblem:
    """The problem `least_effort` of a kinematic system, whose guess is the motion under a given `control`, s ↦ c."""
    shares, none = shares_of_guess(), jnp.zeros(0)
    q, u, c = _guessed_motion(system, q0, duration, control, shares)
    return from_guess(system, (q0, none), duration, constraints, q, u, c)


@compiled_with(QUICK)
def _guessed_motion(
    system: Kinematic,
    q0: Configuration,
    duration: Array,
    control: Callable[[Array], Array],
    shares: Array,
) -> tuple[Configuration, Array, Array]:
    """(q, u, control) at all `shares` of the duration along the motion under a control; u is empty."""
    none, h = jnp.zeros(0), duration / (GUESS_INTERVALS * STEPS_OF_GUESS)

    def step(q, s):
        v, _ = motion(system, jnp.zeros_like(s), q, none, Constant(control(s)))
        return system.space.retract(q, h * v), None

    def interval(q, s):
        middles = s + jnp.arange(0.5, STEPS_OF_GUESS) / (GUESS_INTERVALS * STEPS_OF_GUESS)
        return jax.lax.scan(step, q, middles)[0], q

    last, before = jax.lax.scan(interval, q0, shares[:-1])
    q = jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), before, last)
    return q, jnp.zeros((shares.shape[0], 0)), jax.vmap(control)(shares)


def on_geodesic(
    space: AbstractSpace, start: Configuration, end: Configuration, s: Array
) -> Configuration:
    """start · exp(s log(start⁻¹ end)), on the geodesic from `start` (s = 0) to `end` (s = 1)."""
    return space.retract(start, s * space.local(start, end))


def smooth_step(s: Array) -> Array:
    """The value 3 s² − 2 s³, which rises from 0 to 1 with slope 0 at both ends."""
    return s * s * (3.0 - 2.0 * s)
