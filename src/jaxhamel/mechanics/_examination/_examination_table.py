"""The table that `print(examination)` shows."""

from collections.abc import Iterator
from typing import Any

from jaxhamel._words import counted
from jaxhamel.mechanics._system import overrides


def table(found: Any) -> str:
    """The table as text: one line for each property of the system, then one line for each problem."""
    rows = [f"  {key:<18} {value}" for key, value in _table_rows(found)]
    problems = [f"  problem: {line}" for line in found.problems] or ["  no problem found"]
    return "\n".join(
        [f"Examination of {type(found.system).__name__} at t = {found.t}", *rows, *problems]
    )


def _table_rows(found: Any) -> Iterator[tuple[str, str]]:
    system = found.system
    n, m = system.space.dim, system.n_constraints
    yield "space", f"{system.space}, n = {n}"
    yield "constraints", _constraints_row(found, m)
    if found.redundant is not None:
        yield _one_forms(found.redundant)
    if found.holonomic is not None:
        yield "holonomic", _holonomic(found.holonomic)
    yield "quasi-velocities", f"{n - m} independent"
    yield "Lagrangian", _lagrangian_row(found)
    if found.mass_matrix is not None:
        yield (
            "mass matrix",
            f"{_shape_in_words(found.mass_matrix.shape)}, {_rank_in_words(found.mass_matrix)}",
        )
    for name in ("frame", "inverse_frame", "drift", "force"):
        yield name, _method_row(found, name)
    yield "bodies", _bodies_row(found)
    yield "invariants", ", ".join(found.returns.get("invariants", {})) or "none"
    yield "route", f"{found.route!r}: {found.why}"
    for name, below in found.not_used.items():
        yield "not used", f"inherited {name}: {', '.join(below)} overridden below"


def _constraints_row(found: Any, m: int) -> str:
    if m == 0:
        return "none"
    kind = "affine" if "drift" in found.returns else "linear"
    moving = "" if "frame" not in (found.depends_on_time or ()) else ", moving"
    known = "" if found.constraints is None else f", {_rank_in_words(found.constraints)}"
    return f"{m} {kind}{moving}{known}"


def _one_forms(listed: Any) -> tuple[str, str]:
    rows, rank = listed.shape[0], listed.rank
    if rows == rank:
        return "one-forms", f"{rows} listed, independent"
    return (
        "redundant",
        f"{counted(rows, 'one-form')} listed, of rank {rank}; multipliers of least norm",
    )


def _holonomic(values: Any) -> str:
    largest = max(map(abs, values.tolist()), default=0.0)
    return f"{counted(len(values), 'constraint')}, at most {largest:.1e} from zero"


def _rank_in_words(conditioning: Any) -> str:
    short = "" if conditioning.is_full else f" of {min(conditioning.shape)}"
    return f"rank {conditioning.rank}{short}, condition number {conditioning.condition:.3g}"


def _shape_in_words(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


def _lagrangian_row(found: Any) -> str:
    if found.quadratic is None:
        return "not examined"
    return ", ".join(
        [
            "quadratic in v" if found.quadratic else "not quadratic in v",
            "no terms linear in v" if found.homogeneous else "with terms linear in v",
            _dependence_on_time(found, "lagrangian"),
        ]
    )


def _dependence_on_time(found: Any, name: str) -> str:
    if found.depends_on_time is None:
        return "dependence on t unknown"
    return "depends on t" if name in found.depends_on_time else "does not depend on t"


_DEFAULTS = {
    "frame": "the identity (default)",
    "inverse_frame": "none: A is inverted where it is needed",
    "drift": "zero (default)",
    "force": "zero (default)",
}


def _method_row(found: Any, name: str) -> str:
    returned = found.returns.get(name)
    if returned is None:
        is_default = found.returns or not overrides(found.system, name)
        return _DEFAULTS[name] if is_default else "not examined"
    shape = f"{returned.shape} {returned.dtype}"
    if name == "inverse_frame":
        exact = "" if found.inverse_error is None else f", B A = 1 to {found.inverse_error:.1e}"
        return f"{shape}{exact}"
    return f"{shape}, {_dependence_on_time(found, name)}"


def _bodies_row(found: Any) -> str:
    returned = found.returns.get("bodies")
    if returned is None:
        return "none, or out of date"
    kinds = ", ".join(counted(_count(part), type(part).__name__[:-1].lower()) for part in returned)
    if found.bodies is None:
        return kinds
    return f"{kinds}; mass matrix and force as by the Lagrangian to {max(found.bodies[:2]):.1e}"


def _count(part: Any) -> int:
    return part.velocities().shape[0] if hasattr(part, "velocities") else 1
