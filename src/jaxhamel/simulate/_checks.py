"""Checks of the arguments of `simulate`."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxhamel._checks._arguments import callable_with
from jaxhamel._checks._times import check_steps, check_times
from jaxhamel._checks._values import check_finite, check_shape, concrete, described, type_of
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics._checks._system import check_order


def check_lie_group(solver, space) -> None:
    """Checks that LieGroup wraps an explicit Runge–Kutta method and has a space."""
    import diffrax

    if not isinstance(solver, diffrax.AbstractERK | diffrax.Euler):
        raise TypeError(
            f"`solver` is {type_of(solver)}; LieGroup wraps an explicit Runge-Kutta method of diffrax, "
            "for example diffrax.Tsit5() or diffrax.Dopri8()."
        )
    if not isinstance(space, AbstractSpace):
        raise TypeError(
            f"`space` is {type_of(space)}; LieGroup needs the configuration space, "
            "for example LieGroup(diffrax.Tsit5(), system.space)."
        )


def check_projected(solver, space) -> None:
    """Checks that Projected wraps a method of diffrax and has a space whose configurations can be projected."""
    import diffrax

    if not isinstance(solver, diffrax.AbstractSolver):
        raise TypeError(
            f"`solver` is {type_of(solver)}; Projected wraps a method of diffrax, for example diffrax.Tsit5()."
        )
    if not isinstance(space, AbstractSpace):
        raise TypeError(
            f"`space` is {type_of(space)}; Projected needs the configuration space, "
            "for example Projected(diffrax.Tsit5(), system.space)."
        )
    if not getattr(space, "projects", True):
        raise ValueError(
            f"`space` is {type(space).__name__}, whose stored numbers cannot be projected back onto the group; use "
            "LieGroup, which steps in exponential coordinates."
        )


def check_group_state(name: str, space, y) -> None:
    """Checks that y is a pair (q, rest) whose q has the structure and the shapes of a configuration of `space`."""
    _check_pair(name, space, y)


def _check_pair(name, space, y) -> None:
    wanted = space.stored
    if isinstance(y, tuple) and len(y) == 2 and _shapes(y[0]) == _shapes(wanted):
        return
    raise ValueError(
        f"`y0` has the shapes {_shapes(y)}; {name} steps a pair (q, rest) with q of shapes "
        f"{_shapes(wanted)} ({type(space).__name__}). Under BacksolveAdjoint the backward state is no "
        f"such pair: use RecursiveCheckpointAdjoint, DirectAdjoint or ForwardMode with {name}."
    )


def check_solver_space(space, solver: str) -> None:
    """Checks that the solver has a space, or None for the space of the simulated system."""
    if space is not None and not isinstance(space, AbstractSpace):
        raise TypeError(
            f"`space` is {type_of(space)}; {solver} needs the configuration space, for example "
            f"{solver}(space=system.space), or nothing in jaxhamel.simulate."
        )


def check_group_solver_state(solver, y) -> None:
    """Checks that the solver has a space, and that y = (q, rest) with the shapes of a configuration of it."""
    name = type(solver).__name__
    if solver.space is None:
        raise ValueError(
            f"`space` of {name} is missing: in diffrax.diffeqsolve give it as {name}(space=system.space); "
            "only jaxhamel.simulate can take it from the system."
        )
    _check_pair(name, solver.space, y)


def check_variational_order(order, known: tuple) -> None:
    """Checks that a composition of this order exists."""
    if order not in known:
        raise ValueError(f"`order` is {order!r}; Variational has the orders {known}.")


def check_variational_args(args) -> None:
    """Checks that args = (system, control)."""
    if isinstance(args, tuple) and len(args) == 2 and hasattr(args[0], "lagrangian"):
        return
    raise ValueError(
        f"`args` is {type_of(args)}; Variational integrates the Lagrangian of a system, not a vector "
        "field: give args=(system, control), control a callable of t or None."
    )


def check_fixed_step(solver, dt) -> None:
    """Checks that a solver without an error estimate is used with a fixed step."""
    import diffrax

    if dt is None and not isinstance(solver, diffrax.AbstractAdaptiveSolver):
        raise ValueError(
            f"`dt` is missing: {type(solver).__name__} has no error estimate to choose steps by. Give a "
            "fixed step, for example simulate(..., dt=0.01), or another solver."
        )


def check_simulation(system, q0, u0, ts, steps) -> None:
    """Checks the concrete arguments of `simulate`: times, state, tolerances."""
    check_times(ts)
    check_steps(**steps)
    check_order(system, q0, u0, ("q0", "u0"))
    system.space.check(q0, "q0")
    k = system.space.dim - system.n_constraints
    check_shape("u0", u0, (k,), f"{type(system).__name__} has {k} independent quasi-velocities.")
    check_finite("u0", u0)


def check_options(solver, adjoint, max_steps, route) -> None:
    """Checks that solver and adjoint are diffrax's, `max_steps` a positive integer, `route` a string; each may be None."""
    import diffrax

    if solver is not None and not isinstance(solver, diffrax.AbstractSolver):
        raise TypeError(
            f"`solver` is {type_of(solver)}; it must be a diffrax solver such as diffrax.Tsit5() or "
            "jaxhamel.LieGroup(diffrax.Dopri8(), system.space), with the parentheses."
        )
    if adjoint is not None and not isinstance(adjoint, diffrax.AbstractAdjoint):
        raise TypeError(
            f"`adjoint` is {type_of(adjoint)}; it must be a diffrax adjoint such as "
            "diffrax.ForwardMode(), or None to have it chosen."
        )
    if route is not None and not isinstance(route, str):
        raise TypeError(
            f"`route` is {described(route)}; it must be the name of a route, see `jaxhamel.acceleration`, or None."
        )
    is_count = isinstance(max_steps, int | np.integer) and not isinstance(max_steps, bool)
    if max_steps is not None and not (is_count and 0 < max_steps <= MOST_STEPS):
        raise ValueError(
            f"`max_steps` is {described(max_steps)}; it must be a positive whole number up to {MOST_STEPS}, or None."
        )


