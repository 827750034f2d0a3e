"""Runs whose control is a record: columns of the run's file, parameters of a machine in closed form, the run's clock."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import identify
from tests.control.cart import Cart


class Sled(Cart):
    """m ẍ = c(t) − d ẋ."""

    drag: jax.Array
    n_controls = 1

    def force(self, t, q, v, control):
        return control - self.drag * v


PLACE = identify.Coordinate(0, name="place", columns=("place",), unit="m", noise=1e-4)


def place(record_ts, values, ts, mass=2.0, drag=0.7):
    """The exact place from rest, under values that are held."""
    inside = record_ts[(record_ts > ts[0]) & (record_ts < ts[-1])]
    grid, x, v, out = np.union1d(inside, ts), 0.0, 0.0, [0.0]
    rate = drag / mass
    for t0, t1 in itertools.pairwise(grid):
        c, h = values[max(np.searchsorted(record_ts, t0, side="right") - 1, 0)], t1 - t0
        steady, decay = c / drag, np.exp(-rate * h)
        x += steady * h + (v - steady) * (1 - decay) / rate
        v = steady + (v - steady) * decay
        out.append(x)
    return np.array(out)[np.searchsorted(grid, ts)]


def forces(seed, rate, seconds):
    ts = np.arange(int(seconds * rate) + 1) / rate
    return ts, np.repeat(np.random.default_rng(seed).normal(size=len(ts)) * 3, 7)[: len(ts)]


def run_of(seed, seconds, rate, measured=50):
    record_ts, values = forces(seed, rate, seconds)
    ts = np.arange(int(seconds * measured) + 1) / measured
    control = jaxhamel.Recorded(record_ts, values, "held")
    return identify.Run(ts, {"place": place(record_ts, values, ts)}, control)


def fitted(runs, **options):
    parameters = [identify.Positive("mass"), identify.Positive("drag")]
    start = Sled(jnp.array(1.3), jnp.array(0.3))
    return identify.fit(identify.Problem(start, parameters, [PLACE], runs, **options))


@pytest.mark.parametrize("rate", [50, 100, 37])
def test_finds_mass_and_drag(rate):
    """A record of the same rate as the measurements, a faster one, and one with jumps within the steps of the fit."""
    runs = [run_of(0, 3.0, rate), run_of(1, 4.3, rate)]
    problem = identify.Problem(
        Sled(jnp.array(1.0), jnp.array(1.0)), [identify.Positive("mass")], [PLACE], runs
    )
    assert len(problem.groups) == 1  # runs of different lengths share one program
    estimate = fitted(runs)
    assert estimate.converged
    np.testing.assert_allclose(estimate.values, [2.0, 0.7], rtol=1e-4)


def test_a_held_record_taken_for_a_linear_one_is_early_by_half_a_period():
    """The wrong kind of record shifts the control by 10 ms, and the residuals show it."""
    run = run_of(0, 4.0, 50)
    wrong = jaxhamel.Recorded(np.asarray(run.control.edges), run.control.values, "linear")
    early = identify.Run(run.ts, run.values, wrong)
    assert fitted([early]).rms["place"] > 20 * fitted([run]).rms["place"]


def test_predicts_with_the_record():
    run = run_of(3, 4.0, 50)
    found = identify.predict(Sled(jnp.array(2.0), jnp.array(0.7)), [PLACE], run, 0.5)
    assert found.rms["place"] < 1e-6


TABLE = "time,place,amps\n0,0.0,1.5\n20,0.1,\n40,0.3,2.5\n60,,\n80,0.4,1.0\n"


def read(tmp_path, content=TABLE, between="held", **options):
    path = tmp_path / "run.csv"
    path.write_text(content, encoding="utf-8")
    control = identify.ControlColumns(["amps"], between, **options)
    return identify.read_csv(path, [PLACE], time="time", units={"time": "ms"}, control=control)


def test_reads_columns(tmp_path):
    run = read(tmp_path, factor=2.0)
    np.testing.assert_allclose(run.control.values[:, 0], [3.0, 3.0, 5.0, 5.0, 2.0])
    np.testing.assert_allclose(run.control.edges, [0.0, 0.02, 0.04, 0.06, 0.08], atol=1e-12)
    linear = read(tmp_path, between="linear").control
    np.testing.assert_allclose(linear.values[:, 0], [1.5, 2.0, 2.5, 1.75, 1.0])


def test_dead_time(tmp_path):
    late = read(tmp_path, delay=0.005).control
    assert [float(late(t)[0]) for t in (0.0, 0.0049, 0.044, 0.0451)] == [1.5, 1.5, 1.5, 2.5]


def test_record_keeps_the_clock_of_its_run(tmp_path):
    run = read(tmp_path)
    moved = run.at(run.ts * 1.01 + 3.0)
    np.testing.assert_allclose(moved.control.edges, moved.ts, atol=1e-12)
    assert moved.control.between == "held"
    part = moved.until(3.05)
    assert len(part.ts) == 3
    np.testing.assert_allclose(part.control.edges, moved.ts, atol=1e-12)


def test_messages(tmp_path):
    with pytest.raises(
        identify.DataError, match=r"no column `amps`; the file has time, place, volts"
    ):
        read(tmp_path, TABLE.replace("amps", "volts"))
    gone = TABLE.replace("0,0.0,1.5", "0,0.0,")
    with pytest.raises(
        identify.DataError,
        match=r"column `amps`, which is a control, has no value in the first row",
    ):
        read(tmp_path, gone)
    with pytest.raises(identify.DataError, match=r"has no value in the last row"):
        read(tmp_path, TABLE.replace("80,0.4,1.0", "80,0.4,"), "linear")
    with pytest.raises(
        ValueError, match=r"`columns` of ControlColumns is 'amps'; it must be a list"
    ):
        identify.ControlColumns("amps", "held")
    with pytest.raises(ValueError, match=r"`between` of ControlColumns is 'spline'"):
        identify.ControlColumns(["amps"], "spline")  # pyright: ignore[reportArgumentType]
    with pytest.raises(
        ValueError,
        match=r"`factor` of ControlColumns is \[1.0, 2.0\]; .* one for each of the 1 column",
    ):
        identify.ControlColumns(["amps"], "held", factor=[1.0, 2.0])
    with pytest.raises(
        ValueError, match=r"`delay` of ControlColumns is -0.1; it must be a time of 0 s or more"
    ):
        identify.ControlColumns(["amps"], "held", delay=-0.1)
    with pytest.raises(
        TypeError, match=r"`control` is a ControlColumns, .* identify\.read_csv reads them"
    ):
        identify.Run([0.0, 1.0], {"place": [0.0, 1.0]}, identify.ControlColumns(["amps"], "held"))
    short = jaxhamel.Recorded([0.0, 0.5], [1.0, 2.0], "held")
    run = identify.Run([0.0, 1.0, 2.0], {"place": [0.0, 1.0, 2.0]}, short, name="third")
    with pytest.raises(
        ValueError, match=r"record from 0 s to 1 s, and the run `third` goes from 0 s to 2 s"
    ):
        fitted([run])
