"""Compares a new kernel with XLA's lanes, in values and time, before it is used.

Both integrate the same motion over a few steps from made-up values, because the program is still being traced and has no
values yet. The kernel is used if it compiles, if its results are those of lanes up to rounding, and if it is not slower.
"""

import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.ensemble._equal_steps._equal_steps import Plan
from jaxhamel.ensemble._gpu_kernel._kernel_paths import KernelPaths, Values

# The most steps and the most lanes of a trial, and the number of timed runs.
STEPS, LANES, RUNS = 8, 4096, 3

_verdicts: dict[Any, str | None] = {}  # for each program the reason not to use its kernel, or None


def proves_itself(kernel: KernelPaths, values: Values) -> bool:
    """Whether a kernel may be used: True without a trial if its options say so, else the result of a trial of its program.

    Each program is tried once. If its kernel may not be used, a warning names the reason.
    """
    if kernel.how.trusted or not (kernel.how.interpret or jax.default_backend() == "gpu"):
        return True
    given = tuple((x.shape, x.dtype) for x in jax.tree.leaves(values))
    key = kernel.rate.routine.listing(), kernel.plan.method, kernel.how, given
    if key not in _verdicts:
        _verdicts[key] = _objection(kernel, values)
    if _verdicts[key] is not None:
        _warn(_verdicts[key])
    return _verdicts[key] is None


def _warn(objection: str | None) -> None:
    warnings.warn(
        f"the GPU kernel of this ensemble {objection}; the ensemble runs in XLA's lanes instead. Give kernel=False to "
        "omit the trial, or kernel=jaxhamel.ensemble.Kernel() to use the kernel without it.",
        UserWarning,
        stacklevel=2,
    )


def _objection(kernel: KernelPaths, values: Values) -> str | None:
    """The reason not to use a kernel, or None."""
    plan = kernel.plan._replace(counts=(min(STEPS, max(kernel.plan.counts)),))
    kernel, made_up = kernel._replace(plan=plan), _made_up(values, plan)
    try:
        found, seconds = _timed(kernel.by_kernel, made_up)
    except Exception as failure:  # Triton, ptxas and the driver raise errors of many classes
        return f"cannot be compiled here ({type(failure).__name__}: {_first_line(failure)})"
    wanted, in_lanes = _timed(kernel.by_lanes, made_up)
    error = _difference(found, wanted)
    if not error <= _tolerance(wanted):
        return f"has other results than lanes (relative difference {error:.1e} after {plan.counts[0]} steps)"
    if seconds > in_lanes:
        return f"is slower than lanes ({1e3 * seconds:.3g} ms, {1e3 * in_lanes:.3g} ms)"
    return None


def _first_line(failure: Exception) -> str:
    return str(failure).strip().split("\n")[0][:200]


def _made_up(values: Values, plan: Plan) -> Any:
    """Inputs for the trial: numbers between 0.5 and 1.5, few lanes, and times of steps of 1 ms."""

    def few(x):
        return jax.ShapeDtypeStruct((min(x.shape[0], LANES), *x.shape[1:]), x.dtype)

    y, mine = jax.tree.map(few, (values.y, values.mine))
    y, mine, rate, unit = jax.tree.map(_trial_values, (y, mine, values.of_rate, values.of_unit))
    ts: Any = np.asarray([0.0, 1e-3 * plan.counts[0]], values.ts.dtype)
    return Values(y, mine, rate, unit, ts)


def _trial_values(x) -> Any:
    """An array like x of numbers that differ from each other; integers are 0, which is an index of every table."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return np.zeros(x.shape, x.dtype)
    golden = 0.6180339887498949
    spread = np.mod(golden * np.arange(1, 1 + int(np.prod(x.shape))), 1.0)
    return np.asarray(0.5 + spread.reshape(x.shape), x.dtype)


def _timed(run: Callable, values: Values) -> tuple[Any, float]:
    """The result of a function, and the shortest time of several runs [s].

    It is compiled ahead of time: a compiled program runs even while another program is being traced.
    """
    run = jax.jit(run).lower(values).compile()
    result, times = jax.block_until_ready(run(values)), []
    for _ in range(RUNS):
        began = perf_counter()
        jax.block_until_ready(run(values))
        times.append(perf_counter() - began)
    return result, min(times)


def _difference(found, wanted) -> float:
    """The largest difference, relative to the larger of 1 and the largest number.

    It is infinite if an entry is finite in one of both results only.
    """
    one, other = (np.stack([np.asarray(x) for x in each]) for each in (found, wanted))
    finite = np.isfinite(other)
    if not np.array_equal(np.isfinite(one), finite):
        return float("inf")
    largest = np.max(np.abs(other), initial=0.0, where=finite)
    return float(np.max(np.abs(one - other), initial=0.0, where=finite) / max(largest, 1.0))


def _tolerance(states) -> float:
    """√ε: far above rounding in a few steps, far below any mistake."""
    return float(np.sqrt(np.finfo(states[0].dtype).eps))
