"""The page of a planned control: the motion, the control, the limits, and the certificate.

Of a `MovingParts` the motion of the system inside is drawn, with its parts. The charts are those of the control, of the
limits along the path, and of the costates.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib import rc_context
from matplotlib.axes import Axes

from jaxhamel._compiled import compiled
from jaxhamel._typing import Scalar, Time
from jaxhamel.control import Certificate, PathLimit, Result
from jaxhamel.mechanics import MovingParts
from jaxhamel.simulate._results import in_words
from jaxhamel.viz import Chart
from jaxhamel.viz._charts import distinct
from jaxhamel.viz._figures._canvas import legend_above
from jaxhamel.viz._figures._one_motion import quantities_figure
from jaxhamel.viz._motion._charts_of import names_and_label, symbol
from jaxhamel.viz._motion._charts_of import names_and_units_of_controls as of_system
from jaxhamel.viz._motion._page import parameters, view
from jaxhamel.viz._motion._run import ShownMotion
from jaxhamel.viz._report import Report
from jaxhamel.viz._style import LIGHT, MATPLOTLIB, in_label


class Interpolated(eqx.Module):
    """The curve θ(t) with θ = `values`, θ̇ = `rates` and θ̈ = `seconds` at the times `ts`; between neighbouring times it is a
    polynomial of degree 5.
    """

    ts: Float[Array, " T"]
    values: Float[Array, "T p"]
    rates: Float[Array, "T p"]
    seconds: Float[Array, "T p"]

    def __call__(self, t: Time) -> Float[Array, " p"]:
        """θ(t)."""
        t = jnp.asarray(t, self.ts.dtype)
        i = jnp.searchsorted(self.ts, jax.lax.stop_gradient(t), side="right") - 1
        i = jnp.clip(i, 0, self.ts.shape[0] - 2)
        h = self.ts[i + 1] - self.ts[i]
        start = (self.values[i], h * self.rates[i], h**2 * self.seconds[i])
        end = (self.values[i + 1], h * self.rates[i + 1], h**2 * self.seconds[i + 1])
        return _quintic((t - self.ts[i]) / h, start, end)


def _quintic(s: Scalar, start: tuple[Array, ...], end: tuple[Array, ...]) -> Array:
    """The value at s of the polynomial of degree 5 on [0, 1] with given value, first and second derivative at both ends."""
    a, b, c = start
    gap = end[0] - a - b - 0.5 * c
    slope, bend = end[1] - b - c, end[2] - c
    cubic = 10.0 * gap - 4.0 * slope + 0.5 * bend
    fourth = -15.0 * gap + 7.0 * slope - bend
    fifth = 6.0 * gap - 3.0 * slope + 0.5 * bend
    return a + s * (b + s * (0.5 * c + s * (cubic + s * (fourth + s * fifth))))


def shown_motion(result: Result) -> ShownMotion:
    """The motion of the result; of a `MovingParts` the motion of the system inside, whose control is the motion of the
    parts.
    """
    system, control = result.problem.system, result.control
    run = replace(ShownMotion.of(result.trajectory, system, control), control_chart=False)
    tracking = result.problem.tracking
    path = None if tracking is None else tracking.path
    obstacles = obstacles_along(result, run.ts)
    if not isinstance(system, MovingParts):
        return replace(run, path=path, obstacles=obstacles)
    k = system.system.n_independent
    q = run.q[:-1] if len(run.q) > 2 else run.q[0]
    ts = jnp.asarray(run.ts)
    seconds = jnp.asarray(controls_along(result, run.ts))
    motion = Interpolated(ts, jnp.asarray(run.q[-1]), jnp.asarray(run.u[:, k:]), seconds)
    inside = {"system": system.system, "control": motion, "q": q, "u": run.u[:, :k]}
    return replace(run, **inside, path=path, obstacles=obstacles)


def obstacles_along(result: Result, ts: np.ndarray) -> tuple[tuple[str, np.ndarray], ...]:
    """The outlines of the problem's path limits at given times: the name of each, and its points `(T, P, 3)`."""
    limits = [x for x in result.problem.constraints if isinstance(x, PathLimit)]
    drawn = [x for x in limits if x.outline is not None]
    # the limit is on the distance to an obstacle; its outline is the obstacle itself
    names = [x.label.removeprefix("distance to ") for x in drawn]
    lines = [_in_space(_values_along(x.outline, jnp.asarray(ts))) for x in drawn]
    return tuple(zip(names, lines, strict=True))


def _in_space(points: Array) -> np.ndarray:
    """The points `(T, P, 3)` in space, from points of the ground `(T, P, 2)`, which get z = 0, or from points in space."""
    return np.pad(points, ((0, 0), (0, 0), (0, 3 - points.shape[-1])))


def controls_along(result: Result, ts: np.ndarray) -> np.ndarray:
    """The control at given times, `(T, m)`."""
    return np.asarray(_values_along(result.control, jnp.asarray(ts)))


@compiled
def _values_along(control: Any, ts: Array) -> Array:
    return jax.vmap(control)(ts)


def control_names(result: Result) -> list[str]:
    """The names of the controls, as the system declares them; control_1 … control_m if it does not name as many."""
    return names_and_units_of_controls(result)[0]


def names_and_units_of_controls(result: Result) -> tuple[list[str], list[str]]:
    """The name and the unit of each control; without names that the system declares, no units."""
    m = int(np.shape(result.control(result.problem.ts[0]))[0])
    return of_system(result.problem.system, m)


