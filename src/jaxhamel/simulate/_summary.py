"""Writes the summary that `print(trajectory)` shows."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._compiled import compiled
from jaxhamel._words import counted
from jaxhamel.mechanics._controls._control import at_state
from jaxhamel.mechanics._controls._kinematic import driven_by
from jaxhamel.mechanics._controls._moving_parts import MovingParts
from jaxhamel.mechanics._equations._gauss import normal_equations
from jaxhamel.mechanics._examination._agreement import run_quickly
from jaxhamel.mechanics._system import overridden_below
from jaxhamel.simulate._results import in_words
from jaxhamel.simulate._trajectory import why_it_failed

# The summary of a closed loop says that |u| grows if |u| is more than this many times larger at the end than at the start.
GROWN = 100.0


def summary(trajectory) -> str:
    """The lines of the summary: the system, time span, steps and result, and the drift of conserved quantities."""
    if np.ndim(trajectory.succeeded):
        return _summary_of_many(trajectory)
    rows = [_span(trajectory), _steps_row(trajectory), ("result", _result(trajectory))]
    rows += _growth(trajectory)
    if bool(trajectory.valid.any()):
        rows += list(_drifts(trajectory))
    name = type(trajectory.system).__name__
    return "\n".join([f"Trajectory of {name}", *(f"  {key:<22} {value}" for key, value in rows)])


def _summary_of_many(trajectory) -> str:
    good, shape = np.asarray(trajectory.succeeded), np.shape(trajectory.succeeded)
    name = type(trajectory.system).__name__
    words = f"{counted(good.size, 'trajectory')} of {name}, batch {shape}: {int(good.sum())} reached the end or an event"
    if "largest_last" not in trajectory.stats:
        return words
    grown = _grown(trajectory) & good
    return f"{words}; in {int(grown.sum())} of them |u| grows more than {GROWN:g} times"


def _growth(trajectory):
    """Rows on the largest |u| at the start and at the end of a closed loop; none for other motions."""
    if "largest_last" not in trajectory.stats:
        return []
    first, last = (float(trajectory.stats[f"largest_{end}"]) for end in ("first", "last"))
    grown = f": it grows more than {GROWN:g} times" if _grown(trajectory) else ""
    return [("largest |u|", f"{first:.3g} in the first tenth, {last:.3g} in the last{grown}")]


def _grown(trajectory):
    """Whether |u| keeps growing: at the end it is more than GROWN times as large as at the start.

    Since it may be 0 at the start, it also has to be more than √GROWN times as large as in the first half.
    """
    names = ("first", "half", "last")
    first, half, last = (np.asarray(trajectory.stats[f"largest_{x}"]) for x in names)
    return (last > GROWN * first) & (last > np.sqrt(GROWN) * half)


def _span(trajectory):
    ts = np.asarray(trajectory.ts)
    return "time [s]", f"{ts[0]:.6g} … {ts[-1]:.6g}, {counted(len(ts), 'time')}"


def _steps_row(trajectory):
    accepted = int(trajectory.stats["num_accepted_steps"])
    return "steps", f"{accepted} accepted, {int(trajectory.stats['num_rejected_steps'])} rejected"


def _result(trajectory) -> str:
    words = f"{in_words(trajectory.result, trajectory.t_end)} {why_it_failed(trajectory)}".rstrip()
    happened = jax.tree_util.tree_leaves_with_path(trajectory.event)
    if len(happened) < 2:
        return words
    names = [jax.tree_util.keystr(path, simple=True) for path, yes in happened if yes]
    return f"{words}, by {' and '.join(names)}" if names else words


def _drifts(trajectory):
    keep = np.asarray(trajectory.valid)
    # by NumPy: JAX would compile each selection, 18 programs before the first summary is printed
    motion = trajectory.ts, trajectory.q, trajectory.u
    ts, q, u = jax.tree.map(lambda x: np.asarray(x)[keep], motion)
    kept, off_group, residual = _quantities(trajectory.system, trajectory.control, ts, q, u)
    for name, values in kept.items():
        yield f"drift of {name}", _drift(np.asarray(values))
    if off_group is not None:
        yield "distance from group", f"{float(off_group):.1e}"
    if residual is not None:
        yield "constraint residual", f"{float(residual):.1e}"
    yield from _of_constraints(trajectory.system, ts, q)
    yield from _of_mass(trajectory.system, trajectory.control, ts, q, u)


def _of_constraints(system, ts, q):
    """Yields rows on the drift of holonomic constraints, and on redundant or nearly dependent one-forms."""
    loops, frames, redundant = _constraint_values(system, ts, q)
    if loops.size:
        away = np.abs(np.asarray(loops)).max(axis=1)
        yield "holonomic constraints", f"{away[0]:.1e} at the start, at most {away.max():.1e}"
    if redundant is not None and redundant.shape[0] != system.n_constraints:
        count = counted(redundant.shape[0], "one-form")
        yield "constraints", f"{count} of rank {system.n_constraints}, multipliers of least norm"
    rows = [_unit_rows(np.asarray(frame)[: system.n_constraints]) for frame in frames]
    yield from _conditions("constraints nearly dependent", "condition number", rows)


def _of_mass(system, control, ts, q, u):
    """Yields a row with the condition number of ∂²ℓ/∂u∂u, scaled to a diagonal of ones, if it is large."""
    if not u.shape[1] or isinstance(system, MovingParts):
        return
    ends = [jax.device_put(jax.tree.map(lambda x, i=i: x[i], (ts, q, u))) for i in (0, -1)]
    masses = [_unit_masses(np.asarray(_mass_matrix(system, end, control))) for end in ends]
    yield from _conditions("mass matrix nearly singular", "condition of the mass", masses)


def _conditions(words, name, matrices):
    """Yields a row if the larger of the condition numbers of two matrices, at the start and at the end, exceeds ε^(−1/4)."""
    condition = [float(np.linalg.cond(m)) if m.size else 1.0 for m in matrices]
    eps = np.finfo(matrices[0].dtype).eps
    if max(condition) > eps**-0.25:
        digits = -np.log10(eps * min(max(condition), 1 / eps))
        yield (
            name,
            f"{condition[0]:.1e} at the start, {condition[1]:.1e} at the end: {words}, about "
            f"{counted(max(int(digits), 0), 'digit')} of the motion right",
        )


def _unit_rows(rows):
    """The constraint one-forms, each scaled to length 1; an empty matrix if one is zero or not finite."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.all(np.isfinite(rows)) or not np.all(lengths > 0):
        return rows[:0]
    return rows / lengths


