"""The summary that a printed trajectory shows."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._words import counted
from jaxhamel.mechanics._controls._control import at_state
from jaxhamel.mechanics._controls._kinematic import under
from jaxhamel.mechanics._system import overridden_below
from jaxhamel.simulate._results import in_words
from jaxhamel.simulate._trajectory import why_it_failed


def summary(trajectory) -> str:
    """One line for the system and the time span, and one for each conserved quantity."""
    if np.ndim(trajectory.succeeded):
        return _summary_of_many(trajectory)
    rows = [_span(trajectory), _steps(trajectory), ("result", _result(trajectory))]
    if bool(trajectory.valid.any()):
        rows += list(_drifts(trajectory))
    name = type(trajectory.system).__name__
    return "\n".join([f"Trajectory of {name}", *(f"  {key:<22} {value}" for key, value in rows)])


def _summary_of_many(trajectory) -> str:
    good, shape = np.asarray(trajectory.succeeded), np.shape(trajectory.succeeded)
    name = type(trajectory.system).__name__
    return f"{counted(good.size, 'trajectory')} of {name}, batch {shape}: {int(good.sum())} reached the end or an event"


def _span(trajectory):
    ts = np.asarray(trajectory.ts)
    return "time [s]", f"{ts[0]:.6g} … {ts[-1]:.6g}, {counted(len(ts), 'time')}"


def _steps(trajectory):
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
    ts, q, u = jax.tree.map(lambda x: x[keep], (trajectory.ts, trajectory.q, trajectory.u))
    kept, off_group, residual = _quantities(trajectory.system, trajectory.control, ts, q, u)
    for name, values in kept.items():
        yield f"drift of {name}", _drift(np.asarray(values))
    if off_group is not None:
        yield "distance from group", f"{float(off_group):.1e}"
    if residual is not None:
        yield "constraint residual", f"{float(residual):.1e}"
    yield from _of_constraints(trajectory.system, ts, q)


def _of_constraints(system, ts, q):
    """Drift of holonomic constraints, redundant and nearly dependent one-forms."""
    loops, frames, redundant = _constraint_values(system, ts, q)
    if loops.size:
        away = np.abs(np.asarray(loops)).max(axis=1)
        yield "holonomic constraints", f"{away[0]:.1e} at the start, at most {away.max():.1e}"
    if redundant is not None:
        count = counted(redundant.shape[0], "one-form")
        yield "constraints", f"{count} of rank {system.n_constraints}, multipliers of least norm"
    condition = [_condition(np.asarray(frame)[: system.n_constraints]) for frame in frames]
    if max(condition) > np.finfo(ts.dtype).eps ** -0.25:
        digits = -np.log10(np.finfo(ts.dtype).eps * max(condition))
        yield (
            "condition number",
            f"{condition[0]:.1e} at the start, {condition[1]:.1e} at the end: constraints nearly dependent, about "
            f"{counted(max(int(digits), 0), 'digit')} of the motion right",
        )


def _condition(rows) -> float:
    """The condition number of the constraint one-forms, each scaled to length 1."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not rows.size or not np.all(np.isfinite(rows)) or not np.all(lengths > 0):
        return 1.0
    return float(np.linalg.cond(rows / lengths))


def _drift(values) -> str:
    change = float(np.max(np.abs(values - values[:1])))
    scale = float(np.max(np.abs(values)))
    relative = f"  ({change / scale:.1e} of its largest value)" if scale > 0 else ""
    return f"{change:.1e}{relative}"


@eqx.filter_jit
def _quantities(system, control, ts, q, u):
    kept = {}
    if not overridden_below(system, "invariants"):
        kept = jax.vmap(lambda t, q, u: _invariants(system, t, q, u, control))(ts, q, u)
    on_group = jax.vmap(system.space.normalise)(q)
    distances = [
        jnp.max(jnp.abs(a - b)) for a, b in zip(*map(jax.tree.leaves, (q, on_group)), strict=True)
    ]
    driven = under(system, control)
    residual = jax.vmap(lambda t, q, u: _residual(driven, t, q, u))(ts, q, u)
    return (
        kept,
        jnp.max(jnp.stack(distances)),
        None if residual.shape[1] == 0 else jnp.max(residual),
    )


def _invariants(system, t, q, u, control):
    return system.invariants(t, q, u, at_state(control, t, q, u))


@eqx.filter_jit
def _constraint_values(system, ts, q):
    """g at all times, the frame at the first and the last, all one-forms at the first."""
    ends = [(ts[i], jax.tree.map(lambda x, i=i: x[i], q)) for i in (0, -1)]
    loops = jax.vmap(system.holonomic)(ts, q)
    return loops, [system.frame(*end) for end in ends], system.constraints(*ends[0])


def _residual(system, t, q, u):
    """A_α v + a_α, which should vanish, with v from u."""
    from jaxhamel.mechanics._kinematics import velocity_of

    everything = system.frame(t, q) @ velocity_of(system, t, q, u) + system.drift(t, q)
    return jnp.abs(everything[: system.n_constraints])
