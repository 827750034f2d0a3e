"""The code of pages in docs/ runs from start to end and prints the output shown."""

import pytest

from tests.documentation.test_documentation import ROOT, python_blocks, same_output

PAGES = (
    "feedback.md",
    "optimal_control.md",
    "optimal_control_problems.md",
    "robots.md",
    "stability.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_page_runs(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    blocks = python_blocks((ROOT / "docs" / page).read_text())
    assert any(expected is not None for _, expected in blocks)
    scope: dict = {"__name__": page}
    for code, expected in blocks:
        exec(compile(code, page, "exec"), scope)
        printed = capsys.readouterr().out
        if expected is not None:
            same_output(printed, expected)
