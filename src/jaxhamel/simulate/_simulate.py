"""simulate: from a system and an initial state to a trajectory, by diffrax."""

import math
from typing import Any, Literal

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._content._memory import remembered
from jaxhamel._known_positions import KnownPositions
from jaxhamel._lanes._one_lane import one_lane
from jaxhamel._typing import Configuration, Control
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics import System, VectorField, as_control
from jaxhamel.mechanics._checks._constraints import check_project
from jaxhamel.mechanics._checks._system import check_a_system
from jaxhamel.mechanics._constraints._holonomic import check_closed
from jaxhamel.mechanics._controls._recorded import records_in
from jaxhamel.mechanics._description._parameters import with_array_leaves
from jaxhamel.mechanics._examination._boundary import check_control, check_forms
from jaxhamel.simulate._adjoint import AutoAdjoint
from jaxhamel.simulate._checks import (
    check_adjoint,
    check_event,
    check_fixed_step,
    check_options,
    check_simulation,
    check_steps_needed,
)
from jaxhamel.simulate._events._event import Conditions, Ending
from jaxhamel.simulate._one_vector import OfParts, OfVector, VectorLayout, can_be_one_vector
from jaxhamel.simulate._progress import meter
from jaxhamel.simulate._refused_modes import refusing_forward_mode, refusing_reverse_mode
from jaxhamel.simulate._results import as_result, cause_of_end, or_undefined_event
from jaxhamel.simulate._solvers._base_classes import AbstractGroupSolver
from jaxhamel.simulate._solvers._lie_group import LieGroup
from jaxhamel.simulate._solvers._projected import (
    OnConstraints,
    Projected,
    closed,
    metric_of,
    on_constraints,
)
from jaxhamel.simulate._step_size import fixed_step, is_nonfinite, steps_in, watched_pid
from jaxhamel.simulate._stops import Stops, ended
from jaxhamel.simulate._times import saved_at
from jaxhamel.simulate._trajectory import SystemAndControl, Trajectory, nan_where

MAX_STEPS = 2**16
_SOLVER, _ADJOINT = diffrax.Tsit5(), AutoAdjoint()  # each takes 20 µs to make
_MAX_STEPS_DENSE = 2**12  # dense output stores the stages of this number of steps


