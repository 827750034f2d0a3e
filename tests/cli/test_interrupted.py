"""Ctrl-C in the middle of a search: what was found by then is written, and the exit status is the shell's 130."""

import ast
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import jaxhamel
from jaxhamel.cli import _terminal
from jaxhamel.cli._app import app
from jaxhamel.cli._commands import _control, _identify
from jaxhamel.cli._interrupt import Guard
from jaxhamel.cli._scenario._scenario import load, load_identification
from tests.cli.test_identify import TOP


def test_what_a_fit_had_found_is_written(tmp_path, monkeypatch):
    told = []

    def interrupted(self, line):
        told.append(line)
        if len(told) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(_terminal.Terminal, "update", interrupted)
    (tmp_path / "top.toml").write_text(TOP, encoding="utf-8")
    arguments = ["identify", str(tmp_path / "top.toml"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 130
    assert "interrupted after 3 iterations: best so far" in result.stderr
    said = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert said["status"] == "interrupted"
    assert (tmp_path / "out" / "report.html").exists()


def test_so_is_a_control():
    result: Any = SimpleNamespace(converged=False, status="interrupted after 3 iterations: best")
    assert _control._status(result, 1e-10, stopped=True)[0] == "interrupted"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("command", ["control", "montecarlo"])
def test_ctrl_c_ends_a_process_that_compiles(command, tmp_path):
    """Whatever has the main thread or another one, without a traceback; a shell's background may ignore SIGINT."""
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
        said = process.communicate(timeout=15)[1]  # 2 on a machine with nothing else to do
    assert process.returncode == 130
    assert said.count("\n") == 1
    assert f"jaxhamel: figure-eight: interrupted. What was written is in {tmp_path}" in said


def test_only_what_was_found_is_waited_for(monkeypatch):
    """And only once; a time limit ends what has found nothing."""
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
    guard._late("late")  # the search writes its result
    assert len(ended) == 3
    guard.on_disk("go on with --resume")
    guard._late("late")
    assert ended[3:] == [(1, "go on with --resume")]


@pytest.mark.parametrize("command", ["control", "identify", "roboball"])
def test_the_time_limit_holds_before_anything_is_read_or_computed(command, tmp_path, monkeypatch):
    """It counts from the start of the command."""

    class Limited(Exception):
        pass

    def limit(self, seconds, words):
        raise Limited(round(seconds), words)

    monkeypatch.setattr(Guard, "limit", limit)
    terminal, started, nothing = _terminal.Terminal(True), time.monotonic() - 3.0, tmp_path / "no"
    calls = {
        "control": lambda: _control.run_control(
            load("figure-eight"), nothing, terminal, started, 0, 7.0
        ),
        "identify": lambda: _identify.run_identify(
            load_identification("ball-inertia"), nothing, terminal, started, nothing, 0, 7.0
        ),
        "roboball": lambda: _identify.run_identify(
            load_identification("roboball"), nothing, terminal, started, nothing, 0, 7.0
        ),
    }
    with pytest.raises(Limited, match=r"4, .*the 7 s were over before the first iteration"):
        calls[command]()


def test_the_guard_is_gone_after_the_command():
    before = signal.getsignal(signal.SIGINT)
    guard = Guard()
    guard.begin()
    assert guard.active()
    guard.finish()
    assert not guard.active()
    assert signal.getsignal(signal.SIGINT) == before


def test_the_time_limit_holds_in_a_shells_background():
    """Where SIGINT is ignored: a search that compiled for minutes went on."""
    code = (
        "import hashlib, signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "from jaxhamel.cli._interrupt import guard; guard.begin(); guard.limit(1.0, 'too late'); "
        "hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)"
    )
    run = [sys.executable, "-c", code]
    found = subprocess.run(run, capture_output=True, text=True, timeout=30, check=False)
    assert (found.returncode, found.stderr) == (1, "jaxhamel: too late\n")


@pytest.mark.parametrize(
    ("busy", "line"),
    [
        (
            "hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)",
            "jaxhamel: interrupted; nothing was written.\n",
        ),
        ("print('x' * 10**7, file=sys.stderr)", ""),
    ],
)
def test_ctrl_c_ends_a_process_whose_main_thread_is_not_python(busy, line):
    """In a hash that takes an hour, as in a compiler: Python's own handler waits. Or in a write that nobody reads."""
    code = (
        "import hashlib, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from jaxhamel.cli._interrupt import guard; guard.begin(); "
        f"print('begun', file=sys.stderr, flush=True); {busy}"
    )
    program = [sys.executable, "-c", code]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as begun:
        assert begun.stderr is not None
        assert begun.stderr.readline() == "begun\n"
        time.sleep(0.2)
        begun.send_signal(signal.SIGINT)
        try:
            begun.wait(timeout=15)
            said = begun.stderr.read()
        finally:
            begun.kill()
    assert (begun.returncode, said.lstrip("x")) == (130, line)


def test_ctrl_c_is_taken_over_before_anything_slow_is_imported():
    """Until then it is Python's own, with a traceback."""
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
    """Before each import a copy of the process interrupts itself, as Python has it before the command's first line."""
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
    """After the command, as while JAX gives its devices back."""
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
