"""Charts of a planned control: the control, the limits along the path, the costates."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._compiled import compiled
from jaxhamel.cli._results._plan_motion import control_names, controls_along
from jaxhamel.control import PathLimit, Result
from jaxhamel.viz import Chart
from jaxhamel.viz._figures import quantities_figure
from jaxhamel.viz._motion._charts_of import symbol


def plan_charts(result: Result) -> list[Chart]:
    """The control, each limit, and the costates over time."""
    return [_control(result), *_limits(result), _costates(result)]


def _control(result: Result) -> Chart:
    ts = np.asarray(result.trajectory.ts)
    names = [symbol(name) for name in control_names(result)]
    values = controls_along(result, ts)
    figure = quantities_figure(ts, values, names, title="Optimal control", ylabel="control")
    return Chart("control", figure, "The optimal control over time")


def _limits(result: Result) -> Iterator[Chart]:
    """One chart for each path limit, with the limits that are finite."""
    motion = result.trajectory
    for limit in result.problem.constraints:
        if not isinstance(limit, PathLimit):
            continue
        values = np.asarray(_values(limit, motion.ts, motion.q, motion.u, result.control))
        lines = [values]
        names = [limit.label] if values.shape[1] == 1 else _numbered(limit.label, values.shape[1])
        for name, bound in (("lower limit", limit.lower), ("upper limit", limit.upper)):
            for level in np.unique(np.asarray(bound)[np.isfinite(np.asarray(bound))]):
                lines.append(np.full((len(values), 1), level))
                names.append(f"{name} {level:.3g}")
        ts = np.asarray(motion.ts)
        title = f"Limit: {limit.label}"
        figure = quantities_figure(ts, np.hstack(lines), names, title=title, ylabel=limit.label)
        yield Chart(f"limit-{limit.label}", figure, f"{limit.label} and its limits over time")


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name} {i + 1}" for i in range(count)]


@compiled
def _values(limit, ts, qs, us, control):
    return jax.vmap(lambda t, q, u: jnp.asarray(limit.function(t, q, u, control)))(ts, qs, us)


def _costates(result: Result) -> Chart:
    costates = np.asarray(result.costates)
    names = [symbol(name) for name in costate_names(costates.shape[1])]
    ts = np.asarray(result.ts)
    title = "Costates, the derivative of the cost to go by the state"
    figure = quantities_figure(ts, costates, names, title=title, ylabel="costate")
    return Chart("costates", figure, "The costates over time")


def costate_names(count: int) -> list[str]:
    """lambda_1 … lambda_d: of the tangent of the configuration first, then of the quasi-velocities."""
    return [f"lambda_{i + 1}" for i in range(count)]
