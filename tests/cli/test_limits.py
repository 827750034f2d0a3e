"""Input that cannot be read or computed is refused in one line: files, options, numbers, sizes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import jaxhamel
from jaxhamel.cli import _start
from jaxhamel.cli._app import app
from jaxhamel.cli._objects._identification import build_identified_system
from jaxhamel.cli._objects._prepared import run_of
from jaxhamel.cli._objects._spread import Nominal, distributions
from jaxhamel.cli._objects._system import build_system, check_constructed
from jaxhamel.cli._results import _folder
from jaxhamel.cli._scenario import _reading, _sizes
from jaxhamel.cli._scenario._reading import check_data_file
from jaxhamel.cli._scenario._scenario import load, load_identification
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.cli._start import CONFIGURATION, import_jax, start_jax
from tests.cli.test_identify import TOP as IDENTIFIED
from tests.cli.test_scenario import TOP


def refused(source, *changes):
    with pytest.raises(ScenarioError) as caught:
        load(str(source), changes)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    return message


@pytest.fixture
def top(tmp_path):
    (tmp_path / "top.toml").write_text(TOP, encoding="utf-8")
    return tmp_path / "top.toml"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a = " + 3000 * "[" + 3000 * "]", "not valid TOML: it is nested too deeply"),
        ("a = 1" + 5000 * "0", "not valid TOML: Exceeds the limit"),
        ("a" + 5000 * ".a" + " = 1", "`a` is not a key of a scenario (it is a table)"),
        (f"{'a' * 5000} = 1", f"`{'a' * 117}...` is not a key of a scenario"),
        ("a = 1979-99-99", "not valid TOML:"),
        ("a = '\x00'", "not valid TOML:"),
    ],
)
def test_parsers_end_in_one_line(content, message, tmp_path):
    (tmp_path / "a.toml").write_text(f"{content}\n{TOP}", encoding="utf-8")
    assert message in refused(tmp_path / "a.toml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("time.end=3\ntime.start=2", "it has more than one line with a key"),
        ("time\n.end=3", "it must be key=value with a dotted key"),
        ("title=\udce4", "it is not UTF-8 text"),
        ("time.end=" + 3000 * "[" + 3000 * "]", "it is nested too deeply"),
        ("time.end=" + 9000 * "x", f'`time.end` is "{"x" * 56}...; it must be a number'),
        ("time.end=0x1" + 5000 * "0", "`time.end` is a value too long to be written; it must be"),
        ("time.end=1" + 400 * "0", "it must be a number, at most 1.8e308 (s): last time"),
        ("time.samples=1" + 400 * "0", "at most 9,007,199,254,740,992"),
        ("system.com." + 5000 * "9" + "=1", "must be the number of an entry, 0 to 2"),
        ("system.com.٣=1", "must be the number of an entry, 0 to 2"),
        ("system.mass.T=3", "`mass` is a value, not a table; it has no keys"),
    ],
)
def test_options_end_in_one_line(change, message, top):
    assert message in refused(top, change)


def test_a_value_may_have_several_lines(top):
    assert load(str(top), ["system.com=[0,\n 1,\n 2]"])["system"]["com"] == [0, 1, 2]


def test_files_that_are_none(top, tmp_path):
    """A pipe or a device is refused, since reading it would never end; so is a name too long for the file system."""
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    for name in ("pipe.toml", "zero.toml"):
        assert "it is not a regular file" in refused(tmp_path / name)
    assert "File name too long" in refused(f"{tmp_path}/{300 * 'a'}.toml")
    assert "there is no such scenario" in refused(300 * "a")
    (tmp_path / "latin.toml").write_bytes("title = 'ä'".encode("latin-1"))
    assert "it is not UTF-8 text" in refused(tmp_path / "latin.toml")
    top.write_bytes(
        b"\xef\xbb\xbf" + top.read_bytes()
    )  # some editors begin files with a byte order mark
    assert load(str(top))["time"]["end"] == 1.0
    with open(tmp_path / "large.toml", "wb") as file:
        file.truncate(2**30)
    assert "the file has 1,073,741,824 bytes; a scenario may have" in refused(
        tmp_path / "large.toml"
    )


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("mass", "-1.0", "`fitted.mass` is -1"),
        ("mass", "[1.0]", r"`fitted`: `mass` has shape \(\), not \(1,\)"),
        ("inertia", "[1.0, 1.0, 3.0]", "`fitted.inertia`"),
        ("space", "1.0", "`fitted.path` is 'space', which is no parameter of this system"),
        ("__class__.__init__", "1.0", "which is no parameter of this system"),
        ("mas", "1.0", "Did you mean `mass`?"),
        ("mass.T", "1.0", "which is no parameter of this system"),
    ],
)
def test_what_was_fitted_goes_through_the_constructor(path, value, message, tmp_path):
    (tmp_path / "top.toml").write_text(
        f"{IDENTIFIED}\n[[fitted]]\npath = '{path}'\nvalue = {value}\n", encoding="utf-8"
    )
    with pytest.raises(ScenarioError, match=message):
        build_identified_system(load_identification(str(tmp_path / "top.toml")))


def test_every_system_is_constructed_again():
    """Systems of all kinds pass their constructor's checks again; a changed radius of the ball's rails does not."""
    for name in ("figure-eight", "disk", "heavy-top", "suslov", "free-rigid-body"):
        check_constructed(build_system(load(name)))
    ball = build_system(load("reference-ball"))
    object.__setattr__(ball.rails, "radius", -ball.rails.radius)
    with pytest.raises(ValueError, match="`radius` is"):
        check_constructed(ball)


@pytest.mark.parametrize("key", ["mass", "length"])
def test_declared_bounds_hold_where_the_constructor_has_no_checks(key):
    class Trolley(jaxhamel.System):
        mass: jax.Array = jaxhamel.parameter(positive=True)
        length: jax.Array = jaxhamel.parameter(least=0.5)

    trolley = Trolley(2.0, 0.5)
    check_constructed(trolley)
    with pytest.raises(ValueError, match=f"`{key}` is .*; it must be"):
        check_constructed(eqx.tree_at(lambda x: getattr(x, key), trolley, jnp.asarray(-1e300)))


@pytest.mark.parametrize("key", ["system.shell_mass.T", "system.space", "system.rails", "x" * 999])
def test_only_numbers_spread(key):
    system = build_system(load("figure-eight"))
    nominal = Nominal(system, None, np.zeros(3), None)
    with pytest.raises(ScenarioError, match="which is no number of this scenario") as caught:
        distributions([{"key": key, "distribution": "normal", "std": 1.0}], nominal)
    assert len(str(caught.value)) < 700


CONTROL, MANY, FITTED = (
    _sizes.check_control_size,
    _sizes.check_montecarlo_size,
    _sizes.check_identification_size,
)


@pytest.mark.parametrize(
    ("check", "change", "message"),
    [
        (_sizes.check_simulation_size, "time.samples=1000000000000", "takes 1e+15 bytes of memory"),
        (
            _sizes.check_simulation_size,
            "solver.max_steps=1000000000000000",
            "takes 1.16e+04 days at",
        ),
        (CONTROL, "task.coefficients=1000000000", "of memory at least, and this machine has"),
        (CONTROL, "task.steps=1000000000", "takes 16.7 hours at least, and the limit is 180 s"),
        (CONTROL, "task.degree=100000", "`task.coefficients` is 60 (degree 100000); that takes"),
        (MANY, "montecarlo.samples=1000000000000", "takes 2.46e+16 bytes of memory at least"),
        (MANY, "montecarlo.trajectories=1000000000000", "`trajectories` is 1e+12; that takes"),
        (MANY, "montecarlo.dt=1e-15", "`montecarlo.dt` is 1e-15; that takes"),
        (MANY, "montecarlo.dt=1e-320", "`montecarlo.dt` is 1e-320; that takes more than 1e300 s"),
    ],
)
def test_what_is_beyond_the_machine_is_refused_with_its_size(check, change, message, monkeypatch):
    monkeypatch.setattr(_sizes, "memory", lambda: 2.0**36)
    check(load("figure-eight").tables)
    with pytest.raises(ScenarioError) as caught:
        check(load("figure-eight", [change]).tables)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("fit.dt=1e-12", "`fit.dt` is 1e-12; that takes"),
        ("fit.starts=1000000000000", "`fit.starts` is 1e+12; that takes 1e+15 bytes"),
        ("synthetic.seconds=1e15", "`synthetic.rate` is 50; that takes"),
        ("synthetic.runs=100000000000", "of memory at least"),
        ("fit.segments=1000000000000", "`fit.segments`"),
    ],
)
def test_so_it_is_of_fits(change, message):
    FITTED(load_identification("ball-inertia").tables, True)
    with pytest.raises(ScenarioError) as caught:
        FITTED(load_identification("ball-inertia", [change]).tables, True)
    assert message in str(caught.value)


def test_steps_along_measured_runs_fit_into_the_time_for_them():
    _sizes.check_fit_step(0.0, 1e9, 1.0)
    _sizes.check_fit_step(1e-3, 10.0, 1.0)
    with pytest.raises(
        ScenarioError, match=r"`fit.dt` is 1e-06; that takes 10 s at least, and the"
    ):
        _sizes.check_fit_step(1e-6, 10.0, 1.0)


def test_a_motion_that_breaks_down_at_its_start_is_shown_as_far_as_it_came(top, tmp_path):
    """A motion of one row, whose norms overflow, still has every output file."""
    out = tmp_path / "a" / "out"
    found = CliRunner().invoke(
        app, ["simulate", str(top), "--set", "initial.omega=[1e200,0,0]", "--out", str(out)]
    )
    assert found.exit_code == 1
    assert "the simulation stopped at t = 0" in found.stderr
    assert json.loads((out / "summary.json").read_text("utf-8"))["status"] == "failed"
    assert len((out / "trajectory.csv").read_text("utf-8").splitlines()) == 2


def test_a_motion_without_any_row_is_refused():
    nothing: Any = SimpleNamespace(valid=np.zeros(3, bool))
    with pytest.raises(ScenarioError, match="the equations are not finite at the initial state"):
        run_of(nothing, None, None)


def test_a_folder_in_which_nothing_was_written_goes(tmp_path):
    _folder.folder(tmp_path / "a")
    _folder.folder(tmp_path / "b")
    (tmp_path / "b" / "file").touch()
    _folder.release()
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_files_of_measurements_are_files(tmp_path, monkeypatch):
    """A pipe or a device is refused as data and as the run to predict; so is a file too large for the memory."""
    os.mkfifo(tmp_path / "run.csv")
    for path in (tmp_path / "run.csv", Path("/dev/zero")):
        with pytest.raises(ScenarioError, match="it is not a regular file"):
            check_data_file(path)
    (tmp_path / "large.csv").write_text(100 * "1,2\n", encoding="utf-8")
    check_data_file(tmp_path / "large.csv")
    monkeypatch.setattr(_reading, "memory", lambda: 5999.0)
    with pytest.raises(
        ScenarioError, match="the file has 400 bytes; to read it takes 15 times as much memory"
    ):
        check_data_file(tmp_path / "large.csv")
    (tmp_path / "fitted.toml").write_text(
        f"{IDENTIFIED}[[fitted]]\npath = 'mass'\nvalue = 1.0\n", encoding="utf-8"
    )
    out = ["--out", str(tmp_path / "out")]
    arguments = ["predict", str(tmp_path / "fitted.toml"), str(tmp_path / "run.csv"), *out]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 2
    assert "it is not a regular file" in found.stderr


def test_flags_at_which_xla_ends_the_process_are_one_line(monkeypatch):
    for flags, message in {
        "--nothing": "Unknown flag in XLA_FLAGS: --nothing",
        "--xla_backend_optimization_level=x": "Couldn't interpret value x",
        "nothing": 'Could not open file "nothing"',
    }.items():
        monkeypatch.setenv("XLA_FLAGS", flags)
        with pytest.raises(ScenarioError, match="environment variable XLA_FLAGS") as caught:
            start_jax()
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(_start.resource is None, reason="Windows has no limits of this kind")
def test_too_little_address_space_is_one_line(monkeypatch):
    """A limit below 1 GiB is refused; with 600 MB a command never ended."""
    limit = _start.LEAST_ADDRESSES - 1
    monkeypatch.setattr(_start.resource, "getrlimit", lambda which: (limit, limit))
    with pytest.raises(ScenarioError, match=r"limited to 1023 MiB, and it needs 1024 MiB .*ulimit"):
        import_jax()
    monkeypatch.setattr(_start.resource, "getrlimit", lambda which: (limit + 1, limit + 1))
    import_jax()


@pytest.mark.parametrize("name", ["JAX_ENABLE_X64", "EQX_ON_ERROR"])
def test_values_of_the_environment_that_jax_does_not_take_are_one_line(name, tmp_path):
    """JAX reads environment variables when it is imported, here to learn the keys of a system."""
    (tmp_path / "top.toml").write_text(TOP, encoding="utf-8")
    program = [sys.executable, "-m", "jaxhamel", "simulate", str(tmp_path / "top.toml")]
    run = subprocess.run(
        program, env={**os.environ, name: "maybe"}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert "JAX cannot be started: " in run.stderr
    assert "environment variables JAX_PLATFORMS, JAX_… and EQX_…" in run.stderr
    assert run.stderr.count("\n") == 1


def test_settings_for_finding_errors_do_not_reach_a_command(monkeypatch):
    wanted = {name: getattr(jax.config, name) for name in CONFIGURATION}
    for name in CONFIGURATION:
        value = "disallow" if name == "jax_transfer_guard" else name != "jax_enable_x64"
        jax.config.update(name, value)
    try:
        start_jax()
        assert {name: getattr(jax.config, name) for name in CONFIGURATION} == CONFIGURATION
    finally:
        for name, value in wanted.items():
            jax.config.update(name, value)


def test_a_path_of_thousands_of_letters_is_cut(top):
    found = CliRunner().invoke(app, ["simulate", str(top), "--out", "a/" + 3000 * "b/" + "end"])
    assert found.exit_code == 2
    assert "b/b/end: the folder cannot be made (File name too long)" in found.stderr.replace(
        "\n", ""
    )
    assert len(found.stderr) < 900
