"""Fits in stages: a coasting particle determines the drag, then its thrust is found with this drag; exact data, known
answers."""

import signal

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import identify
from jaxhamel.identify import _fit_stages
from jaxhamel.mechanics._description._parameters import parameter
from tests.identify.systems import PLACE, Particle

TS = np.linspace(0.0, 3.0, 31)
MASS, THRUST, DRAG = 2.0, 0.7, 1.6


class Coasting(Particle):
    """The particle with its engine off."""

    def force(self, t, q, v, control):
        return -self.drag * v


def place(x0, v0, thrust):
    """A run with the exact solution of x'' = a − (b/m) x'."""
    rate, final = DRAG / MASS, thrust * MASS / DRAG
    fall = 1 - np.exp(-rate * TS)
    return identify.Run(TS, {"place": x0 + final * TS + (v0 - final) / rate * fall})


COAST, PUSHED = [place(0.2, 1.5, 0.0)], [place(-0.3, 0.4, THRUST)]
START = Particle(MASS, 0.3, 0.5)


def coasting(system):
    view = Coasting(system.mass, system.thrust, system.drag)
    sought = [identify.Positive("drag", "N s/m")]
    return identify.Problem(view, sought, [PLACE], COAST, segments=1, dt=0.1)


def pushed(system):
    sought = [identify.Free("thrust", "m/s²")]
    return identify.Problem(system, sought, [PLACE], PUSHED, segments=1, dt=0.1)


STAGES = {"coasting": coasting, "pushed": pushed}


@pytest.fixture(scope="module")
def found():
    return identify.fit_stages(START, STAGES)


def test_each_stage_starts_from_the_values_before_it(found, tmp_path):
    assert found.converged
    assert type(found.system) is Particle
    for name, value in (("coasting", DRAG), ("pushed", THRUST)):
        estimate = found.estimates[name]
        np.testing.assert_allclose(estimate.values, [value], atol=0.005 * estimate.errors[0])
    assert (found.system.drag, found.system.thrust) == tuple(
        float(estimate.values[0]) for estimate in found.estimates.values()
    )
    assert found.estimates["pushed"].problem.model.system.drag == found.system.drag
    assert [row["stage"] for row in found.rows()] == ["coasting", "pushed"]
    assert set(found.to_dict()["parameters"]) == {"drag", "thrust"}
    assert set(found.to_dict()["stages"]["pushed"]["rms"]) == {"place"}
    assert "pushed: Estimate of Particle: converged" in str(found)
    found.to_csv(tmp_path / "rows.csv")
    rows = (tmp_path / "rows.csv").read_text().splitlines()
    assert rows[0].endswith("remark,stage")
    assert [row.rsplit(",", 1)[1] for row in rows[1:]] == ["coasting", "pushed"]


def interrupting(stage, iteration):
    """Sends SIGINT, as Ctrl-C does, in the given iteration of the given stage."""

    def progress(state):
        if state.stage.startswith(f"{stage}: ") and state.iteration == iteration:
            signal.raise_signal(signal.SIGINT)

    return progress


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_what_was_found(found, monkeypatch):
    """Ctrl-C in either stage or between them keeps the drag found so far; the thrust keeps its start if its stage has
    not begun."""
    begun = "pushed: interrupted before its first iteration"
    cut = identify.fit_stages(START, STAGES, progress=interrupting("coasting", 4))
    late = identify.fit_stages(START, STAGES, progress=interrupting("pushed", 3))
    monkeypatch.setattr(_fit_stages, "fit", interrupted_second(_fit_stages.fit))
    between = identify.fit_stages(START, STAGES)
    assert cut.status == f"coasting: interrupted after 4 iterations: best so far; {begun}"
    assert late.status.endswith("pushed: interrupted after 3 iterations: best so far")
    assert between.status == f"coasting: {found.estimates['coasting'].status}; {begun}"
    for result in (cut, late, between):
        assert not result.converged
        assert result.system.drag == result.estimates["coasting"].system.drag
    assert cut.system.thrust == between.system.thrust == START.thrust
    assert late.system.drag == between.system.drag == found.system.drag


def interrupted_second(fit):
    """Wraps `fit` so that its second call is interrupted at once."""
    calls = []

    def one(*given, **options):
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return fit(*given, **options)

    return one


def test_the_seconds_are_shared(found, monkeypatch):
    """The first of two stages gets half of the seconds, the second all that remain."""
    given = []

    def noted(problem, **options):
        given.append(options["max_seconds"])
        return found.estimates["coasting" if len(given) == 1 else "pushed"]

    monkeypatch.setattr(_fit_stages, "fit", noted)
    identify.fit_stages(START, STAGES, max_seconds=50.0)
    assert given[0] == pytest.approx(25.0, abs=1.0)
    assert given[1] == pytest.approx(50.0, abs=2.0)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([coasting], r"`stages` is .*list.*for the name of each stage"),
        ({}, "`stages` is empty"),
        ({"coasting": COAST}, r"`stages\['coasting'\]` is .*callable system -> identify.Problem"),
        ({"coasting": lambda system: system}, r"`stages\['coasting'\]` is.*identify.Problem"),
    ],
)
def test_messages(stages, message):
    with pytest.raises((TypeError, ValueError), match=message):
        identify.fit_stages(START, stages)


def test_a_stage_of_another_system_is_refused_before_any_fit():
    class Named(Particle):
        extra: jnp.ndarray = parameter(default=1.0)

    def other(system):
        sought = [identify.Positive("extra")]
        return identify.Problem(Named(1.0, 1.0), sought, [PLACE], COAST, segments=1, dt=0.1)

    with pytest.raises(ValueError, match=r"stage 'other': `extra` is no parameter of Particle"):
        identify.fit_stages(START, {"coasting": coasting, "other": other})
