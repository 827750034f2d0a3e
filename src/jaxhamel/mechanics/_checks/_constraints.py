"""Checks of redundant constraint one-forms and of holonomic constraints."""

import numpy as np

from jaxhamel._checks._values import check_finite, concrete, inline


def check_has_loops(system, has: bool) -> None:
    """Checks that the system has holonomic constraints."""
    if not has:
        raise TypeError(
            f"`system` {type(system).__name__} has no method `holonomic(t, q)`, so there is nothing to project onto. Define "
            "it with the values `(h,)` that vanish where the loops are closed; without holonomic constraints no projection "
            "is needed."
        )


def check_project(project) -> None:
    """Checks that `project` is True, False or "mass"."""
    if not (
        isinstance(project, bool | np.bool_) or (isinstance(project, str) and project == "mass")
    ):
        raise TypeError(
            f"`project` is {project!r}; it must be True (configurations are brought back onto the system's `holonomic` "
            'constraints after each step, by the shortest step in the components of v), "mass" (by the shortest step in the '
            "metric of the mass matrix) or False."
        )


def check_metric(metric) -> None:
    """Checks that `metric` is "identity" or "mass"."""
    if metric not in ("identity", "mass"):
        raise ValueError(
            f'`metric` is {metric!r}; it must be "identity" (lengths in the components of v) or "mass" (in the metric of '
            "the mass matrix)."
        )


def check_loops_close(system, t, value, power: float) -> None:
    """Checks that the loops are closed: `holonomic` vanishes up to eps^power, in its own unit."""
    array = concrete(value)
    if array is None or np.max(np.abs(array), initial=0.0) <= np.finfo(array.dtype).eps ** power:
        return
    raise ValueError(
        f"the loops of {type(system).__name__} are open: `holonomic(t, q)` is {inline(array)} at t = {concrete(t)}. It "
        "must be zero; find a configuration near by with jaxhamel.mechanics.close_loops(system, t, q), from a better guess "
        "if that does not close them."
    )


def check_loop_rates(system, t, gradient, rates) -> None:
    """Checks that the `rates` ġ of the holonomic constraints vanish for all independent quasi-velocities."""
    found, size = np.abs(np.asarray(rates)), np.max(np.abs(np.asarray(gradient)), initial=1.0)
    if np.max(found) <= 1e3 * np.sqrt(np.finfo(found.dtype).eps) * size:
        return
    row, column = np.unravel_index(np.argmax(found), found.shape)
    k = found.shape[1] - 1
    where = f"along u[{column}]" if column < k else "at u = 0"
    raise ValueError(
        f"`holonomic(t, q)[{row}]` of {type(system).__name__} changes {where} at the rate {found[row, column]:.3g} at "
        f"t = {concrete(t)}, so the frame does not have it as a constraint: its differential must be a combination of the "
        "first `n_constraints` rows of `frame(t, q)`. jaxhamel.geometry.differential gives it, "
        "jaxhamel.geometry.completed_frame a frame with it; ∂g/∂t belongs to `drift`."
    )


def check_number_of_constraints(system, rows) -> None:
    """Checks that the rows of `constraints` are finite, and at least as many as the frame has constraint one-forms."""
    m = system.n_constraints
    check_finite("constraints(t, q)", rows)
    if rows.shape[0] < m:
        raise ValueError(
            f"`constraints(t, q)` of {type(system).__name__} has {rows.shape[0]} rows and `n_constraints` is {m}; it must "
            "have all constraint one-forms, redundant ones included."
        )


def check_span(system, t, rows, spanned) -> None:
    """Checks that the one-forms span the same space as the frame's first m rows."""
    rows, spanned, m = np.asarray(rows), np.asarray(spanned), system.n_constraints
    room = 1e3 * np.sqrt(np.finfo(rows.dtype).eps)
    away = np.max(np.abs(rows - spanned), axis=1) > room * np.max(np.abs(rows), axis=1)
    name = f"`constraints(t, q)` of {type(system).__name__}"
    if np.any(away):
        raise ValueError(
            f"row {int(np.argmax(away))} of {name} is no combination of the first {m} rows of `frame(t, q)` at "
            f"t = {concrete(t)}: the frame leaves that constraint out. {_advice_on_frame(rows)}"
        )
    rank = _rank(rows)
    if rank < m:
        raise ValueError(
            f"{name} has rank {rank} at t = {concrete(t)} and `n_constraints` is {m}: one of the frame's first {m} rows is "
            "not among its combinations. Give all constraint one-forms."
        )


def _rank(rows) -> int:
    return int(np.linalg.matrix_rank(rows, rtol=100.0 * np.finfo(rows.dtype).eps))


def _advice_on_frame(rows) -> str:
    """A sentence that says how to write a frame whose first rows are these one-forms."""
    left, rank, dependent = np.array(rows), _rank(rows), []
    for _ in range(rank):  # elimination with complete pivoting
        i, j = np.unravel_index(np.argmax(np.abs(left)), left.shape)
        dependent.append(int(j))
        left = left - np.outer(left[:, j] / left[i, j], left[i])
    others = [j for j in range(rows.shape[1]) if j not in dependent]
    redundant = redundant_rows(rows)
    omitted = f", rows {redundant} left out," if redundant else ""
    return (
        f"Set `n_constraints = {rank}` and make them the frame's first rows, for example by `return "
        f"jaxhamel.geometry.completed_frame(forms, independent={others})` in `frame(self, t, q)`, where forms has the "
        f"one-forms{omitted} and `independent` names the velocities that become quasi-velocities."
    )


def redundant_rows(rows) -> list[int]:
    """Indices of the rows that are linear combinations of earlier rows."""
    kept, found = np.zeros((0, rows.shape[1])), []
    for i, row in enumerate(np.asarray(rows, float)):
        size = np.linalg.norm(row)
        for _ in range(2):
            row = row - (kept @ row) @ kept
        left = np.linalg.norm(row)
        if left > 100 * np.finfo(rows.dtype).eps * size:
            kept = np.vstack([kept, row / left])
        else:
            found.append(i)
    return found
