"""Estimates the time and memory of a command from the numbers in its scenario, and refuses a command that needs more than
the machine has or its time limit allows.

The estimates are lower bounds: a time for each integration step, and the arrays that are allocated in any case.
"""

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from jaxhamel.cli._scenario._plan_schema import PLANS
from jaxhamel.cli._scenario._validate import ScenarioError

STEP_SECONDS = 1e-6  # seconds per integration step of one trajectory; an ensemble takes a tenth of this on each core
NO_LIMIT = 30 * 86_400.0  # longest time [s] of a command without a time limit
ROW = 1_000  # bytes for each output time: its numbers, copies of them, and their text
BLOCK = 256  # an ensemble simulates at least this many trajectories at once, or all if it has fewer


def check_simulation_size(tables: Mapping[str, Any]) -> None:
    """Checks the numbers of output times and steps of `[time]` and `[solver]`.

    **Raises:** `ScenarioError` with the memory or time needed, like the functions below.
    """
    table, solver = tables["time"], tables["solver"]
    _check_memory("time.samples", table["samples"], table["samples"] * ROW)
    if solver["dt"] > 0:
        steps = min(_quotient(table["end"] - table["start"], solver["dt"]), solver["max_steps"])
        _check_seconds("solver.dt", solver["dt"], steps * STEP_SECONDS)
    _check_seconds("solver.max_steps", solver["max_steps"], solver["max_steps"] * STEP_SECONDS)


def check_control_size(tables: Mapping[str, Any], max_seconds: float | None = None) -> None:
    """Checks the numbers of unknowns and steps of `[task]`: one iteration must fit into memory and the time limit."""
    check_simulation_size(tables)
    task = tables["task"]
    if task is None:
        return
    if task["path"] in PLANS:
        method = tables["method"]
        size = method["intervals"] * method["degree"] ** 2 * ROW
        _check_memory("method.intervals", method["intervals"], size)
        return
    budget = task["max_seconds"] if max_seconds is None else max_seconds
    pieces, masses = task["coefficients"], max(len(task["rest"]), 1)
    width = 8 + masses * (task["degree"] + 1)
    _check_memory("task.coefficients", pieces, pieces * 8 * width**2, of=f"degree {task['degree']}")
    _check_seconds("task.steps", task["steps"], pieces * task["steps"] * STEP_SECONDS, budget)


def check_montecarlo_size(tables: Mapping[str, Any], trajectories: int | None = None) -> None:
    """Checks the numbers of trajectories, times and steps of `[montecarlo]`."""
    check_simulation_size(tables)
    table = tables["montecarlo"]
    if table is None:
        return
    size = table["trajectories"] if trajectories is None else trajectories
    in_block = max(min(size, BLOCK), 1) * table["samples"] * 8 * 12
    _check_memory("montecarlo.samples", table["samples"], in_block)
    _check_memory("trajectories", size, size * 8 * 8)
    steps = float(table["samples"] - 1)
    if not table["rtol"]:
        span = tables["time"]["end"] - tables["time"]["start"]
        steps = max(steps, _quotient(span, table["dt"]))
    each = 0.1 * STEP_SECONDS / (os.cpu_count() or 1)
    _check_seconds("montecarlo.dt", table["dt"], max(size, 1) * steps * each)


def check_identification_size(
    tables: Mapping[str, Any], synthetic: bool, max_seconds: float | None = None
) -> None:
    """Checks the numbers of starts and segments in `[fit]`, and for `synthetic` data the runs and rates of `[synthetic]`."""
    table, fit = tables["synthetic"], tables["fit"]
    if synthetic:
        rows = table["runs"] * (table["seconds"] * table["rate"])
        _check_memory("synthetic.rate", table["rate"], rows * ROW)
        budget = fit["max_seconds"] if max_seconds is None else max_seconds
        check_fit_step(fit["dt"], table["runs"] * table["seconds"], budget)
    _check_memory("fit.starts", fit["starts"], fit["starts"] * ROW)
    _check_memory("fit.segments", fit["segments"], fit["segments"] * ROW)


def check_fit_step(dt: float, seconds: float, budget: float = NO_LIMIT) -> None:
    """Checks that one evaluation of the fit, with steps of `fit.dt` over all runs, fits into memory and the time limit."""
    if dt > 0:
        steps = _quotient(seconds, dt)
        _check_memory("fit.dt", dt, steps * 8)
        _check_seconds("fit.dt", dt, steps * STEP_SECONDS, budget)


def _quotient(span: float, step: float) -> float:
    return span / step if span < math.inf and step > span / 1e300 else math.inf


def _check_memory(key: str, value: float, wanted: float, of: str = "") -> None:
    there = memory()
    if wanted > there:
        more = f" ({of})" if of else ""
        raise ScenarioError(
            f"`{key}` is {value:.4g}{more}; that takes {_bytes(wanted)} of memory at least, and this machine has "
            f"{_bytes(there)}. Give a smaller one."
        )


def _check_seconds(key: str, value: float, wanted: float, limit: float = NO_LIMIT) -> None:
    if wanted > limit:
        raise ScenarioError(
            f"`{key}` is {value:.4g}; that takes {_seconds(wanted)} at least, and the limit is {_seconds(limit)}. "
            "Give fewer or larger steps, or a shorter time."
        )


def memory() -> float:
    """Bytes of memory of the machine, or of the container that the process runs in."""
    found = [math.inf]
    with suppress(AttributeError, ValueError, OSError):  # unavailable on this system
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # the container has no such limit
            found.append(float(Path("/sys/fs/cgroup", name).read_text()))
    return min(found)


def _bytes(count: float) -> str:
    return f"{count / 2**30:,.4g} GiB" if count < 1e15 else f"{count:.3g} bytes"


def _seconds(count: float) -> str:
    if count > 1e300:
        return "more than 1e300 s"
    for unit, length in (("days", 86_400.0), ("hours", 3_600.0)):
        if count >= 2 * length:
            return f"{count / length:.3g} {unit}"
    return f"{count:.3g} s"
