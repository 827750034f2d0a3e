"""The tables of equations and errata: each name in them exists, and each paper has its rows."""

import functools
import re
from pathlib import Path

import pytest

import jaxhamel
import jaxhamel.viz

ROOT = Path(__file__).parents[2]
PAGES = ("docs/equations.md", "docs/ERRATA.md")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
PAPERS = ("Müller 2021", "Müller 2023", "Massa–Vignolo", "Putkaradze–Rogers", "From 2012")


def sections(page: str) -> dict[str, str]:
    """The page's text by its second-level headings."""
    parts = re.split(r"^## (.+)$", (ROOT / page).read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def rows(section: str):
    """The cells of each row of the section's tables, without headings."""
    for line in section.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and not set(cells[0]) <= {"-", ":"} and cells[0] not in HEADINGS:
            yield cells


NUMBERED = {  # the last number of each sequence; all five papers number without gaps
    "Müller 2021": {"": 142},
    "Müller 2023": {"1.": 4, "2.": 12, "3.": 15, "4.": 15, "5.": 36, "6.": 5, "7.": 2},
    "Massa–Vignolo": {"": 19},
    "Putkaradze–Rogers": {"A.": 38, "B.": 10, "C.": 5, "D.": 21},
    "From 2012": {"": 112},
}
NUMBER = r"\(((?:\w\.)?)(\d+)\)"


def numbers(text: str) -> list[tuple[str, int]]:
    """The equations that a cell names, (prefix, number), "(2.1)–(2.3)" being three."""
    found = []
    for prefix, first, _, last in re.findall(NUMBER + "(?:–" + NUMBER + ")?", text):
        found += [(prefix, n) for n in range(int(first), int(last or first) + 1)]
    return found


@pytest.mark.parametrize("paper", PAPERS)
def test_every_numbered_equation_has_a_row(paper):
    named = {n for cells in rows(sections("docs/equations.md")[paper]) for n in numbers(cells[0])}
    wanted = {(p, n) for p, last in NUMBERED[paper].items() for n in range(1, last + 1)}
    assert wanted - named == set()


def test_numbers_of_a_cell():
    cell = "(2.1)–(2.3), (A.9), (12), section 6(b), remark 4"
    assert numbers(cell) == [("2.", 1), ("2.", 2), ("2.", 3), ("A.", 9), ("", 12)]


HEADINGS = {"equation", "equation or example"}


def resolve(name: str):
    """The object that a dotted name relative to the package stands for."""
    return functools.reduce(getattr, name.split("."), jaxhamel)


def all_rows():
    for title, text in sections("docs/equations.md").items():
        for cells in rows(text):
            yield pytest.param(cells, id=f"{title} {cells[0]}")


@pytest.mark.parametrize("cells", list(all_rows()))
def test_row_names_things_that_exist(cells):
    assert len(cells) == 4, cells
    names = re.findall(r"`([A-Za-z_][\w.]*)`", cells[2])
    assert names, f"no function or system named in {cells}"
    for name in names:
        assert resolve(name).__doc__, name
    assert TEST.search(cells[3]), f"no test named in {cells}"


@pytest.mark.parametrize("page", PAGES)
def test_tests_named_on_the_page_exist(page):
    text = (ROOT / page).read_text()
    for path, name in TEST.findall(text):
        assert f"def {name}(" in (ROOT / path).read_text(), f"{path}::{name}"


@pytest.mark.parametrize("paper", PAPERS)
def test_every_paper_has_rows(paper):
    assert len(list(rows(sections("docs/equations.md")[paper]))) >= 1


def test_unknown_names_are_found_out():
    with pytest.raises(AttributeError):
        resolve("mechanics.no_such_function")
    assert list(rows("| equation | b |\n|---|---|\n| (1) | x \\| y |")) == [["(1)", "x \\| y"]]
