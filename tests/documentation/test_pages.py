"""The code of pages in docs/ runs from top to bottom and prints what they say it prints."""

import pytest

from tests.documentation.test_documentation import ROOT, python_blocks, same_output


@pytest.mark.parametrize("page", ["feedback.md", "optimal_control.md", "stability.md"])
def test_page_runs(page, capsys):
    blocks = python_blocks((ROOT / "docs" / page).read_text())
    assert any(expected is not None for _, expected in blocks)
    scope: dict = {"__name__": page}
    for code, expected in blocks:
        exec(compile(code, page, "exec"), scope)
        printed = capsys.readouterr().out
        if expected is not None:
            same_output(printed, expected)