def plan_charts(result: Result) -> list[Chart]:
    """The charts of the control, of each path limit and, if the method is `Collocation`, of the costates."""
    costates = [] if result.costates is None else [_costates(result)]
    return [_control(result), *_limit_charts(result), *costates]


def _control(result: Result) -> Chart:
    ts = np.asarray(result.trajectory.ts)
    names, label = names_and_label(*names_and_units_of_controls(result))
    values = controls_along(result, ts)
    figure = quantities_figure(ts, values, names, title="Optimal control", ylabel=label)
    return Chart("control", figure, "The optimal control over time")


def _limit_charts(result: Result) -> Iterator[Chart]:
    """Yields a chart for each path limit: the limited function over time, with lines at its finite bounds."""
    motion = result.trajectory
    for limit in result.problem.constraints:
        if not isinstance(limit, PathLimit):
            continue
        ts, label = np.asarray(motion.ts), limit.label
        values = np.asarray(_limit_along(limit, motion.ts, motion.q, motion.u, result.control))
        names = [label] if values.shape[1] == 1 else _numbered(label, values.shape[1])
        title = label[0].upper() + label[1:] if label.startswith("limit") else f"Limit: {label}"
        quantity = re.sub(r" \[(.+)\]$", lambda unit: f" / {in_label(unit[1])}", limit.quantity)
        figure = quantities_figure(ts, values, names, title=title, ylabel=quantity)
        _draw_bounds(figure.axes[0], limit)
        yield Chart(f"limit-{label}", figure, f"{label} and its limits over time")


def _draw_bounds(axes: Axes, limit: PathLimit) -> None:
    """Draws the finite bounds of a limit as dashed lines, and the legend."""
    for name, bound, dash in (("lower", limit.lower, ":"), ("upper", limit.upper, "--")):
        for level in np.unique(np.asarray(bound)[np.isfinite(np.asarray(bound))]):
            label = f"{name} limit {level:.3g}".replace("-", "−")
            axes.axhline(level, color=LIGHT["limit"], linestyle=dash, linewidth=1.4, label=label)
    with rc_context(MATPLOTLIB):
        legend_above(axes)


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name} {i + 1}" for i in range(count)]


@compiled
def _limit_along(limit, ts, qs, us, control):
    return jax.vmap(lambda t, q, u: jnp.atleast_1d(limit.function(t, q, u, control)))(ts, qs, us)


def _costates(result: Result) -> Chart:
    costates = np.asarray(result.costates)
    names = [symbol(name) for name in costate_names(costates.shape[1])]
    ts = np.asarray(result.ts)
    title = "Costates, the derivative of the cost to go by the state"
    figure = quantities_figure(ts, costates, names, title=title, ylabel="costate")
    return Chart("costates", figure, "The costates over time")


def costate_names(count: int) -> list[str]:
    """The names lambda_1 … lambda_d of the costates: first those of the configuration, in its tangent space, then those of
    the quasi-velocities.
    """
    return [f"lambda_{i + 1}" for i in range(count)]


def page_of_plan(result: Result, title: str) -> Report:
    """The content of the page of a result of `control.solve`."""
    run = shown_motion(result)
    shown = view(run)
    charts = [*plan_charts(result), *shown.charts]
    numbers = {k: x for k, x in result.to_dict().items() if k not in ("certificate", "status")}
    proved = {} if result.certificate is None else {"Certificate": proof(result.certificate)}
    return Report(
        title=title or type(run.system).__name__,
        lead=lead(result),
        scene=shown.scene,
        charts=distinct(charts),
        tiles=[*shown.tiles, *plan_tiles(result)],
        tables={
            **proved,
            "Reached": {k.replace("_", " "): v for k, v in {**shown.reached, **numbers}.items()},
            "Parameters": parameters(run.system),
        },
        warning=_warning(result),
    )


def plan_tiles(result: Result) -> tuple[tuple[str, str], ...]:
    """The cost and the number of iterations as pairs of texts (value, meaning)."""
    return ((f"{result.cost:.6g}", "cost J"), (str(len(result.history["cost"])), "iterations"))


def lead(result: Result) -> str:
    """The sentence under the heading: the cost, and whether a certificate of optimality holds."""
    certificate = result.certificate
    if certificate is None:
        return f"A control with cost J = {result.cost:.8g}, found by {len(result.history['cost'])} iterations."
    if not certificate.holds:
        return "The best control that was found; its certificate does not hold."
    return f"An optimal control with cost J = {result.cost:.8g}, a {certificate.second_order}: its certificate holds."


def proof(certificate: Certificate) -> dict[str, Any]:
    """The lines of the certificate as rows of a table."""
    lines = (line.strip().partition(":") for line in certificate.words.splitlines())
    return {name: value.strip() or "yes" for name, _, value in lines}


def _warning(result: Result) -> str:
    if not bool(result.trajectory.succeeded):
        return f"The simulation {in_words(result.trajectory.result, result.trajectory.t_end)}"
    certificate = result.certificate
    if certificate is None or certificate.holds:
        return "" if result.converged else f"No optimum was proved: {result.status}."
    reason = certificate.words.splitlines()[0].removeprefix("certificate: does NOT hold; ")
    return f"No optimum was proved: {reason}."
