"""Writes the tables of docs/primitives.md from the package's records of primitives: `python -m tests.lanes.primitives`."""

from pathlib import Path

from jaxhamel._lanes._graph._primitive import Kind, Primitive
from jaxhamel._lanes._rules._primitives import PRIMITIVES

DOCUMENT = Path(__file__).parents[2] / "docs" / "primitives.md"
START, END = "<!-- tables: start -->", "<!-- tables: end -->"
LOOPS = "A loop of elementwise operations and of these may become one kernel on a CPU"
SMALL = "Such a loop may also contain these, with small arrays or a single window"
HEAD = [
    "| operation | constants folded | simplified | linear factor | GPU kernel |",
    "|---|---|---|---|---|",
]


def tables() -> str:
    """The page's tables: one row per elementwise operation, then the names of all others by kind."""
    elementwise = of_kind(Kind.ELEMENTWISE)
    rows = [_row(name, PRIMITIVES[name]) for name in sorted(elementwise)]
    others = {kind.value: of_kind(kind) for kind in Kind if kind is not Kind.ELEMENTWISE}
    loops = {name for name, record in PRIMITIVES.items() if record.cpu_kernel is True}
    small = {name for name, record in PRIMITIVES.items() if callable(record.cpu_kernel)}
    others |= {LOOPS: loops - elementwise, SMALL: small}
    lists = [f"- **{heading}:** {_names(names)}." for heading, names in others.items()]
    return "\n".join([START, "", *HEAD, *rows, "", *lists, "", END])


def of_kind(kind: Kind) -> set[str]:
    return {name for name, record in PRIMITIVES.items() if record.kind is kind}


def _row(name: str, record: Primitive) -> str:
    record = record if record.same_as is None else PRIMITIVES[record.same_as.name]
    yes = lambda found: "yes" if found else ""
    cells = [
        f"`{name}`",
        yes(record.fold),
        yes(record.simplify),
        yes(record.factor),
        yes(record.gpu_kernel),
    ]
    return "| " + " | ".join(cells) + " |"


def _names(names: set[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def document() -> str:
    """The text of the page with its tables made from the package."""
    text = DOCUMENT.read_text()
    before, rest = text.split(START)
    return before + tables() + rest.split(END)[1]


if __name__ == "__main__":
    DOCUMENT.write_text(document())
