"""The command itself: help texts, the list of scenarios, missing extras, documented keys."""

import runpy
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import jaxhamel.cli
from jaxhamel.cli._app import app
from jaxhamel.cli._scenario import _system_description
from jaxhamel.cli._scenario._document import scenario_keys
from jaxhamel.cli._scenario._scenario import built_in

DOCUMENT = Path(__file__).parents[2] / "docs" / "scenarios.md"


def said(*arguments):
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "120", "NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    return result.output


def test_help_teaches():
    text = said("--help")
    assert "jaxhamel control figure-eight --out out" in text
    assert "Exit status" in text
    assert "report.html" in text


def test_python_m_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["jaxhamel", "scenarios"])
    before = signal.getsignal(
        signal.SIGINT
    )  # the command replaces the handler, since the process is its own
    with pytest.raises(SystemExit) as end:
        runpy.run_module("jaxhamel", run_name="__main__")
    signal.signal(signal.SIGINT, before)
    assert not end.value.code
    assert "figure-eight" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["simulate", "control", "montecarlo"])
def test_help_of_a_command_names_files_examples_and_options(command):
    text = said(command, "--help")
    for part in ("summary.json", "trajectory.csv", "report.html", "Examples", "--set", "--quiet"):
        assert part in text


def test_scenarios_are_listed_with_a_line_each():
    text = said("scenarios")
    for name, about in built_in().items():
        assert name in text
        assert about.description[:30] in text
    assert {"figure-eight", "reference-ball"} <= set(built_in())
    assert built_in()["figure-eight"].commands == ("simulate", "control", "montecarlo")


@pytest.mark.parametrize("missing", ["jaxhamel.cli._app", "jaxhamel.cli._commands._simulate"])
def test_command_without_its_extra_says_what_to_install(missing, monkeypatch):
    """The message comes whether the command or only one of its parts, such as figures, needs the extra."""
    monkeypatch.setattr("sys.argv", ["jaxhamel", "simulate", "heavy-top"])
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr(jaxhamel.cli, "EXTRAS", (*jaxhamel.cli.EXTRAS, missing))
    with pytest.raises(SystemExit, match=r"get it with: pip install 'jaxhamel\[cli\]'"):
        jaxhamel.cli.main()


def test_importing_the_command_changes_no_configuration_and_takes_no_pictures_along():
    """Help, lists and messages about misspelt scenarios do not import matplotlib."""
    code = (
        "import sys, jax, jaxhamel.cli; before = jax.config.jax_enable_x64; import jaxhamel.cli._app; "
        "raise SystemExit(before or jax.config.jax_enable_x64 or 'matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_key_is_documented():
    """docs/scenarios.md contains the tables generated from the schema."""
    assert scenario_keys() in DOCUMENT.read_text(encoding="utf-8")


WITHOUT_JAX = {
    "simulate heavy-top --set time.ende=1": 2,
    "simulate heavy-top --set time.end=x": 2,
    "simulate heavy-top --set solver.max_steps=1000000000000000": 2,
    "control figure-eight --set task.steps=1000000000": 2,
    "montecarlo figure-eight --trajectories 1000000000000": 2,
    "montecarlo figure-eight --set montecarlo.samples=1": 2,
    "identify ball-inertia --set fit.dt=1e-12": 2,
    "predict no a.csv": 2,
    "scenarios": 0,
    "simulate heavy-top --set time.end=-1": 2,
    "simulate heavy-top --out /dev/null": 2,
    "simulate heavy-top --system no.py:Top": 2,
    "control heavy-top": 2,
    "control figure-eight --resume": 2,
    "control disk-to-point --resume --out no-folder": 2,
    "montecarlo heavy-top": 2,
    "montecarlo figure-eight --accuracy x": 2,
    "montecarlo figure-eight --index 1000": 2,
    "identify roboball": 2,
    "identify ball-inertia --data no-folder": 2,
    "simulate heavy-top --set system.mas=1": 2,
    "simulate heavy-top --set system.mass=x": 2,
    "simulate heavy-top --set system.mass=-1": 2,
    "simulate heavy-top --set system.kind=top": 2,
    "simulate reference-ball --set system.rails.0.radius=-1": 2,
    "montecarlo figure-eight --set initial.omeg=1": 2,
    "control figure-eight --set initial.omega=[1]": 2,
    "control disk-to-point --set system.mass=-1": 2,
    "control disk-to-point --set initial.q=x": 2,
    "identify ball-inertia --set truth.radius=x": 2,
}


def test_what_is_wrong_with_a_scenario_is_said_without_jax():
    """Wrong keys, values and sizes are found without importing JAX; those of systems come from a generated file."""
    code = f"""
import sys
from jaxhamel.cli import guard, main
guard.end = lambda status, words="": sys.exit(status)
for arguments in {list(WITHOUT_JAX)}:
    sys.argv = ["jaxhamel", *arguments.split()]
    try:
        main()
    except SystemExit as end:
        print("ended", int(end.code or 0), "jax" in sys.modules, arguments)
"""
    program = [sys.executable, "-c", code]
    run = subprocess.run(program, capture_output=True, text=True, check=False, timeout=120)
    ended = [line for line in run.stdout.splitlines() if line.startswith("ended")]
    assert ended == [f"ended {status} False {call}" for call, status in WITHOUT_JAX.items()], (
        run.stderr
    )


def test_keys_of_named_systems_are_those_of_their_classes():
    """The file by which wrong keys are refused without JAX is up to date; `python -m
    jaxhamel.cli._scenario._system_description` writes it."""
    assert _system_description.FILE.read_text("utf-8") == _system_description.generated()


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors")
def test_closed_standard_streams_change_nothing(interruptible):
    """With the shell's `<&- >&- 2>&-`, descriptors 0 to 2 are opened on the null device, so that no message goes into
    another file."""
    code = (
        "import os, sys; from jaxhamel.cli import guard, main; "
        "null = lambda i: os.fstat(i).st_rdev == os.stat(os.devnull).st_rdev; "
        "guard.end = lambda status, *words: os._exit(status + 40 * all(map(null, range(3)))); "
        "sys.argv = ['jaxhamel', 'simulate', 'heavy-top', '--set', 'time.ende=1']; main()"
    )
    program = f"{sys.executable} -c {shlex.quote(code)} <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", program], check=False).returncode == 42
