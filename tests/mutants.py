"""Mutants of the package, and whether the tests that are most related to each notice it. By hand, not by pytest:

    python -m tests.mutants --seed 1 --mutants 100 --out mutants.jsonl

A mutant is one change of one line: another operator or comparison, another number, a negated condition, smallest for
largest. The same seed draws the same mutants from the same sources, equally many from each folder. Each is written into a
copy of the package and tested with the files that mention most of its module's names, or with those that `--tests` gives
for it: a JSON object from `file:line` to a list of files or tests. `--out` is added to line by line, and mutants that stand
in it already are not run again. Compiled programs are kept for the whole run: most mutants change few of them.
"""

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE, TESTS = ROOT / "src" / "jaxhamel", ROOT / "tests"

OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.USub: ast.UAdd,
}
NAMES = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "sin": "cos",
    "cos": "sin",
}
NAMES |= {
    "all": "any",
    "any": "all",
    "argmin": "argmax",
    "argmax": "argmin",
    "floor": "ceil",
    "ceil": "floor",
}


class Mutant(NamedTuple):
    """A mutant, given by its file and by the number of the changeable node in it."""

    file: str
    line: int
    place: int
    was: str
    now: str


def changed(node: ast.AST) -> bool:
    """Changes a node in place; False if nothing in it can be changed."""
    match node:
        case ast.BinOp() | ast.BoolOp() | ast.UnaryOp() if type(node.op) in OPERATORS:
            node.op = OPERATORS[type(node.op)]()  # type: ignore[assignment]
        case ast.Compare() if type(node.ops[0]) in OPERATORS:
            node.ops[0] = OPERATORS[type(node.ops[0])]()  # type: ignore[call-overload]
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant(value=int() | float()):
            node.value = node.value + 1 if abs(node.value) < 1.5 else node.value * 2
        case ast.Attribute() if node.attr in NAMES:
            node.attr = NAMES[node.attr]
        case ast.If() | ast.IfExp():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case _:
            return False
    return True


def code_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes that run when a function is called, without annotations, defaults, decorators and error messages."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    seen: set[int] = set()
    for function in functions:
        for statement in function.body:
            if isinstance(statement, ast.AnnAssign):
                statement = statement.value or ast.Pass()
            for node in ast.walk(statement):
                if isinstance(node, ast.Raise | ast.JoinedStr | ast.FunctionDef):
                    seen.update(id(inner) for inner in ast.walk(node))
                elif id(node) not in seen:
                    seen.add(id(node))
                    yield node


def mutants(path: Path) -> list[Mutant]:
    """All mutants of a file."""
    name, text = str(path.relative_to(ROOT)), path.read_text()
    found = []
    for place, node in enumerate(code_nodes(ast.parse(text))):
        if isinstance(node, ast.expr | ast.stmt):
            was = ast.unparse(node).split("\n")[0]
            if changed(node):
                found.append(
                    Mutant(name, node.lineno, place, was, ast.unparse(node).split("\n")[0])
                )
    return [m for m in found if m.was != m.now]


def mutated(mutant: Mutant) -> str:
    """The text of the mutant's file, with the mutation."""
    tree = ast.parse((ROOT / mutant.file).read_text())
    changed(next(node for i, node in enumerate(code_nodes(tree)) if i == mutant.place))
    return ast.unparse(ast.fix_missing_locations(tree))


def drawn(seed: int, count: int) -> list[Mutant]:
    """Random mutants, equally many from each folder, in turn."""
    folders = sorted(path for path in PACKAGE.iterdir() if any(path.rglob("*.py")))
    chance, chosen = random.Random(seed), []
    decks = [
        [m for file in sorted(folder.rglob("*.py")) for m in mutants(file)] for folder in folders
    ]
    for deck in decks:
        chance.shuffle(deck)
    while len(chosen) < count and any(decks):
        chosen += [deck.pop() for deck in decks if deck]
    return chosen[:count]


def related(file: str, most: int) -> list[str]:
    """The test files that mention most of a module's names, those of its own folder first among equals. If no file
    mentions any, the files of the modules that use it."""
    path = ROOT / file
    found = _mentioning(path, most)
    if found:
        return found
    names = _defined(path)
    users = [p for p in sorted(PACKAGE.rglob("*.py")) if p != path and names & _words(p)]
    points = Counter(test for user in users for test in _mentioning(user, most))
    return [name for name, _ in points.most_common(most)]


def _mentioning(path: Path, most: int) -> list[str]:
    names = _defined(path) | {path.stem}
    folder = path.relative_to(PACKAGE).parts[0].strip("_")
    points: Counter = Counter()
    for test in TESTS.rglob("test_*.py"):
        known, alike = names & _words(test), path.stem.strip("_") in test.stem
        if known:
            near = test.parent.name == folder
            points[str(test.relative_to(ROOT))] = 2 * len(known) + 3 * alike + near
    return [name for name, _ in points.most_common(most)]


def _defined(path: Path) -> set[str]:
    kinds = ast.FunctionDef | ast.ClassDef
    found = {n.name for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, kinds)}
    return {name for name in found if len(name) > 4 and not name.startswith("__")}


@cache
def _words(path: Path) -> set[str]:
    return set(re.findall(r"\w+", path.read_text()))


def survives(mutant: Mutant, files: list[str], limit: float, programs: str) -> str:
    """The result `caught`, `survived`, or `too slow` (which a test with a time limit would catch).

    `programs`: the folder of compiled programs. `tests/conftest.py` keeps them there if it finds itself in a worker.
    """
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(
            ROOT / "src", Path(folder) / "src", ignore=shutil.ignore_patterns("__pycache__")
        )
        (Path(folder) / mutant.file).write_text(mutated(mutant))
        environment = {
            **os.environ,
            "PYTHONPATH": f"{folder}/src",
            "PYTHONDONTWRITEBYTECODE": "1",
            "JAXHAMEL_TEST_PROGRAMS": programs,
            "PYTEST_XDIST_WORKER": "mutants",
        }
        command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "--no-header", *files]
        try:
            run = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return "too slow"
    return "survived" if run.returncode == 0 else "caught"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutants", type=int, default=100)
    parser.add_argument("--files", type=int, default=3, help="test files for each mutant")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for each mutant")
    parser.add_argument("--tests", type=Path, help="JSON: the tests of some mutants")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    asked = parser.parse_args()
    done = asked.out.read_text().splitlines() if asked.out.exists() else []
    known = {tuple(json.loads(line)["mutant"]) for line in done}
    chosen = json.loads(asked.tests.read_text()) if asked.tests else {}
    programs = tempfile.mkdtemp()
    for mutant in drawn(asked.seed, asked.mutants):
        if tuple(mutant) not in known:
            place = f"{mutant.file}:{mutant.line}"
            files = chosen.get(place) or related(mutant.file, asked.files)
            end = survives(mutant, files, asked.limit, programs)
            row = {"mutant": mutant, "files": files, "end": end}
            with asked.out.open("a") as out:
                out.write(json.dumps(row) + "\n")
            print(
                f"{row['end']}: {mutant.file}:{mutant.line}: {mutant.was}  ->  {mutant.now}",
                flush=True,
            )
    shutil.rmtree(programs, ignore_errors=True)
    ends = Counter(json.loads(line)["end"] for line in asked.out.read_text().splitlines())
    print(", ".join(f"{n} {end}" for end, n in ends.most_common()))


if __name__ == "__main__":
    main()