@remembered
def simulate(
    system: System,
    q0: Configuration,
    u0: ArrayLike,
    ts: ArrayLike,
    control: Control = None,
    *,
    rtol: ArrayLike | None = None,
    atol: ArrayLike | None = None,
    dt: ArrayLike | None = None,
    max_steps: int | None = None,
    solver: diffrax.AbstractSolver[Any] | None = None,
    adjoint: diffrax.AbstractAdjoint | None = None,
    event: Any = None,
    dense: bool = False,
    progress: Any = None,
    route: str | None = None,
    project: bool | Literal["mass"] = False,
) -> Trajectory:
    """The motion from (q0, u0) at `ts[0]` on, at the times `ts`:

        q̇ = rate(q, v(t, q, u)) ,   u̇ = acceleration(system, t, q, u, control) .

    **Main arguments:**

    - `system`: the system; `q0`: initial configuration; `u0`: initial independent quasi-velocities, `(k,)`.
    - `ts`: increasing times [s], `(T,)`; the first is the initial time.
    - `control`: a callable pytree of t, or a constant: an array, a list of numbers, or a tuple or dictionary of those.
    - `rtol`, `atol`: tolerances of adaptive steps, relative and absolute; default 1e-9 and 1e-11 (1e-5 and 1e-6 in single
      precision). Values between steps come from the solver's interpolant.
    - `dt`: a fixed step instead. Each interval of `ts` is divided into equal steps not longer than `dt`, so every
      time of `ts` is the end of a step. For a picture with more points than steps use `dense`.

    **Other arguments:**

    - `max_steps`: limit on the number of steps; default 65536 (4096 with `dense`), or more if `dt` requires it.
    - `solver`: any diffrax solver, default `diffrax.Tsit5()`. For configurations with quaternions it is wrapped in
      `jaxhamel.Projected`, on a matrix group in `jaxhamel.LieGroup`. `jaxhamel.CommutatorFree2()`, `CommutatorFree4()` and
      `Variational()` take the space from the system.
    - `adjoint`: default `jaxhamel.AutoAdjoint()`, for `jax.grad` as well as `jax.jvp`; or diffrax' `ForwardMode`,
      `RecursiveCheckpointAdjoint` or `DirectAdjoint`. (`BacksolveAdjoint` and `ImplicitAdjoint` cannot differentiate a
      trajectory, and are refused.)
    - `event`: a function `event(t, q, u)` that ends the simulation when its real value passes through zero or its Boolean
      value becomes true; or a dict, list or tuple of such functions, the first of which to happen counts
      (`trajectory.event` tells which); or a `diffrax.Event` (its root finder is not used). Conditions are tested at the end
      of each step and located to rounding on the step's interpolant; an event that comes and goes within a step is missed
      (use a smaller `dt`). A real function may start at zero (but for rounding, as after an earlier event), which is no
      event; a Boolean that is true at the start is one. A real function that is NaN at the start or at the last time is a
      failure. If a Boolean has ended the simulation, derivatives of `t_end`, `q_end` and `u_end` are NaN, because a Boolean
      has no rate of change; a real function has.
    - `dense`: whether `trajectory.evaluate(t)` can give the state between the `ts`.
    - `progress`: True for a line with the time left, or a diffrax progress meter.
    - `route`: the route to the equations of motion, see `jaxhamel.acceleration`.
    - `project`: whether to bring the configuration back onto the system's `holonomic` constraints (closed loops) at the end
      of each step, by Gauss–Newton steps as in `jaxhamel.mechanics.close_loops`; `"mass"`: by the shortest ones in the
      metric of the mass matrix. Without it the constraints drift with the error of the steps; the summary of the trajectory
      shows how far.

    **Returns:** a `Trajectory`. A simulation that breaks down does not raise: its `result` has the cause, `t_end` the
    time, and the motion up to then is kept. `simulate(...).raise_if_failed()` raises.

    **Raises:** `ValueError` or `TypeError` for invalid arguments: wrong shapes, quaternions that are not unit,
    times out of order, NaN in a control. Only concrete values are checked, never tracers.

    Everything but the structure of the arguments is traced: other values of masses, states, controls, times or
    tolerances do not recompile. Arrays of integers, such as the pairs of masses that springs connect, are an exception:
    they are positions in other arrays, and faster as constants of the program. (Each evaluation of a `lambda` expression
    gives a new function; make the control an `equinox.Module` or a `jax.tree_util.Partial` with its numbers as leaves.)
    """
    check_a_system(system)
    system, control = with_array_leaves((system, as_control(control)))
    q0, u0, ts = _state_in_one_dtype(system, q0, u0, ts)
    check_simulation(system, q0, u0, ts, {"rtol": rtol, "atol": atol, "dt": dt})
    check_control(system, ts, q0, u0, control)
    check_forms(system, _checks.first_time(ts), q0, u0, control)
    check_closed(system, _checks.first_time(ts), q0)
    check_options(solver, adjoint, max_steps, route)
    check_event(event)
    check_project(project)
    metric = metric_of(project)
    steps = tolerances_of(rtol, atol, dt, ts.dtype)
    layout = VectorLayout.of((q0, u0)) if can_be_one_vector(solver, event) else None
    solver = _solver(system.space, solver, layout)
    layout = layout if _steps_vectors(solver) else None
    solver = solver if metric is None else on_constraints(solver, system, layout, metric)
    check_adjoint(adjoint, solver)
    check_fixed_step(solver, dt)
    options = {
        "solver": solver,
        "adjoint": _ADJOINT if adjoint is None else adjoint,
        "event": Conditions.of(event, layout),
        "max_steps": most_steps(max_steps, ts, dt, dense, control),
        "dense": dense,
        "progress_meter": meter(progress),
    }
    given = SystemAndControl.of(system, control)
    inputs = refusing_forward_mode(adjoint, (system, control, (q0, u0), ts))
    system, control, y0, times = inputs
    in_order = _checks.concrete(ts) is not None  # `check_simulation` has compared them
    known = KnownPositions.of((system, control))
    solution = _solve(system, control, y0, times, steps, options, route, layout, in_order, known)
    solution = refusing_reverse_mode(adjoint, solution)
    return Trajectory(ts=ts, given=given, metric=metric, **solution)