MOST_STEPS = 2**31 - 1  # steps are counted by 32-bit integers


def check_steps_needed(ts, dt) -> None:
    """Checks that steps of this length reach the last time within `MOST_STEPS`."""
    span = float(ts[-1]) - float(ts[0])
    if span > float(MOST_STEPS) * float(dt):
        raise ValueError(
            f"`dt` is {float(dt):g}: with it, {span:g} s take more than {MOST_STEPS} steps. Give a larger one, or "
            "tolerances."
        )


def warn_of_unfinished(number, of: int, max_steps: int) -> None:
    """Warns of trajectories that did not reach the last time, where their number is known."""
    count = concrete(number)
    if count is not None and count > 0:
        warnings.warn(
            f"{count} of {of} trajectories did not reach the last of `ts`: more than `max_steps` = {max_steps} steps, a "
            "step below rounding, or a state that is not finite; their later rows are NaN. Raise `max_steps`, loosen `rtol` "
            "and `atol`, or let `ensemble.simulate` tell the cause for each.",
            UserWarning,
            stacklevel=4,
        )


def check_adjoint(adjoint, solver) -> None:
    """Checks that the adjoint can differentiate the result of `simulate`."""
    import diffrax

    reasons = {
        diffrax.BacksolveAdjoint: "integrates a motion back in time, approximately, from its states at `ts` alone, and "
        f"cannot step the state of a {type(solver).__name__} solver backwards",
        diffrax.ImplicitAdjoint: "differentiates a steady state, not a motion",
    }
    for kind, reason in reasons.items():
        if isinstance(adjoint, kind):
            raise ValueError(
                f"`adjoint` is {kind.__name__}, which {reason}. Use None (both modes of differentiation), "
                "diffrax.RecursiveCheckpointAdjoint() (reverse mode, little memory), diffrax.ForwardMode() or "
                f"diffrax.DirectAdjoint(); or {kind.__name__} in diffrax.diffeqsolve with jaxhamel.vector_field."
            )


def check_event(event) -> None:
    """Checks that the event is a diffrax event, a function, or a pytree of functions."""
    import diffrax

    if event is None or isinstance(event, diffrax.Event):
        return
    functions = jax.tree.leaves(event, is_leaf=callable)
    if functions and all(callable(f) for f in functions):
        for path, function in jax.tree_util.tree_leaves_with_path(event, is_leaf=callable):
            _check_is_of_state("event" + jax.tree_util.keystr(path), function)
        return
    raise TypeError(
        f"`event` is {type_of(event)}; it must be a function event(t, q, u) of a real or Boolean value, a dict, list or "
        "tuple of such functions, or a diffrax.Event."
    )


def _check_is_of_state(name: str, function: Callable[..., Any]) -> None:
    """Checks that a condition can be called as (t, q, u)."""
    if not callable_with(function, 3):
        raise TypeError(
            f"`{name}` is {type_of(function)} that cannot be called as (t, q, u); write it as a function of these three, "
            "such as lambda t, q, u: q[0] - 0.5."
        )


def check_event_value(name: str, value) -> None:
    """Checks that a condition returns one real number or one Boolean."""
    value = np.asarray(value) if isinstance(value, bool | int | float) else value
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    real = dtype is not None and (
        np.issubdtype(dtype, np.floating) or np.issubdtype(dtype, np.bool_)
    )
    if shape == () and real:
        return
    got = type_of(value) if shape is None else f"shape {shape} of {dtype}"
    raise ValueError(
        f"`{name}` returned {got}; it must return one real number, whose zero is the event, or one Boolean, say "
        "q[0] - 0.5 or q[0] < 0.5."
    )


def check_dense(interpolation) -> None:
    """Checks that the trajectory has an interpolant."""
    if interpolation is None:
        raise ValueError(
            "this trajectory has only the states at `ts`; call simulate(..., dense=True) to be "
            "able to evaluate it in between."
        )


def check_explicit_method(method) -> None:
    """Checks that the method is an explicit Runge–Kutta method."""
    import diffrax

    if not isinstance(method, diffrax.AbstractERK):
        raise TypeError(
            f'`method` is {method!r} ({type_of(method)}); it must be "rk4" or an explicit Runge-Kutta method of '
            "diffrax such as diffrax.Tsit5() or diffrax.Dopri8(), with the parentheses."
        )


def _shapes(tree):
    return jax.tree.map(lambda leaf: tuple(np.shape(leaf)), tree)
