"""The code in README, docstring examples and notebooks runs and prints the output shown."""

import doctest
import gc
import os
import re
from pathlib import Path

import nbclient
import nbformat
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?")


def python_blocks(text: str):
    """Pairs (code, expected output): a ```python block and the ```text block right after it, if there is one."""
    pattern = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)
    return [(m.group(1), m.group(2)) for m in pattern.finditer(text)]


def same_output(printed: str, expected: str) -> None:
    """Whether words are equal, and numbers equal to the digits shown, step counts to 2 %, rounding errors as rounding
    errors."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", expected).split()
    for got, want in zip(NUMBER.findall(printed), NUMBER.findall(expected), strict=True):
        assert abs(float(got) - float(want)) <= tolerance(want), f"{got} is not {want}"


def tolerance(want: str) -> float:
    """Two units of the last digit shown; for a large count 2 %; below 1e-13 any rounding error."""
    if "." not in want:
        return 0.02 * float(want) if float(want) > 20 else 0.0
    digits, _, exponent = want.partition("e")
    return max(1e-13, 2.0 * 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2])))


def test_readme_code_runs_and_prints_what_it_shows(capsys):
    blocks = python_blocks((ROOT / "README.md").read_text())
    assert sum(expected is not None for _, expected in blocks) >= 1
    scope: dict = {"__name__": "readme"}
    for code, expected in blocks:
        exec(compile(code, "README.md", "exec"), scope)
        printed = capsys.readouterr().out
        if expected is not None:
            same_output(printed, expected)


def test_readme_names_the_two_commands_and_shows_pictures_that_exist():
    text = (ROOT / "README.md").read_text()
    assert "pip install '.[cli]' && jaxhamel control figure-eight --out out" in text
    assert "pip install '.[test]' && pytest" in text
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert pictures
    for picture in pictures:
        assert (ROOT / picture).stat().st_size > 0


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda p: p.stem)
def test_docstring_examples(path):
    """Examples written as `>>>` in docstrings."""
    failures, _ = (
        doctest.testfile(str(path), module_relative=False) if ">>>" in path.read_text() else (0, 0)
    )
    assert failures == 0


ANEW = """%reset -f
import os as _os
import jax as _jax
import matplotlib as _matplotlib
_os.chdir({folder!r})
_jax.config.update("jax_enable_x64", False)
_matplotlib.rcdefaults()
import sys as _sys
_sys.modules["tests.by_numpy"].allow({by_numpy})
"""  # the state of a new kernel when a notebook begins


@pytest.fixture(scope="module")
def kernel():
    """One process for all notebooks, since starting a kernel takes most of the time of a short one.

    NumPy moves its numbers outside of `jit`, programs are lowered in one context, and those that compile quickly are kept,
    as in all tests (`moved_by_numpy.py`, `lowered_in_one_context.py`, `short_programs_kept.py`). NumPy computes programs
    without loops in the notebooks (`by_numpy.py`). Figures are drawn without a layout, which `tests/viz` tests.
    """
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    client = nbclient.NotebookClient(
        nbformat.v4.new_notebook(),
        timeout=300,
        shutdown_kernel="immediate",  # a regular shutdown takes 2.5 s to 5 s
        extra_arguments=[
            f"--IPKernelApp.exec_lines={line}"
            for line in (
                f"import gc; gc.set_threshold{gc.get_threshold()}",
                f"import sys; sys.path.append({str(ROOT)!r})",
                "from tests.lowered_in_one_context import lower_in_one_context; lower_in_one_context()",
                "from tests.moved_by_numpy import move_by_numpy; move_by_numpy()",
                "from tests.short_programs_kept import keep_short_programs; keep_short_programs()",
                "from tests.by_numpy import install; install(); sys.path.pop()",
                "from matplotlib.layout_engine import ConstrainedLayoutEngine as layout",
                "layout.execute = lambda engine, figure: None",
            )
        ],
    )
    with client.setup_kernel():
        yield client


def run_notebook(kernel, notebook, folder, by_numpy=False) -> None:
    """Runs each cell in order, in an empty namespace with JAX's default precision."""
    first = nbformat.v4.new_code_cell(ANEW.format(folder=str(folder), by_numpy=by_numpy))
    notebook.cells.insert(0, first)
    kernel.nb = notebook
    kernel.reset_execution_trackers()
    for index, cell in enumerate(notebook.cells):
        kernel.execute_cell(cell, index)


def test_a_notebook_begins_with_nothing_of_the_one_before(kernel, tmp_path):
    """A notebook sees neither names nor precision of the previous one, and a failing cell is reported."""
    cell, new = nbformat.v4.new_code_cell, nbformat.v4.new_notebook
    before = cell("import jax; x = 1; jax.config.update('jax_enable_x64', True)")
    after = cell("import jax; assert 'x' not in dir() and not jax.config.jax_enable_x64")
    run_notebook(kernel, new(cells=[before]), tmp_path)
    run_notebook(kernel, new(cells=[after]), tmp_path)
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="x"):
        run_notebook(kernel, new(cells=[cell("x")]), tmp_path)


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem)
def test_notebook_runs(path, kernel, tmp_path):
    """Each notebook runs from top to bottom, is stored with outputs and stays under 1 MB."""
    assert path.stat().st_size < 1_000_000
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code), "run the notebook before committing it"
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
    run_notebook(kernel, notebook, tmp_path, by_numpy=True)


def test_output_comparison_can_fail():
    same_output("x = 1.23456", "x = 1.2346")
    with pytest.raises(AssertionError):
        same_output("x = 1.24", "x = 1.20")
    with pytest.raises(AssertionError):
        same_output("y = 1.2", "x = 1.2")
    with pytest.raises(AssertionError):
        same_output("7 steps", "8 steps")
    same_output("drift 3.1e-16 after 499 steps", "drift 1.1e-16 after 498 steps")
    assert np.array_equal(python_blocks("```python\na\n```\n```text\nb\n```"), [("a\n", "b\n")])