@compiled
def _solve(system, control, y0, ts, steps, options, route, layout, in_order, known):
    """Solves the equations of motion and describes the solution, as one compiled program."""
    dense, conditions = options.pop("dense"), options.pop("event")
    once = system.prepared() if isinstance(system, System) else system
    args, field = (once, control), VectorField(route)
    if layout is not None:
        field, options["adjoint"] = OfVector(field, layout), _counting(options, y0, layout)
        y0 = layout.vector(y0)
    if once is not system:  # its leaves are others
        known = KnownPositions.of(args)
    term = diffrax.ODETerm(_traced_once(_OneLane(field, known), ts[0], y0, args))
    stops = stops_of(control)
    ts = ended(ts, stops)
    options["stepsize_controller"] = _controller(steps, ts, stops)
    ending = Ending.of(conditions, term, ts, y0, args, options)
    solution: Any = diffrax.diffeqsolve(
        term,
        t0=ts[0],
        t1=ts[-1],
        dt0=None,
        y0=y0,
        args=args,
        event=ending.event,
        saveat=diffrax.SaveAt(
            subs=(saved_at(ts, in_order), ending.saved), dense=dense, controller_state=True
        ),
        throw=False,
        **options,
    )
    solution, end, happened, undefined = ending.found(solution, ts, y0, args)
    found = _description(solution, y0, end, layout)
    found["result"] = or_undefined_event(found["result"], undefined)
    if isinstance(options["solver"], OnConstraints):  # the interpolant is not projected
        metric = options["solver"].metric

        def project(t, q):
            return closed(system, t, q, metric, control)

        found |= _with_closed_loops(project, ts, found)
    return found | {"event": happened}


def _counting(options, y0, layout: VectorLayout):
    adjoint = options["adjoint"]
    return OfParts.like(adjoint, y0, layout) if isinstance(adjoint, AutoAdjoint) else adjoint


class _OneLane(eqx.Module):
    """A vector field that is compiled as one kernel if that is faster, and the positions that it knows of its arguments."""

    field: Any
    known: KnownPositions = eqx.field(static=True)

    def __call__(self, t, y, args):
        arrays, others = eqx.partition(args, eqx.is_array)

        def rate(y, t, arrays):
            args = self.known.with_constants(eqx.combine(arrays, others))
            return self.field(t, y, args)

        return one_lane(rate)(y, t, arrays)


def _traced_once(field, t, y, args):
    """The vector field as a jitted program, since diffrax traces it four times before it runs."""
    return eqx.filter_closure_convert(field, t, y, args)


def _description(solution, y0, at_end, layout: VectorLayout | None) -> dict[str, Any]:
    """The fields of a `Trajectory`, from diffrax' solution and (time, state) of its end."""
    ts, (t_end, end) = solution.ts[0], at_end
    valid = jnp.isfinite(ts)
    # If no step could be taken, nothing is saved, not even the start.
    rows = jax.tree.map(
        lambda x, x0: x.at[0].set(jnp.where(valid[0], x[0], x0)), solution.ys[0], y0
    )
    valid = valid.at[0].set(True)
    # The state at the last of `ts` is the end of the last step. It is not taken from the interpolant, in whose second
    # derivatives with respect to the times terms cancel: in single precision reverse over reverse had an error of 2e-4.
    rows = jax.tree.map(lambda x, last: x.at[-1].set(jnp.where(valid[-1], last, x[-1])), rows, end)
    (q, u), end = (y if layout is None else layout.parts(y) for y in (rows, end))

    # The end is a copy of the last row, since XLA may round the projections of the two differently.
    def last(row, x):
        return jnp.where(valid[-1], row[-1], x)

    q_end, u_end = jax.tree.map(last, (q, u), end)
    return {
        "q": nan_where(~valid, q),
        "u": nan_where(~valid, u),
        "valid": valid,
        "t_end": t_end,
        "q_end": q_end,
        "u_end": u_end,
        "result": as_result(cause_of_end(solution.result, is_nonfinite(solution.controller_state))),
        "stats": solution.stats,
        "interpolation": solution.interpolation,
    }


