"""Ctrl-C or `kill` during a search: the result so far is written, and the exit status is 1. Without a point of the
search it is 130 or 143, as shells expect."""

import ast
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import jaxhamel
from jaxhamel.cli import _exit_status, _interrupt, _terminal
from jaxhamel.cli._app import app
from jaxhamel.cli._commands import _control, _simulate
from jaxhamel.cli._commands._identify import FittedSoFar
from jaxhamel.cli._interrupt import Guard, guard
from jaxhamel.cli._results import _solution
from jaxhamel.cli._results._search_file import SearchFile
from jaxhamel.cli._scenario._scenario import load, load_identification
from jaxhamel.control import Spline
from tests.cli.test_identify import TOP


def test_what_a_fit_had_found_is_written(tmp_path, monkeypatch):
    told = []

    def interrupted(self, line):
        told.append(line)
        path = (
            tmp_path / "out" / "fitted.toml"
        )  # written at the first report, with the starting values
        first = load_identification(str(path))["fitted"][0]
        assert first == {"path": "mass", "value": pytest.approx(1.3)}
        if len(told) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(_terminal.Terminal, "update", interrupted)
    (tmp_path / "top.toml").write_text(TOP, encoding="utf-8")
    arguments = ["identify", str(tmp_path / "top.toml"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "interrupted after 3 iterations: best so far" in result.stderr
    said = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert said["status"] == "interrupted"
    assert (tmp_path / "out" / "report.html").exists()


def test_so_is_a_control():
    result: Any = SimpleNamespace(converged=False, status="interrupted after 3 iterations: best")
    assert _control._status(result, 1e-10, stopped=True)[0] == "interrupted"


@pytest.mark.parametrize("signals", [0, 1])
def test_only_without_a_signal_a_result_waits_for_the_second_thread(signals, monkeypatch):
    """Two seconds after a signal the command ends, while a compiler may take longer."""
    monkeypatch.setattr(_simulate, "cores", lambda: 2)
    monkeypatch.setattr(_simulate.guard, "_count", signals)
    begun, done = Event(), Event()

    def job():
        begun.wait(10.0)
        time.sleep(0.1)
        done.set()

    with _simulate.meanwhile(job):
        begun.set()
    assert done.is_set() == (not signals)
    assert done.wait(10.0)


def test_nothing_was_written_where_there_is_no_folder_or_no_file(tmp_path):
    for empty in (tmp_path / "out", tmp_path):
        assert _exit_status._what_was_written(empty) == "Nothing was written."
    (tmp_path / "solution.toml").touch()
    assert str(tmp_path) in _exit_status._what_was_written(tmp_path)


RESUMED = [
    (("control", "disk-to-point"), ("search.npz",), True),
    (("control", "disk-to-point"), ("search.npz", "training.npz"), True),
    (("control", "disk-to-point"), ("training.npz",), False),  # --resume needs the search, too
    (("montecarlo", "figure-eight"), ("values.zarr",), True),
    (("montecarlo", "figure-eight"), ("search.npz",), False),
    (("simulate", "heavy-top"), ("search.npz",), False),
    (("identify", "ball-inertia"), ("search.npz",), False),
    (
        ("identify", "ball-inertia"),
        ("fitted.toml",),
        "jaxhamel identify {}/fitted.toml and the same",
    ),
]


@pytest.mark.parametrize(("arguments", "files", "resumes"), RESUMED)
def test_only_a_command_that_can_continue_names_resume(
    arguments, files, resumes, tmp_path, monkeypatch
):
    """The hint depends on the command, and on the file from which this command continues."""

    def start():
        raise KeyboardInterrupt

    for module in ("_app", "_app_identify"):
        monkeypatch.setattr(f"jaxhamel.cli.{module}.start_jax", start)
    for name in files:
        (tmp_path / name).touch()
    ended = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)])
    assert ended.exit_code == 130
    words = resumes.format(tmp_path) if isinstance(resumes, str) else "go on with --resume"
    assert (words in ended.stderr) == bool(resumes)
    assert ("The results so far are in" if files else "Nothing was written.") in ended.stderr