def _unit_masses(matrix):
    """D M D with ones on the diagonal, D diagonal; an empty matrix if M is not finite or has a zero on its diagonal."""
    diagonal = np.abs(np.diagonal(matrix))
    if not np.all(np.isfinite(matrix)) or not np.all(diagonal > 0):
        return matrix[:0]
    scale = 1.0 / np.sqrt(diagonal)
    return (matrix * scale).T * scale


def _mass_matrix(system, state, control):
    t, q, u = state
    control = at_state(control, t, q, u)
    return run_quickly(normal_equations, system, t, q, u, control).mass_matrix


def _drift(values) -> str:
    change = float(np.max(np.abs(values - values[:1])))
    scale = float(np.max(np.abs(values)))
    relative = f"  ({change / scale:.1e} of its largest value)" if scale > 0 else ""
    return f"{change:.1e}{relative}"


@compiled
def _quantities(system, control, ts, q, u):
    kept = {}
    if not overridden_below(system, "invariants"):
        kept = jax.vmap(lambda t, q, u: _invariants(system, t, q, u, control))(ts, q, u)
    on_group = jax.vmap(system.space.normalise)(q)
    distances = [
        jnp.max(jnp.abs(a - b)) for a, b in zip(*map(jax.tree.leaves, (q, on_group)), strict=True)
    ]
    driven = driven_by(system, control)
    residual = jax.vmap(lambda t, q, u: _residual(driven, t, q, u))(ts, q, u)
    return (
        kept,
        jnp.max(jnp.stack(distances)),
        None if residual.shape[1] == 0 else jnp.max(residual),
    )


def _invariants(system, t, q, u, control):
    return system.invariants(t, q, u, at_state(control, t, q, u))


@compiled
def _constraint_values(system, ts, q):
    """The holonomic constraints g at all times, the frames at the first and last time, the one-forms at the first time."""
    ends = [(ts[i], jax.tree.map(lambda x, i=i: x[i], q)) for i in (0, -1)]
    loops = jax.vmap(system.holonomic)(ts, q)
    return loops, [system.frame(*end) for end in ends], system.constraints(*ends[0])


def _residual(system, t, q, u):
    """|A_α v + a_α| for each constraint, at the velocity v that follows from u; it should vanish."""
    from jaxhamel.mechanics._kinematics import velocity_of

    everything = system.frame(t, q) @ velocity_of(system, t, q, u) + system.drift(t, q)
    return jnp.abs(everything[: system.n_constraints])
