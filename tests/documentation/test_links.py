"""Links between pages, sections and files point to something that exists."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "tests/README.md",
]
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
SECTION = re.compile(r"(docs/\w+\.md)#([\w-]+)")
# files of this repository: with a folder, or with the underscore of a private module; others may be a reader's own
PATH = re.compile(r"`([\w.-]+/[\w./-]+\.(?:py|md|toml)|_\w+\.py)`")
FOLDERS = (ROOT, ROOT / "src/jaxhamel", ROOT / "docs", ROOT / "src/jaxhamel/cli/scenarios")


@cache
def anchors(page: Path) -> tuple[str, ...]:
    """The anchors of a page's headings, as GitHub forms them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return tuple(re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings)


def exists(target: str, page: Path) -> bool:
    """Whether the target of a link on a page exists: a file, and the section after `#`."""
    name, _, section = target.partition("#")
    file = (page.parent / name).resolve() if name else page
    return file.exists() and (not section or section in anchors(file))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page):
    targets = [t for t in LINK.findall(page.read_text()) if not t.startswith(("http", "mailto"))]
    assert not [target for target in targets if not exists(target, page)]


def test_sections_named_in_the_code_exist():
    named = {
        (page, section)
        for folder in ("src", "tests", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        for page, section in SECTION.findall(path.read_text())
    }
    assert len(named) > 30
    assert not [pair for pair in named if not exists("#".join(pair), ROOT / "README.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_named_on_a_page_exist(page):
    if page.name == "CHANGELOG.md":
        return  # it names files of the past
    assert not [name for name in PATH.findall(page.read_text()) if not is_there(name, page)]


def is_there(name: str, page: Path) -> bool:
    """Whether a file exists under a folder from which pages name files, or anywhere if the page gives its name alone."""
    if any((folder / name).exists() for folder in (*FOLDERS, page.parent)):
        return True
    return any(ROOT.glob(f"[!.]*/**/{name}"))


WITH_CONTENTS = [page for page in PAGES if "\n## Contents\n" in page.read_text()]


@pytest.mark.parametrize("page", WITH_CONTENTS, ids=lambda p: p.name)
def test_contents_list_all_sections_of_a_page(page):
    listed = {target[1:] for target in LINK.findall(page.read_text()) if target.startswith("#")}
    first = anchors(page).index("contents") + 1
    assert set(anchors(page)[first:]) <= listed


def test_contributing_names_every_folder():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    source = ROOT / "src/jaxhamel"
    rows = dict(re.findall(r"^\| `(\w+)/` \| (.*) \|$", page, re.MULTILINE))
    for folder in (path.parent for path in source.glob("*/__init__.py")):
        assert f"{folder.name}/" in page
        inside = {path.parent.name for path in folder.glob("*/__init__.py")} - {"_checks"}
        assert inside <= set(re.findall(r"`(\w+)`", rows.get(folder.name, ""))), folder.name
