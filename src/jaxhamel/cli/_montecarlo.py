"""The command `montecarlo`: a scenario with spread parameters in, statistics and pictures out."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxhamel.ensemble import Samples, Study, monte_carlo, rollout
from jaxhamel.ensemble._statistics import probability
from jaxhamel.simulate import simulate
from jaxhamel.systems import RollingBall
from jaxhamel.viz import Chart, fan_figure, histograms_figure, landing_figure
from jaxhamel.viz._along import along

from ._build import build_control, build_initial, build_system, build_times, solver_options
from ._outputs import Outcome, folder, write_all
from ._scenario import Scenario
from ._simulate import run_of, with_task
from ._spread import Nominal, check_extremes, distributions, member
from ._task import build_path
from ._terminal import Terminal
from ._validate import ScenarioError
from ._views import Run

BLOCK = 256
SHOWN = 200  # trajectories in the fan


def run_montecarlo(
    scenario: Scenario,
    out: Path,
    terminal: Terminal,
    started: float,
    trajectories: int | None = None,
    seed: int = 0,
    resume: bool = False,
) -> Outcome:
    """Run the scenario's ensemble and write its files; what was computed stays in `values.zarr`.

    **Raises:** `ScenarioError` before anything is written, and where the folder holds another run.
    """
    table = _table(scenario)
    control = build_control(scenario, system := build_system(scenario))
    nominal = Nominal(system, *build_initial(scenario), control)
    spread, size = distributions(table["spread"], nominal), trajectories or table["trajectories"]
    check_extremes(Samples(spread, size, seed, BLOCK, table["sampler"]), nominal)
    model = Model(scenario, nominal)
    terminal.say(f"{scenario.name}: {size} trajectories of {model.ts[-1]:g} s; compiling …")
    options = {"sampler": table["sampler"], "batched": True, "block": BLOCK}
    with terminal.updating(), _as_one_line():
        study = monte_carlo(
            model,
            spread,
            size,
            seed=seed,
            folder=folder(out),
            resume=resume,
            progress=lambda at: terminal.update(_line(at)),
            **options,
        )
    terminal.say(str(study))
    return _write(out, scenario, study, model, started)


class Model:
    """From a block of samples to what each trajectory does, by `rollout`."""

    def __init__(self, scenario: Scenario, nominal: Nominal):
        table = scenario["montecarlo"]
        self.nominal, self.dt = nominal, table["dt"]
        full = build_times(scenario)
        self.ts = np.linspace(full[0], full[-1], table["samples"])
        self.asked = None
        if scenario["task"]:
            self.asked = along(build_path(scenario), self.ts)

    def __call__(self, samples: Mapping[str, Any]) -> dict[str, Array]:
        system, axes, (q, u), control = self.states(samples)
        of_one = _of_ball if isinstance(system, RollingBall) else _of_any
        measure = partial(of_one, self.ts, self.asked)
        return jax.vmap(measure, (axes.system, axes.control, 0, 0))(system, control, q, u)

    def states(self, samples: Mapping[str, Any]):
        """(systems, axes, (q, u), controls); what all trajectories share has the axis None."""
        shapes = []

        def varied(sample):
            leaves, structure = jax.tree.flatten(member(sample, self.nominal))
            changes = [isinstance(x, jax.core.Tracer) for x in leaves]
            shapes.append((leaves, structure, changes))
            return [x for x, differs in zip(leaves, changes, strict=True) if differs]

        own = iter(jax.vmap(varied)(dict(samples)))
        leaves, structure, changes = shapes[-1]
        filled = [next(own) if differs else x for x, differs in zip(leaves, changes, strict=True)]
        members = jax.tree.unflatten(structure, filled)
        axes = jax.tree.unflatten(structure, [0 if differs else None for differs in changes])
        system, q0, u0, control = members
        state = rollout(system, q0, u0, self.ts, control, dt=self.dt, in_axes=tuple(axes))
        return system, axes, state, control


def _of_ball(ts, asked, system, control, q, u) -> dict[str, Array]:
    """Where a ball ends, how well it keeps to its path, what the ground has to do."""
    force = jax.vmap(lambda t, q, u: system.contact_force(t, q, u, control))(jnp.asarray(ts), q, u)
    tangential = jnp.sqrt(jnp.sum(force[:, :2] ** 2, axis=1))
    found = {
        "end_x": q[1][-1, 0],
        "end_y": q[1][-1, 1],
        "min_normal_force": jnp.min(force[:, 2]),
        "max_friction": jnp.max(tangential / force[:, 2]),
    }
    if asked is None:
        return found
    away = jnp.sum((q[1] - asked) ** 2, axis=1)
    return found | {
        "tracking_rms": jnp.sqrt(jnp.mean(away)),
        "tracking_max": jnp.sqrt(jnp.max(away)),
    }


def _of_any(ts, asked, system, control, q, u) -> dict[str, Array]:
    """The last state."""
    ends = [x[-1] for x in jax.tree.leaves(q)]
    numbers = {f"end_q{i}": x for i, x in enumerate(jnp.concatenate([jnp.ravel(x) for x in ends]))}
    return numbers | {f"end_u{i}": x for i, x in enumerate(u[-1])}


def _table(scenario: Scenario) -> Mapping[str, Any]:
    table = scenario["montecarlo"]
    if table is None or not table["spread"]:
        raise ScenarioError(
            "`montecarlo.spread` is missing; montecarlo needs at least one [[montecarlo.spread]]: what differs "
            "from trajectory to trajectory."
        )
    return table


@contextmanager
def _as_one_line() -> Iterator[None]:
    """What the library says about a folder that holds another run, as a scenario's error."""
    try:
        yield
    except ValueError as error:
        raise ScenarioError(
            " ".join(str(error).split()) + " On the command line: --resume, --out."
        ) from None


