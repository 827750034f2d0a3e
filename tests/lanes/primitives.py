"""The tables of docs/primitives.md, made from the package's: `python -m tests.lanes.primitives` writes them."""

from pathlib import Path

from jaxhamel._lanes._graph._elimination import FACTORS
from jaxhamel._lanes._graph._folding import FOLDED, SIMPLIFIED
from jaxhamel._lanes._rules._control_flow import CALLS, CONTROL_FLOW
from jaxhamel._lanes._rules._indexing import INDEXING
from jaxhamel._lanes._rules._linear_algebra import LINEAR_ALGEBRA
from jaxhamel._lanes._rules._order import ORDER
from jaxhamel._lanes._rules._rules import ELEMENTWISE, MOVES, RULES
from jaxhamel._lanes._xla_cpu._whole_loop import ALWAYS_TAKEN
from jaxhamel.ensemble._gpu_kernel._kernel_program import NOT_IN_TRITON

DOCUMENT = Path(__file__).parents[2] / "docs" / "primitives.md"
START, END = "<!-- tables: start -->", "<!-- tables: end -->"
LOOPS = "A loop of only these and of elementwise operations may become one kernel on a CPU"
HEAD = [
    "| operation | constants fold by | simplified | linear factor | GPU kernel |",
    "|---|---|---|---|---|",
]


def tables() -> str:
    """One row for each elementwise operation, then the names of the others by kind."""
    rows = [_row(name) for name in sorted(ELEMENTWISE)]
    others = [f"- **{kind}:** {_names(names)}." for kind, names in _others().items()]
    return "\n".join([START, "", *HEAD, *rows, "", *others, "", END])


def _row(name: str) -> str:
    yes = lambda found: "yes" if found else ""  # noqa: E731
    cells = [
        f"`{name}`",
        "NumPy" if name in FOLDED else "JAX",
        yes(name in SIMPLIFIED),
        yes(name in FACTORS),
        yes(name not in NOT_IN_TRITON),
    ]
    return "| " + " | ".join(cells) + " |"


def _others() -> dict[str, set[str]]:
    kinds = {
        "They move entries, which costs nothing": set(MOVES),
        "Look-ups and updates by index": set(INDEXING),
        "Sorting and searching": set(ORDER),
        "Linear algebra, written out for small matrices": set(LINEAR_ALGEBRA),
        "Control flow": set(CONTROL_FLOW) - set(CALLS),
        "Calls, whose programs are written out": set(CALLS),
    }
    known = ELEMENTWISE.union(*kinds.values())
    sums = {"Sums, products, the largest, constants": set(RULES) - known}
    loops = {LOOPS: ALWAYS_TAKEN - ELEMENTWISE}
    return kinds | sums | loops


def _names(names: set[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def document() -> str:
    """The page with its tables replaced by those of the package."""
    text = DOCUMENT.read_text()
    before, rest = text.split(START)
    return before + tables() + rest.split(END)[1]


if __name__ == "__main__":
    DOCUMENT.write_text(document())