def test_a_control_is_on_disk_while_its_search_goes_on(tmp_path, monkeypatch):
    """The control of the first report is written with its summary, and then one every two seconds."""
    now, kept = [10.0], []
    curve, scenario = Spline(np.zeros((6, 3)), 0.0, 1.0), load("figure-eight")
    file, search = SearchFile(tmp_path, scenario), SimpleNamespace(to_arrays=lambda: {"x": now[0]})
    so_far = _control._so_far(scenario, search, file, curve, 7.0, 0.0)  # pyright: ignore
    monkeypatch.setattr(_solution, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(guard, "on_disk", kept.append)
    monkeypatch.setattr(guard, "keep", lambda: kept.append("keep"))
    for now[0], size, shown in ((10.0, 1.0, 1.0), (11.9, 2.0, 1.0), (12.0, 3.0, 3.0)):
        state = SimpleNamespace(p=np.full(18, size), cost=size, tracking_rms=0.1, iteration=3)
        so_far.reached(state)
        found = load(str(tmp_path / "solution.toml"))["control"]["coefficients"]
        assert np.all(np.array(found) == shown)
        assert file.read()["x"] == (10.0 if shown == 1.0 else now[0])
        said = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
        assert (said["status"], said["reached"]["cost"]) == ("failed", shown)
        assert said["message"].startswith("the command was ended before the search had ended")
    assert kept == ["keep", words := kept[1], "keep", "keep", words]
    assert (
        "the 7 s were over before the search had ended and its result was examined; its control"
        in words
    )


def test_values_of_all_stages_are_those_so_far():
    """Each value comes from the stage that reached it last; a problem that is built only for checks has no values."""

    def stage(path):
        put = lambda z: SimpleNamespace(**{path: z[0]})
        return SimpleNamespace(
            parameters=(SimpleNamespace(path=path),), model=SimpleNamespace(system_at=put)
        )

    stages: Any = {"first": lambda system: stage("mass"), "second": lambda system: stage("gravity")}
    fitted = FittedSoFar(load_identification("ball-inertia"), stages)
    first, second = fitted.problems.values()
    for make, value, found in (
        (first, 1.0, {"mass": 1.0}),
        (first, 2.0, {"mass": 2.0}),
        (second, 9.0, {"mass": 2.0, "gravity": 9.0}),
    ):
        second(None)
        make(None)
        tables = fitted.at(np.array([value]))
        assert {entry["path"]: entry["value"] for entry in tables["fitted"]} == found


@pytest.mark.parametrize(
    ("on_disk", "taken", "ends", "waited"),
    [(True, 0, 1, 0.0), (True, 1, 1, 0.3), (False, 0, 0, 0.0), (False, 1, 0, 0.3)],
)
def test_ctrl_c_ends_a_search_whose_point_is_on_disk(on_disk, taken, ends, waited, monkeypatch):
    """The process ends at once if the main thread takes no signal, as while it compiles. A point that is not on disk is
    waited for."""
    ended, (reading, writing) = [], os.pipe()
    monkeypatch.setattr(_interrupt, "GRACE", 0.0)
    monkeypatch.setattr(_interrupt, "WRITING", 0.3)
    monkeypatch.setattr(Guard, "end", lambda self, *given: ended.append(given))
    compiling = Guard()
    compiling.keep()
    if on_disk:
        compiling.on_disk("go on from there")
    compiling._count = taken
    os.write(writing, bytes([signal.SIGINT]))
    os.close(writing)
    began = time.monotonic()
    compiling._watch(reading)
    os.close(reading)
    assert ended == ends * [(1, "interrupted; nothing was written.")]
    assert waited <= time.monotonic() - began


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("command", ["control", "montecarlo"])
def test_ctrl_c_ends_a_process_that_compiles(command, tmp_path):
    """Ctrl-C ends the process without a traceback while any thread compiles, even if a shell started it in the
    background with SIGINT ignored."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        f"sys.argv = ['jaxhamel', {command!r}, 'figure-eight', '--out', {str(tmp_path)!r}]; "
        "from jaxhamel.cli import main; main()"
    )
    arguments = [sys.executable, "-c", code]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "compiling" not in (line := process.stderr.readline()):
            assert line
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=15)[1]  # takes 2 s on an idle machine
    assert process.returncode == 130
    assert said.count("\n") == 1
    written = (
        f"The results so far are in {tmp_path}"
        if any(tmp_path.iterdir())
        else "Nothing was written."
    )
    assert f"jaxhamel: figure-eight: interrupted. {written}" in said


def test_only_what_was_found_is_waited_for(monkeypatch):
    """The first Ctrl-C waits for a result that was found, the second one does not; a time limit ends a search without a
    result."""
    ended = []
    guard = Guard()
    monkeypatch.setattr(Guard, "end", lambda self, status, words="": ended.append((status, words)))
    guard._handle(signal.SIGINT, None)
    guard.keep()
    guard._late("late")
    assert ended == [(130, "interrupted; nothing was written.")]
    guard = Guard()
    guard.keep()
    with pytest.raises(KeyboardInterrupt):
        guard._handle(signal.SIGINT, None)
    guard._handle(signal.SIGINT, None)
    guard.kept("the control is on disk")
    guard._late("late")
    assert [status for status, _ in ended] == [130, 130, 1]
    assert ended[2] == (1, "the control is on disk")
    guard = Guard()
    guard.keep()
    guard._late("late")  # the search is writing its result
    assert len(ended) == 3
    guard.on_disk("go on with --resume")
    guard._late("late")
    assert ended[3:] == [(1, "go on with --resume")]


def test_kill_lets_a_search_write_its_result():
    """SIGTERM acts as Ctrl-C, with its own exit status; a signal that the process ignores stays ignored."""
    searching = Guard()
    searching.keep()
    with pytest.raises(KeyboardInterrupt):
        searching._handle(signal.SIGTERM, None)
    assert searching.status == 143
    searching.on_disk("go on with --resume")
    assert searching.status == 1
    searching.command(lambda: "")
    assert searching.status == 143  # of the next command nothing is on disk
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        for handler in (signal.SIG_IGN, before):
            signal.signal(signal.SIGTERM, handler)
            started = Guard()
            started.begin()
            ignores = signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
            assert ignores == (handler is signal.SIG_IGN)
            started.finish()
            assert signal.getsignal(signal.SIGTERM) == handler
    finally:
        signal.signal(signal.SIGTERM, before)


SEARCHES = {
    "control": ("control", "figure-eight"),
    "plan": ("control", "disk-to-point"),
    "identify": ("identify", "ball-inertia"),
    "roboball": ("identify", "roboball", "--data", "."),
}
SECONDS = {"control": 180.0, "plan": 600.0, "identify": 600.0, "roboball": 600.0}


@pytest.mark.parametrize("command", SEARCHES)
def test_the_time_limit_holds_before_anything_is_read_or_computed(command, tmp_path, monkeypatch):
    """The time limit counts from the start of the command and holds before anything is imported."""
    told = []

    def limit(self, seconds, words, started):
        told.append((seconds, round(time.monotonic() - started), words))

    def start():
        raise KeyboardInterrupt

    monkeypatch.setattr(Guard, "limit", limit)
    for module in ("_app", "_app_identify"):
        monkeypatch.setattr(f"jaxhamel.cli.{module}.start_jax", start)
    arguments = [*SEARCHES[command], "--out", str(tmp_path / "no")]
    started = time.monotonic() - 3.0
    for option, seconds in (((), SECONDS[command]), (("--max-seconds", "7"), 7.0)):
        assert CliRunner().invoke(app, [*arguments, *option], obj=started).exit_code == 130
        name = arguments[1]
        words = (
            f"{name}: the {seconds:g} s were over before the first iteration; nothing was found."
        )
        assert told[-1][:2] == (seconds, 3)
        assert told[-1][2].startswith(words)
    assert (
        len(told) == 3
    )  # once from the scenario; once from the option, before a class is imported, and again


def test_the_guard_is_gone_after_the_command():
    before = signal.getsignal(signal.SIGINT)
    guard = Guard()
    guard.begin()
    assert guard.active()
    guard.finish()
    assert not guard.active()
    assert signal.getsignal(signal.SIGINT) == before


def test_the_time_limit_holds_in_a_shells_background():
    """The limit holds if SIGINT is ignored, as in a shell's background, where a compiling search once ran on for
    minutes."""
    code = (
        "import hashlib, signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "from jaxhamel.cli._interrupt import guard; guard.begin(); guard.limit(1.0, 'too late'); "
        "hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)"
    )
    run = [sys.executable, "-c", code]
    found = subprocess.run(run, capture_output=True, text=True, timeout=30, check=False)
    assert (found.returncode, found.stderr) == (1, "jaxhamel: too late\n")


HASH = "hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(
    ("busy", "sent", "line"),
    [
        (HASH, "SIGINT", "jaxhamel: interrupted; nothing was written.\n"),
        (HASH, "SIGTERM", "jaxhamel: interrupted; nothing was written.\n"),
        (HASH, "SIGHUP", "jaxhamel: interrupted; nothing was written.\n"),
        ("print('x' * 10**7, file=sys.stderr)", "SIGINT", ""),
    ],
)
def test_a_signal_ends_a_process_whose_main_thread_is_not_python(busy, sent, line):
    """The main thread is in a long hash, as in a compiler, where Python's own handler would wait; or in a write to a
    pipe that nobody reads. The exit status names the signal, even if the tests run under `nohup`, with SIGHUP ignored."""
    number = getattr(signal, sent)
    handler = "default_int_handler" if sent == "SIGINT" else "SIG_DFL"
    code = (
        f"import hashlib, signal, sys; signal.signal(signal.{sent}, signal.{handler}); "
        "from jaxhamel.cli._interrupt import guard; guard.begin(); "
        f"print('begun', file=sys.stderr, flush=True); {busy}"
    )
    program = [sys.executable, "-c", code]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as begun:
        assert begun.stderr is not None
        assert begun.stderr.readline() == "begun\n"
        time.sleep(0.2)
        begun.send_signal(number)
        try:
            begun.wait(timeout=15)
            said = begun.stderr.read()
        finally:
            begun.kill()
    assert (begun.returncode, said.lstrip("x")) == (128 + number, line)


def test_ctrl_c_is_taken_over_before_anything_slow_is_imported():
    """Only a few modules are imported before the package handles SIGINT; until then Ctrl-C gives Python's traceback."""
    source = str(Path(jaxhamel.__file__).parents[1])
    code = (
        f"import sys; sys.path.insert(0, {source!r}); before = set(sys.modules); import jaxhamel.cli; "
        "print(*(set(sys.modules) - before))"
    )
    arguments = [sys.executable, "-I", "-S", "-c", code]
    run = subprocess.run(arguments, capture_output=True, text=True, check=True)
    modules = set(run.stdout.split())
    assert {"jaxhamel", "jaxhamel.cli", "jaxhamel.cli._interrupt"} <= modules
    assert not modules & {"typing", "re", "threading", "importlib", "warnings", "contextlib"}
    assert len([name for name in modules if name.startswith("jaxhamel")]) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_ctrl_c_at_any_import_ends_the_command_without_a_traceback():
    """Before each import a fork of the process sends itself SIGINT, with Python's handler as before the command's first
    line."""
    code = """
import _signal, os, sys
_signal.signal(_signal.SIGINT, _signal.default_int_handler)
ends = {}
class Interrupted:
    def find_spec(name, path=None, target=None):
        copy = os.fork()
        if not copy:
            _signal.set_wakeup_fd(-1)  # the pipe that the original reads, too
            _signal.raise_signal(_signal.SIGINT)
            os._exit(70)
        ends.setdefault(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]), []).append(name)
from jaxhamel.__main__ import main
sys.meta_path.insert(0, Interrupted)
sys.argv = ["jaxhamel", "--help"]
try:
    main()
except SystemExit:
    print({status: len(names) for status, names in ends.items()}, "threading" in ends[130], file=sys.stderr)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *said, counts = run.stderr.splitlines()
    assert set(said) == {"jaxhamel: interrupted; nothing was written."}, run.stderr[:2000]
    assert counts.endswith("True")
    assert set(ast.literal_eval(counts.removesuffix("True"))) == {130, -signal.SIGINT}
    assert len(said) > 100


def test_ctrl_c_while_python_ends_gives_no_traceback():
    """Ctrl-C after the command, as while JAX releases its devices, prints nothing."""
    code = (
        "import atexit, signal, sys, time; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from jaxhamel.cli._interrupt import guard; "
        "atexit.register(lambda: (print('ending', file=sys.stderr, flush=True), time.sleep(60))); "
        "guard.begin(); guard.finish()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as ended:
        assert ended.stderr is not None
        assert ended.stderr.readline() == "ending\n"
        ended.send_signal(signal.SIGINT)
        try:
            said = ended.communicate(timeout=15)[1]
        finally:
            ended.kill()
    assert (ended.returncode, said) == (-signal.SIGINT, "")