def _line(at: Any) -> str:
    rate = at.done / at.elapsed if at.elapsed > 0 else 0.0
    return (
        f"{at.done} of {at.size} trajectories, {at.failed} failed  {rate:.0f}/s  "
        f"{at.elapsed:.0f} s, about {at.left:.0f} s left"
    )


def _write(out: Path, scenario: Scenario, study: Study, model: Model, started: float) -> Outcome:
    statistics = dict(study.statistics)
    limit = scenario["montecarlo"]["friction_limit"]
    if limit and "max_friction" in study.values:
        good = study.values["max_friction"][np.isfinite(study.values["max_friction"])]
        statistics["slip"] = probability(good > limit)
    n, failed = study.trajectories, len(study.failed)
    reached = {"trajectories": n, "failed": failed, "failed_indices": study.failed[:100].tolist()}
    message = f"{n} trajectories, {failed} failed"
    status = "failed" if failed == n else "success"
    tiles = ((f"{n}", "trajectories"), (f"{failed}", "failed"), *_tiles(statistics))
    outcome = Outcome(
        "montecarlo",
        scenario,
        status,
        message,
        started,
        reached=reached,
        tiles=tiles,
        lead=f"{message}; the moving ball is the nominal one.",
        files=("values.zarr",),
        top={"trajectories": n, "failed": failed, "statistics": statistics},
    )
    run = with_task(_nominal_run(scenario, model), scenario)
    return write_all(out, outcome, run, charts=_charts(study, model, run))


def _nominal_run(scenario: Scenario, model: Model) -> Run:
    system, q0, u0, control = model.nominal
    trajectory = simulate(
        system, q0, u0, build_times(scenario), control, **solver_options(scenario)
    )
    return run_of(trajectory, system, control)


def _tiles(statistics: Mapping[str, Any]) -> list[tuple[str, str]]:
    tiles = []
    if "slip" in statistics:
        tiles.append((f"{100 * statistics['slip']['probability']:.3g} %", "would slip"))
    rms = statistics["quantities"].get("tracking_rms", {})
    if rms.get("n"):
        tiles.append(
            (f"{1e3 * rms['quantiles']['0.95']['value']:.3g} mm", "tracking error, 95 % below")
        )
    return tiles


LABELS = {
    "end_x": "x at the end / m",
    "end_y": "y at the end / m",
    "min_normal_force": "smallest normal force / N",
    "max_friction": "friction coefficient needed",
    "tracking_rms": "tracking error, RMS / m",
    "tracking_max": "tracking error, largest / m",
}


def _charts(study: Study, model: Model, run: Run) -> list[Chart]:
    finite = {name: x[np.isfinite(x)] for name, x in study.values.items()}
    shown = {LABELS.get(name, name): x for name, x in finite.items() if len(x)}
    charts = []
    if "end_x" in finite and len(finite["end_x"]):
        charts += _ball_charts(
            study, model, run, np.column_stack([finite["end_x"], finite["end_y"]])
        )
    if shown:
        figure = histograms_figure(shown)
        charts.append(Chart("histograms", figure, "Histogram of each quantity with its quantiles"))
    return charts


def _ball_charts(study: Study, model: Model, run: Run, ends: np.ndarray) -> list[Chart]:
    first = {name: x[:SHOWN] for name, x in study.samples[0].items()}
    _, _, (q, _), _ = eqx.filter_jit(model.states)(first)
    nominal = np.asarray(run.q[1])
    fan = fan_figure(np.asarray(q[1])[: study.trajectories], nominal, title="Paths on the ground")
    landing = landing_figure(ends, nominal[-1])
    return [
        Chart("fan", fan, "Paths of many trajectories and the nominal one"),
        Chart("landing", landing, "Where the trajectories end, with the ellipses of half and 95 %"),
    ]
