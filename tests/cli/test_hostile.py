"""Hostile scenarios and data: nothing is written outside of --out, and nothing is executed in page, table or terminal."""

import csv
import io
import json
import os
import pickle
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from jaxhamel import _files, _saved_arrays
from jaxhamel.cli._app import app
from jaxhamel.cli._commands._new import run_new
from jaxhamel.cli._exit_status import reported
from jaxhamel.cli._objects._identification import files_in
from jaxhamel.cli._results import _folder, _outputs, _search_file
from jaxhamel.cli._scenario._scenario import load
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.cli._terminal import Terminal
from tests.cli.test_identify import TOP
from tests.viz.browser import opened

IMAGE = 'x"><img src=q onerror="document.title=1"><script>document.title=2</script>'
FORMULA = r"../../evil$\frac{$"  # matplotlib cannot parse this formula
SMALL = """
[system]
kind = "heavy-top"
mass = 1.0
inertia = [0.02, 0.021, 0.004]
com = [0.0, 0.0, 0.1]
[time]
end = 0.1
samples = 5
"""
SEARCHED = load("circle")
COLUMNS = ["=cmd|' /C calc'!A0", "+b", "-c", "@d"]


def jaxhamel(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def hostile(folder):
    """A scenario of the top whose names are paths, HTML, spreadsheet formulas and terminal commands."""
    absolute = json.dumps(f"{folder}/absolute{IMAGE}")
    names = {
        '"orientation"\n': f'"orientation"\nname = {json.dumps(FORMULA)}\ncolumns = {json.dumps(COLUMNS)}\n',
        '"angular-rate"\n': f'"angular-rate"\nname = {absolute}\n',
        'unit = "kg"': f"unit = {json.dumps('=1+1' + IMAGE)}",
        '"A top"': json.dumps("\x1b[2J\u202e" + IMAGE),
    }
    content = TOP
    for old, new in names.items():
        assert old in content
        content = content.replace(old, new)
    return content


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """The result of `identify` for the hostile scenario, in a folder where links take the places of a figure, the page,
    the table and the summary."""
    folder = tmp_path_factory.mktemp("hostile")
    out = folder / "a" / "out"
    out.mkdir(parents=True)
    (folder / "victim").write_text("untouched", encoding="utf-8")
    for name in ("report.html", "summary.json", "parameters.csv", "evil-frac-1.png"):
        (out / name).symlink_to(folder / "victim")
    (folder / "top.toml").write_text(hostile(folder), encoding="utf-8")
    result = jaxhamel("identify", folder / "top.toml", "--out", out, "--seed", 2)
    assert result.exit_code == 0, result.output
    return folder, out, result


def test_everything_written_is_in_the_folder(attacked):
    folder, out, _ = attacked
    outside = {path for path in folder.rglob("*") if path.is_file() and out not in path.parents}
    assert {path.name for path in outside} == {"top.toml", "victim"}
    written = {path.name for path in out.iterdir() if path.is_file()}
    assert set(json.loads((out / "summary.json").read_text("utf-8"))["files"]) == written
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", name) for name in written)
    assert "evil-frac-1.png" in written


def test_no_link_is_followed(attacked):
    folder, out, _ = attacked
    assert (folder / "victim").read_text("utf-8") == "untouched"
    assert not any(path.is_symlink() for path in out.rglob("*"))


def test_a_link_where_a_folder_goes_is_refused(attacked, tmp_path):
    folder, _, _ = attacked
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "data").symlink_to(tmp_path / "elsewhere")
    result = jaxhamel("identify", folder / "top.toml", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "data is a symbolic link, which is not followed" in result.stderr
    assert not list((tmp_path / "elsewhere").iterdir())


def test_cells_are_no_formulas_and_are_read_back(attacked):
    _, out, _ = attacked
    with open(out / "parameters.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    with open(out / "data" / "run1.csv", newline="", encoding="utf-8") as file:
        header = next(csv.reader(file))
    texts = [*header, *(row[i] for row in rows for i in (0, 3, 5))]
    assert len(texts) > 15
    assert not [text for text in texts if text.startswith(("=", "+", "-", "@"))]
    assert f"'{COLUMNS[0]}" in header


def test_nothing_reaches_the_terminal_that_it_obeys(attacked):
    _, _, result = attacked
    assert "\x1b" not in result.stderr
    assert "\u202e" not in result.stderr


def test_nothing_runs_in_the_page(attacked, tmp_path):
    """Scripts in names are shown as text; a script put into the page is blocked by its content security policy."""
    _, out, _ = attacked
    page = tmp_path / "page.html"
    text = (out / "report.html").read_text("utf-8")
    assert "<img" not in text
    page.write_text(text.replace("</main>", f"{IMAGE}</main>"), encoding="utf-8")
    with opened(page, tmp_path / "profile") as browser:
        assert "<script>" in browser.title  # the title shows the script as text
        assert browser.find_elements("css selector", "main img")  # the added image is in the page
        assert browser.execute_script("return window.jaxhamel.state.time") == 0
        refused = [entry["message"] for entry in browser.get_log("browser")]
    assert sum("Content Security Policy" in message for message in refused) >= 2


@pytest.mark.parametrize(
    "pattern", ["../*.csv", "/etc/*.csv", "", "a/../../*.csv", ".", "./", "a**b"]
)
def test_patterns_of_files_stay_in_the_folder(pattern, tmp_path):
    (tmp_path / "data" / "a").mkdir(parents=True)
    (tmp_path / "secret.csv").write_text("t", encoding="utf-8")
    with pytest.raises(ScenarioError, match="a pattern of files in the folder of --data"):
        files_in(tmp_path / "data", [pattern])


def test_links_out_of_the_folder_of_data_are_not_followed(tmp_path):
    inside = tmp_path / "data" / "in"
    inside.mkdir(parents=True)
    (tmp_path / "secret.csv").write_text("t", encoding="utf-8")
    (inside / "run.csv").write_text("t", encoding="utf-8")
    assert files_in(tmp_path / "data", ["*/*.csv"]) == [inside / "run.csv"]
    (inside / "link.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(ScenarioError, match=r"link\.csv is a link to a file outside the folder"):
        files_in(tmp_path / "data", ["*/*.csv"])
    (tmp_path / "data" / "way").symlink_to(tmp_path)
    with pytest.raises(ScenarioError, match="outside the folder"):
        files_in(tmp_path / "data", ["way/*.csv"])


@pytest.mark.parametrize("command", ["say", "complain", "update"])
def test_terminal_shows_what_it_would_obey(command, capsys):
    getattr(Terminal(quiet=False), command)("\x1b]0;title\x07 \x9b2J \u202e \ud800 name\r.")
    said = capsys.readouterr().err
    assert r"\x1b]0;title\x07 \x9b2J \u202e \ud800 name\r." in said.replace("\n", "")


def test_a_file_is_whole_or_not_there(tmp_path):
    path = tmp_path / "a.txt"
    _files.write_text(path, "before")

    def interrupted():
        with _files.written(path) as file:
            print("half", file=file, flush=True)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text("utf-8") == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]
    os.mkfifo(tmp_path / "pipe")  # a write to a pipe would wait for a reader for ever
    with pytest.raises(FileExistsError, match="is not a file"):
        _files.write_text(tmp_path / "pipe", "text")


def test_a_name_may_be_as_long_as_the_file_system_has_them(tmp_path):
    """The temporary name of a file is never longer than its final name, also with characters of four bytes."""
    path = tmp_path / f"{62 * '𝕏'}.html"
    _files.write_text(path, "text")
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_columns_are_written_with_all_digits_and_read_back(tmp_path):
    values = np.array([1 / 3, -1e-300, 5e22])
    _outputs.write_columns(tmp_path / "t.csv", {"t": values, 'a,"b"\n': -values})
    with open(tmp_path / "t.csv", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["t", 'a,"b"\\n']
    np.testing.assert_array_equal(np.array(rows, float).T, [values, -values])


def test_one_writer_in_a_folder(tmp_path):
    """A second command is refused while the first one holds the lock, and it leaves the files alone."""
    (tmp_path / "summary.json").write_text("{}", encoding="utf-8")
    other = _files.Lock(tmp_path)
    with pytest.raises(ScenarioError, match="another command is writing there"):
        _folder.folder(tmp_path)
    assert (tmp_path / "summary.json").exists()
    other.close()
    (tmp_path / ".a.png.0123456789ab.partial").touch()
    (tmp_path / ".mine.partial").touch()  # belongs to another program
    assert _folder.folder(tmp_path) == _folder.folder(tmp_path) == Path(tmp_path)
    (tmp_path / ".mine.partial").unlink()
    with pytest.raises(BlockingIOError):
        _files.Lock(tmp_path)
    _folder.release()
    assert (
        list(tmp_path.iterdir()) == []
    )  # the old summary and the file of a killed process are gone
    _files.Lock(tmp_path).close()


@pytest.mark.parametrize("renamed", [0, 1, 4])
def test_a_kill_leaves_whole_files_and_no_summary_of_others(renamed, attacked, monkeypatch):
    """A second run into the folder is killed after 0, 1 or 4 of its files: all files are whole, and the summary is
    gone."""
    folder = attacked[0]
    (folder / "small.toml").write_text(SMALL, encoding="utf-8")
    simulate = ("simulate", folder / "small.toml", "--out", folder / "killed")
    assert jaxhamel(*simulate).exit_code == 0
    before = {path.name: path.read_bytes() for path in (folder / "killed").iterdir()}
    assert len(before) > 5
    replace, done = os.replace, []

    def killed(old, new):
        if len(done) == renamed:
            raise KeyboardInterrupt  # stands for a kill: no later error is handled
        done.append(Path(new).name)
        replace(old, new)

    monkeypatch.setattr(_files.os, "replace", killed)
    assert jaxhamel(*simulate, "--set", "system.mass=2.0").exit_code == 130
    after = {path.name: path.read_bytes() for path in (folder / "killed").iterdir()}
    assert set(before) - set(after) == {"summary.json"}
    assert not [name for name in after if name.endswith(".partial")]
    assert {name for name in after if after[name] != before[name]} <= set(done)
    assert all(after.values())


def test_a_folder_that_is_gone_is_said(tmp_path, capsys):
    """The folder was removed, or a file has its name: one line says so."""
    for gone in (tmp_path / "out", tmp_path / "file"):
        (tmp_path / "file").touch()

        def job(path=gone):
            _files.write_text(path / "a.txt", "text")

        with pytest.raises(typer.Exit) as ended:
            reported("top", Terminal(quiet=True), job, gone)
        said = " ".join(capsys.readouterr().err.split())
        assert ended.value.exit_code == 1
        assert f"jaxhamel: top: --out {gone}: the folder is gone" in said.replace("- ", "-")


def test_a_link_that_leads_to_itself_is_no_folder(tmp_path):
    """A link to itself is refused in one line; `Path.resolve` would raise a RuntimeError."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(ScenarioError, match="loop: the folder cannot be made"):
        _folder.folder(loop)
    with pytest.raises(OSError, match="loop"):
        run_new("trolley", loop)


def test_a_folder_that_went_after_its_first_file_is_not_made_again(tmp_path):
    """A folder that was removed while in use, for instance after the synthetic runs of `identify`, is not made again
    without its files and its lock."""
    _folder.folder(tmp_path / "out").rmdir()
    try:
        with pytest.raises(FileNotFoundError):
            _folder.folder(tmp_path / "out")
        assert not (tmp_path / "out").exists()
    finally:
        _folder.release()
    assert _folder.folder(tmp_path / "out").is_dir()
    _folder.release()


def search_npz(**arrays):
    content = io.BytesIO()
    np.savez(content, allow_pickle=True, **arrays)
    return content.getvalue()


def member(content):
    """An archive of a search with the given content for the scenario's array, compressed a thousandfold."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("asked.npy", content)
    return packed.getvalue()


def header(shape):
    found = io.BytesIO()
    about = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(found, about)
    return found.getvalue()


ASKED = search_npz(asked=np.array("{}"), shares=np.ones(2))
BITS = (
    ASKED.find(b"PK\x03\x04") + 6,
    ASKED.find(b"PK\x01\x02") + 8,
)  # positions of the flags of the first array


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a zip file"),
        (ASKED[:-30], "is not a zip file"),
        (pickle.dumps({"a": 1}), "is not a zip file"),
        (ASKED.replace(b"{\x00", b"[\x00"), "CRC"),
        (bytes(x | (i in BITS) for i, x in enumerate(ASKED)), "is encrypted"),
        (bytes(99 if i - 2 in BITS else x for i, x in enumerate(ASKED)), "compression method"),
        (search_npz(asked=np.array([print], dtype=object)), "is not an array of numbers"),
        (search_npz(asked=np.array("hello")), "Expecting value"),
        (search_npz(asked=np.array("[1]")), "it has no scenario"),
        (search_npz(asked=np.array(3000 * "[")), "recursion depth"),
        (search_npz(shares=np.ones(2)), "no item named 'asked.npy'"),
        (search_npz(asked=np.array('{"' + 5000 * "a" + '": 1}')), r"`a{57}\.\.\.` is None"),
        (member(header((10**15,))), "is not an array of numbers"),
        (member(header((2**20,)) + bytes(2**23)), r"holds 8,388,736 bytes; it may hold 1,000"),
    ],
)  # fmt: skip
def test_a_search_that_is_damaged_or_of_another_program_is_refused(
    content, message, tmp_path, monkeypatch
):
    """Nothing is unpickled, and the scenario is checked before the other arrays are read."""
    (tmp_path / "search.npz").write_bytes(content)
    if "1,000" in message:
        monkeypatch.setattr(_saved_arrays, "MOST_BYTES", 1000)
    file = _search_file.SearchFile(tmp_path, SEARCHED)
    with pytest.raises(ScenarioError, match=message) as caught:
        file.read()
    assert len(str(caught.value)) < 600
    assert str(caught.value).startswith("--resume: ")
