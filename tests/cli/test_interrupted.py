"""Ctrl-C in the middle of a search: what was found by then is written, and the exit status is the shell's 130."""

import json
from types import SimpleNamespace
from typing import Any

from typer.testing import CliRunner

from jaxhamel.cli import _terminal
from jaxhamel.cli._app import app
from jaxhamel.cli._commands import _control
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
