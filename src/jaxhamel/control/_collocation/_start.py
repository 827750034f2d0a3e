"""The transcription of a problem on a mesh, and the iterate from which the search starts."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._checks._dependence import depends_on
from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._typing import Configuration, Scalar
from jaxhamel.control._checks._collocation import (
    check_has_value_only,
    check_limit_can_hold,
    check_limit_shape,
    check_one_end_time,
    check_target_within,
)
from jaxhamel.control._checks._problem_parts import check_one_initial_state, check_one_target
from jaxhamel.control._collocation._elastic import inside
from jaxhamel.control._collocation._points import PointRule
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription, along
from jaxhamel.control._interior_point._derivatives import evaluate
from jaxhamel.control._problem._boundary import FreeInitialState
from jaxhamel.control._problem._costs import StateAtEnd
from jaxhamel.control._problem._limits import (
    DesignParameter,
    FreeEndTime,
    PathLimit,
    bounds_of_designs,
    values_of_designs,
)
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._scaling._sizes import TypicalSizes, in_size, of_size, size_of
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics import Constant

FIRST_INTERVALS = 20  # the number of intervals with which a search begins that chooses its own mesh


def shares_of(
    problem: ControlProblem, intervals: int | Literal["auto"] | None
) -> Float[Array, " N+1"]:
    """The nodes of the first mesh, as shares of the duration from 0 to 1.

    **Arguments:** `intervals`: the number of equal intervals; "auto" stands for `FIRST_INTERVALS`, and with None the nodes
    are the problem's times.
    """
    ts = problem.ts
    if intervals == "auto":
        intervals = FIRST_INTERVALS
    if intervals is not None:
        return jnp.linspace(0.0, 1.0, intervals + 1, dtype=ts.dtype)
    return (ts - ts[0]) / (ts[-1] - ts[0])


def transcribe(
    problem: ControlProblem,
    rule: PointRule,
    shares: Float[Array, " N+1"],
    cost_unit: Scalar | float = 1.0,
    sizes: TypicalSizes | None = None,
) -> Transcription:
    """Transcribes a problem on a mesh; `shares` are the mesh times as fractions of the duration, from 0 to 1.

    `cost_unit`: the number by which the costs are divided; `sizes`: those of unknowns and equations.
    """
    check_has_value_only(problem.system)
    ts = problem.ts
    duration = ts[-1] - ts[0]
    limits = tuple(x for x in problem.constraints if isinstance(x, PathLimit))
    free = [x for x in problem.constraints if isinstance(x, FreeEndTime)]
    check_one_end_time(len(free))
    lower, upper = _limit_bounds(problem, limits)
    designs = tuple(x for x in problem.constraints if isinstance(x, DesignParameter))
    p_lower, p_upper = (_parameter_bounds(problem, free, designs, x) for x in ("lower", "upper"))
    started = [x for x in problem.constraints if isinstance(x, FreeInitialState)]
    check_one_initial_state(len(started))
    check_one_target(
        [(None if x.free_q else x.q, None if x.free_u else x.u) for x in _targets_of(problem)]
    )
    free_start = started[0].coordinates(problem.system) if started else ()
    m = eqx.filter_eval_shape(problem.curve, ts[0]).shape[0]

    def everywhere(x):
        return jnp.broadcast_to(x, (shares.shape[0] - 1, len(rule.points), *x.shape))

    return Transcription(
        problem.system, problem.costs, problem.constraints, limits, ts[0], duration, shares,
        everywhere(lower), everywhere(upper), p_lower, p_upper, jnp.asarray(cost_unit, shares.dtype), rule, m, bool(free),
        free_start, designs, (), sizes,
    )  # fmt: skip


def on_mesh(
    own: Transcription, shares: Float[Array, " M+1"], rule: PointRule | None = None
) -> Transcription:
    """The same problem on another mesh, with the points of `rule` if it is given.

    `own` must have the problem's own bounds, which are the same at all points. Nothing is traced or checked again, which
    would take longer than ten iterations of a small problem.
    """
    points = own.rule if rule is None else rule
    shape = shares.shape[0] - 1, len(points.points)
    lower, upper = (jnp.broadcast_to(x[0, 0], (*shape, x.shape[2])) for x in (own.lower, own.upper))
    mesh = shares.astype(own.shares.dtype)
    return dataclasses.replace(own, shares=mesh, rule=points, lower=lower, upper=upper)


def _parameter_bounds(
    problem: ControlProblem,
    free: list[FreeEndTime],
    designs: tuple[DesignParameter, ...],
    side: str,
) -> Float[Array, " p"]:
    """The bounds of the parameters p on one `side`, "lower" or "upper": end time, first node, design parameters."""
    dtype = problem.u0.dtype
    ends = [jnp.asarray(getattr(x, side), dtype)[None] for x in free]
    for start in problem.constraints:
        if isinstance(start, FreeInitialState):
            given = first_node(problem)[np.asarray(start.coordinates(problem.system))]
            ends.append(given + jnp.asarray(getattr(start, side), dtype))
    parts = [*ends, *bounds_of_designs(problem.system, designs, side, dtype)]
    return jnp.concatenate([jnp.zeros(0, dtype), *parts])


def first_node(problem: ControlProblem) -> Float[Array, " d"]:
    """(0, u0): the coordinates of the initial state in the chart about q0."""
    return jnp.concatenate([jnp.zeros(problem.system.space.dim, problem.u0.dtype), problem.u0])


def guessed(problem: ControlProblem) -> Any:
    """The problem's guess, with the problem's initial state in place of the guess's first one.

    If the guess is the initial state at all times and there is a `StateAtEnd`, it is replaced by the geodesic to this state.
    """
    targets = _targets_of(problem)
    return _guessed(problem, _target_state(problem, targets[0]) if targets else None)


def _with_first_row(xs: Array, x: Array) -> Array:
    """The rows `xs` with the first one replaced by `x`."""
    return jnp.concatenate([x.astype(xs.dtype)[None], xs[1:]])


@compiled_with(QUICK)
def _guessed(problem: ControlProblem, end: Any) -> Any:
    """The same; `end`: the state at the end, None if there is no `StateAtEnd`."""
    start = (problem.q0, problem.u0)
    given = jax.tree.map(_with_first_row, problem.guess, start)
    if end is None:
        return given
    same = jax.tree.map(lambda xs, x: jnp.all(xs == x[None]), problem.guess, start)
    stays = jnp.all(jnp.stack(jax.tree.leaves(same)))
    moved = _states_on_geodesic(problem.system.space, problem.ts, start, end)
    return jax.tree.map(lambda a, b: jnp.where(stays, a, b), moved, given)


def _states_on_geodesic(space: AbstractSpace, ts: Float[Array, " n"], begin: Any, end: Any) -> Any:
    """States on the geodesic from the state `begin`, (q, u), to `end` at the times `ts`."""
    shares = (ts - ts[0]) / (ts[-1] - ts[0])
    delta = space.local(begin[0], end[0])
    qs = jax.vmap(lambda share: space.retract(begin[0], share * delta))(shares)
    return qs, begin[1][None] + shares[:, None] * (end[1] - begin[1])[None]


def _limit_bounds(problem: ControlProblem, limits: tuple[PathLimit, ...]) -> tuple[Array, Array]:
    """(lower, upper) bounds of all path limits, each `(r,)`."""
    dtype = problem.u0.dtype
    rows: list[list[Array]] = [[], []]
    for limit in limits:
        shape = limit_shape(problem, limit)
        for side, bound in zip(rows, (limit.lower, limit.upper), strict=True):
            side.append(jnp.broadcast_to(jnp.asarray(bound, dtype), shape))
    lower, upper = (jnp.concatenate([jnp.zeros(0, dtype), *side]) for side in rows)
    return lower, upper


def limit_shape(problem: ControlProblem, limit: PathLimit) -> tuple[int, ...]:
    """The shape of a limit's function. Checks that the limit's bounds fit it, and that the initial state is within them."""

    def at_first(system, ts, q, u, curve):
        return limit.residual(system, ts[0], q, u, Constant(curve(ts[0])))

    given = problem.system, problem.ts, problem.q0, problem.u0, problem.curve
    shape = eqx.filter_eval_shape(at_first, *given).shape
    check_limit_shape(limit.label, shape, limit.lower, limit.upper)
    if type(limit) is PathLimit:
        _check_can_hold(problem, limit)
    return shape


def chosen_points(kind: str, problem: ControlProblem) -> str:
    """ "gauss" or "radau": `kind` itself, or the points that "auto" stands for.

    Limits of the state hold between Radau points, one of which is at the node, more closely than between Gauss points. A
    limited control that reaches its bound needs Gauss points (`_mesh/_junctions.py`).
    """
    if kind != "auto":
        return kind
    limits = [x for x in problem.constraints if isinstance(x, PathLimit)]
    return "radau" if limits and not any(is_of_control(problem, x) for x in limits) else "gauss"


def is_of_control(problem: ControlProblem, limit: PathLimit) -> bool:
    """Whether the function of a limit depends on the control."""
    t, value = problem.ts[0], problem.curve(problem.ts[0])

    def at(value):
        return limit.residual(problem.system, t, problem.q0, problem.u0, Constant(value))

    return depends_on(at, value)[0]


def _check_can_hold(problem: ControlProblem, limit: PathLimit) -> None:
    starts_there = not any(isinstance(x, FreeInitialState) for x in problem.constraints)
    value, bounds = problem.curve(problem.ts[0]), (limit.lower, limit.upper)

    def at(t):
        return lambda q, u, value: limit.residual(problem.system, t, q, u, Constant(value))

    given = problem.q0, problem.u0, value
    check_limit_can_hold(limit.quantity, at(problem.ts[0]), *given, *bounds, starts_there)
    if any(isinstance(x, FreeEndTime | DesignParameter) for x in problem.constraints):
        return
    for target in _targets_of(problem):
        state, is_free = _target_state(problem, target), _is_free(target)
        check_target_within(limit.quantity, at(problem.ts[-1]), *state, value, *bounds, is_free)


def _is_free(target: StateAtEnd) -> tuple[bool, bool]:
    """Whether q and u, or some of their coordinates, are free at the end."""
    return target.q is None or bool(target.free_q), target.u is None or bool(target.free_u)


def _targets_of(problem: ControlProblem) -> list[StateAtEnd]:
    """The constraints that give the state at the last time."""
    return [x for x in problem.constraints if isinstance(x, StateAtEnd)]


def _target_state(problem: ControlProblem, target: StateAtEnd) -> tuple[Any, Any]:
    """(q, u) of a target, those of the initial state where it leaves them free."""

    def cast(given, like):
        if given is None:
            return like
        return jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype), given, like)

    return cast(target.q, problem.q0), cast(target.u, problem.u0)


def interpolated(
    space: AbstractSpace, ts: Float[Array, " n"], guess: Any
) -> Callable[[Scalar], tuple[Configuration, Array]]:
    """The guess (q, u) as a function of (t − t_0)/(t_N − t_0): geodesics on the space between its states at `ts`."""
    given = (ts - ts[0]) / (ts[-1] - ts[0])

    def state(share):
        index = jnp.clip(jnp.searchsorted(given, share, side="right") - 1, 0, given.shape[0] - 2)
        part = (share - given[index]) / (given[index + 1] - given[index])
        a, b = along(guess, index), along(guess, index + 1)
        q = space.retract(a[0], part * space.local(a[0], b[0]))
        return q, a[1] + part * (b[1] - a[1])

    return state


@compiled_with(QUICK)
def first_iterate(
    transcription: Transcription,
    ts: Float[Array, " n"],
    guess: Any,
    curve: Any,
    begin: Any,
    end: Scalar,
) -> CollocationPoint:
    """The first iterate: states interpolated along geodesics between those of the guess, controls from the curve.

    **Arguments:** `ts`: the times of the guess; `begin`: the initial state (q0, u0), at which the iterate begins except in
    free coordinates; `end`: the last time.
    """
    space = transcription.system.space
    own, there = along(guess, 0), begin
    x = jnp.concatenate([space.local(there[0], own[0]), own[1]])
    p = _first_parameters(transcription, x, end)
    state = interpolated(space, ts, guess)
    nodes = jax.vmap(state)(transcription.shares)
    nodes = jax.tree.map(lambda xs, x: xs.at[0].set(x), nodes, begin)
    points = jnp.asarray(np.asarray(transcription.rule.points), p.dtype)
    a, length = transcription.shares[:-1, None], jnp.diff(transcription.shares)[:, None]
    places = a + length * points[None]
    q, u = jax.vmap(jax.vmap(state))(places)
    from_node = jax.vmap(lambda node, stages: jax.vmap(lambda q: space.local(node, q))(stages))
    xi = from_node(along(nodes[0], slice(None, -1)), q)
    span = ts[-1] - ts[0]
    c = jax.vmap(jax.vmap(lambda share: curve(ts[0] + share * span)))(places).astype(p.dtype)
    X = jnp.concatenate([xi, u], axis=2)
    x = jnp.concatenate([jnp.zeros((u.shape[0] + 1, space.dim), X.dtype), nodes[1]], axis=1)
    shape = (X.shape[0], X.shape[1], transcription.lower.shape[-1])
    w = CollocationPoint(nodes[0], x, X, c, p, jnp.zeros(shape, X.dtype))
    free = np.asarray(transcription.free_start, int)
    w = w._replace(x=x.at[0, free].set(p[int(transcription.free_time) : transcription.n_own]))
    return w._replace(slack=inside(transcription, evaluate(transcription, w)[1].limits))


@compiled_with(QUICK)
def bent(transcription: Transcription, w: CollocationPoint) -> CollocationPoint:
    """The iterate with a sine wave added to each control, each with another phase.

    Its amplitude is the largest control or, if all controls are 0, their size.
    """
    own = size_of(transcription.sizes, "c")
    size = jnp.max(jnp.abs(in_size(w.c, own)), initial=0.0)
    lengths = jnp.diff(transcription.shares)[:, None]
    shares = (
        transcription.shares[:-1, None] + lengths * jnp.asarray(transcription.rule.points)[None]
    )
    m = w.c.shape[-1]
    phases = jnp.asarray(np.arange(m) * (np.pi / max(m, 1)), w.c.dtype)
    waves = jnp.sin(2 * np.pi * shares.astype(w.c.dtype)[..., None] + phases[None, None])
    return w._replace(c=w.c + of_size(jnp.where(size > 0, size, jnp.ones_like(size)) * waves, own))


def _first_parameters(
    transcription: Transcription, x: Float[Array, " d"], end: Scalar
) -> Float[Array, " p"]:
    """The first values of the parameters p (end time, free coordinates of `x`, designs), moved inside their bounds."""
    lower, upper = transcription.p_lower, transcription.p_upper
    parts = [end[None]] if transcription.free_time else []
    parts.append(x[np.asarray(transcription.free_start, int)])
    if transcription.designs:
        parts.append(values_of_designs(transcription.system, transcription.designs))
    p = jnp.concatenate([jnp.zeros(0, lower.dtype), *(x.astype(lower.dtype) for x in parts)])
    margin = 0.01 * jnp.minimum(upper - lower, 1.0)
    return jnp.clip(p, lower + margin, upper - margin)