def _with_closed_loops(project, ts, found) -> dict[str, Any]:
    """Projects the configurations onto the holonomic constraints; missing rows stay NaN, with finite derivatives."""
    valid, q_end = found["valid"], project(found["t_end"], found["q_end"])

    def missing(x):
        return ~valid.reshape(-1, *[1] * (x.ndim - 1))

    def last(row, x):
        return jnp.where(missing(row), x[None], row)

    q = jax.vmap(project)(
        jnp.where(valid, ts, found["t_end"]), jax.tree.map(last, found["q"], q_end)
    )
    return {"q": nan_where(~valid, q), "q_end": q_end}


def _state_in_one_dtype(system, q0, u0, ts):
    """Initial state and times as arrays of the state's widest floating dtype; lists and integers are converted."""
    _checks.check_arrays(q0=q0, u0=u0)
    _checks.check_velocity("u0", u0)
    _checks.check_time_array(ts)
    q0, u0, ts = _lists_to_arrays(system.space, q0), jnp.asarray(u0), jnp.asarray(ts)
    dtype = dtype_of_state(q0, u0)

    def cast(x):
        return jnp.asarray(x, dtype=dtype)

    return jax.tree.map(cast, q0), cast(u0), cast(ts)


def dtype_of_state(q0, u0):
    """The widest floating dtype among the arrays of a state; JAX's default if all are integers."""
    floats = [jnp.result_type(x) for x in jax.tree.leaves((q0, u0))]
    floats = [d for d in floats if jnp.issubdtype(d, jnp.floating)]
    return jnp.result_type(*floats) if floats else jnp.result_type(float)


def _lists_to_arrays(space, q0):
    try:
        return jax.tree.map(lambda _, part: jnp.asarray(part), space.stored, q0)
    except (
        TypeError,
        ValueError,
    ):  # not in the space's structure, which the space's own check reports
        return q0


def tolerances_of(rtol, atol, dt, dtype):
    """(dt,) or (rtol, atol), as arrays, with the default tolerances of the dtype in place of None."""
    if dt is not None:
        return (jnp.asarray(dt, dtype=dtype),)
    single = jnp.finfo(dtype).eps > 1e-10
    default = (1e-5, 1e-6) if single else (1e-9, 1e-11)
    given = zip((rtol, atol), default, strict=True)
    return tuple(jnp.asarray(d if x is None else x, dtype=dtype) for x, d in given)


def _controller(steps, ts, stops: Stops | None):
    if len(steps) == 1:
        return fixed_step(steps[0], ts, stops)
    rtol, atol = steps
    return watched_pid(rtol, atol, ts, stops)


def stops_of(control: Control) -> Stops | None:
    """The times at which a control jumps or bends, those of all its records."""
    records = records_in(control)
    if not records:
        return None
    jump = any(record.between == "held" for record in records)
    if len(records) == 1:
        return Stops(records[0].edges, jump)
    edges = jnp.concatenate([record.edges for record in records])
    return Stops(jnp.unique(edges, size=edges.shape[0], fill_value=jnp.inf), jump)


def _solver(space: AbstractSpace, solver, layout):
    solver = _SOLVER if solver is None else solver
    if isinstance(solver, AbstractGroupSolver):
        return solver.on(space)
    if space.independent or isinstance(getattr(solver, "space", None), AbstractSpace):
        return solver
    return Projected(solver, space, layout=layout) if space.projects else LieGroup(solver, space)


def _steps_vectors(solver) -> bool:
    """Whether the solver, given a layout, can step vectors; solvers that need q separately cannot."""
    return getattr(solver, "layout", None) is not None or not hasattr(solver, "space")


def most_steps(max_steps, ts, dt, dense, control: Control = None) -> int:
    if max_steps is not None:
        return max_steps
    needed = _steps_needed(_checks.concrete(ts), None if dt is None else _checks.concrete(dt))
    needed += 2 * sum(len(record.edges) for record in records_in(control))
    default = _MAX_STEPS_DENSE if dense else MAX_STEPS
    # Powers of two, so that a few more times or a slightly smaller step need no new program.
    return max(default, 2 ** math.ceil(math.log2(needed + 1)))


def _steps_needed(ts, dt) -> int:
    if ts is None or dt is None or len(ts) < 2:
        return 0
    check_steps_needed(ts, dt)
    return sum(steps_in(ts, dt))
