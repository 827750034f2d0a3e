"""`[control]` with `curve = "recorded"`: a CSV file for `simulate` and `montecarlo`, columns of the runs for `identify`."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import identify
from jaxhamel.cli._commands._simulate import simulated
from jaxhamel.cli._objects._build import build_control
from jaxhamel.cli._objects._ensemble_model import EnsembleModel
from jaxhamel.cli._objects._identification import build_measurements, build_problem, read_run
from jaxhamel.cli._objects._prepared import PreparedRun
from jaxhamel.cli._objects._recorded_control import check_not_of_runs
from jaxhamel.cli._objects._spread import nominal_of
from jaxhamel.cli._scenario._scenario import load, load_identification
from jaxhamel.cli._scenario._validate import ScenarioError
from tests.control.cart import DrivenCart

CONTROL = """
[system]
mass = 2.0

[control]
curve = "recorded"
columns = ["amps"]
between = "held"
factor = [4.0]
"""
SIMULATED = (
    CONTROL
    + """
file = "logs/run.csv"
time = "ms"
time_unit = "ms"

[time]
end = 0.3
samples = 4

[montecarlo]
samples = 3

[[montecarlo.spread]]
key = "system.mass"
std = 0.1
"""
)
LOG = "ms,x,amps\n0,0.0,1.0\n100,0.01,-1.0\n200,0.02,\n300,0.01,0.5\n"


def scenario_of(folder, *changes, content=SIMULATED):
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs" / "run.csv").write_text(LOG, encoding="utf-8")
    (folder / "cart.toml").write_text(content, encoding="utf-8")
    return load(str(folder / "cart.toml"), changes, DrivenCart)


def place(ts, mass=2.0):
    """4 N up to 0.1 s, then −4 N, from rest."""
    a, late = 4.0 / mass, np.maximum(ts - 0.1, 0.0)
    return a * (ts**2 / 2 - late**2)


def test_simulates_a_log(tmp_path):
    run = PreparedRun.of(scenario_of(tmp_path))
    np.testing.assert_allclose(simulated(run).q[:, 0], place(run.ts), atol=1e-12)
    model = EnsembleModel(run.scenario, nominal_of(run))
    masses = np.array([1.0, 2.0, 3.0])
    many, _ = model({"system.mass": jnp.asarray(masses)})
    np.testing.assert_allclose(many["end_q_1"], place(np.array(0.3), masses), atol=1e-9)


def test_delay(tmp_path):
    run = PreparedRun.of(scenario_of(tmp_path, "control.delay=0.05"))
    late = 4.0 / 2.0 * (0.3**2 / 2 - 0.15**2)  # the first value acts from the start
    np.testing.assert_allclose(simulated(run).q[-1, 0], late, atol=1e-12)


MEASURED = (
    CONTROL
    + """
[data]
time = "ms"
time_unit = "ms"

[[measurements]]
quantity = "coordinate"
index = 0
columns = ["x"]

[[parameters]]
kind = "positive"
path = "mass"
"""
)


def test_measured_runs_have_their_own_control(tmp_path):
    (tmp_path / "mass.toml").write_text(MEASURED, encoding="utf-8")
    scenario = load_identification(str(tmp_path / "mass.toml"), (), DrivenCart)
    system = DrivenCart(jnp.array(1.0))
    control, measurements = build_control(scenario, system), build_measurements(scenario, system)
    assert isinstance(control, identify.ControlColumns)
    with pytest.raises(ScenarioError, match="give their folder by --data"):
        check_not_of_runs(control)
    ts = np.linspace(0.0, 0.3, 31)
    amps = np.where(ts < 0.0999, 1.0, -1.0)
    rows = [f"{1e3 * t:.0f},{x:.12f},{a}" for t, x, a in zip(ts, place(ts, 3.0), amps, strict=True)]
    (tmp_path / "run.csv").write_text("ms,x,amps\n" + "\n".join(rows) + "\n", encoding="utf-8")
    run = read_run(scenario, tmp_path / "run.csv", measurements, control)
    estimate = identify.fit(build_problem(scenario, system, measurements, [run]))
    np.testing.assert_allclose(estimate.values, [3.0], rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("control.file=", r"`control.file` is missing; it must be a CSV file"),
        ("control.file=../run.csv", r"`control.file` is \"../run.csv\"; it must be in the folder"),
        ("control.file=none.csv", r"none.csv: the file cannot be read"),
        ('control.columns=["volts"]', r"run.csv, line 1: there is no column `volts`"),
        ('control.columns=["amps","x"]', r"`control.columns` has 2 columns; it must have 1"),
        ("control.factor=[1.0,2.0]", r"`control.factor` of ControlColumns is \[1.0, 2.0\]"),
        ("control.time_unit=s", r"read in s, the times are 100 s apart"),
        ("control.between=cubic", r"`control.between`"),
    ],
)
def test_messages(tmp_path, change, message):
    with pytest.raises(ScenarioError, match=message):
        PreparedRun.of(scenario_of(tmp_path, change))


def test_a_record_that_is_too_short(tmp_path):
    with pytest.raises(
        ScenarioError, match=r"record from 0 s to 0.4 s, and `ts` goes from 0 s to 9 s"
    ):
        simulated(PreparedRun.of(scenario_of(tmp_path, "time.end=9")))


def test_other_uses_are_refused(tmp_path):
    path = tmp_path / "mass.toml"
    path.write_text(MEASURED.replace("factor", 'file = "a.csv"\nfactor'), encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"`control.file` is for `simulate` and `montecarlo`"):
        build_control(load_identification(str(path), (), DrivenCart), DrivenCart(jnp.array(1.0)))
    gains = '\n[feedback]\nkind = "gains"\ngains = [[1.0, 0.0]]\n'
    path.write_text(MEASURED + gains, encoding="utf-8")
    with pytest.raises(ScenarioError, match="the columns of the runs have the whole control"):
        build_control(load_identification(str(path), (), DrivenCart), DrivenCart(jnp.array(1.0)))
