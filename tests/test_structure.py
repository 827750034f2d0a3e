"""The package's structure: imports in one direction, imports without side effects, sizes of folders and functions."""

import ast
import functools
import importlib
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import jaxhamel
from jaxhamel.systems import RollingBall

SOURCE = Path(jaxhamel.__file__).parent
# a folder may import from those before it; `simulate`, `systems` and `multibody` stand side by side
LAYERS = {
    "_lanes": -1,
    "_search": -1,
    "geometry": 0,
    "mechanics": 1,
    "simulate": 2,
    "systems": 2,
    "multibody": 2,
    "control": 3,
    "ensemble": 3,
    "identify": 4,  # experiment design changes control curves
    "viz": 5,
    "cli": 6,
}


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported_folders(path: Path):
    for node in ast.walk(parsed(path)):
        modules = []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [node.module or ""]
            if node.module == "jaxhamel":
                modules = [f"jaxhamel.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        for module in modules:
            parts = module.split(".")
            if parts[0] == "jaxhamel" and len(parts) > 1 and parts[1] in LAYERS:
                yield parts[1]


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE))
)
def test_imports_go_one_way(path):
    folder = path.relative_to(SOURCE).parts[0]
    if folder not in LAYERS:
        return  # __init__.py and the private modules at the top
    for other in imported_folders(path):
        assert other == folder or LAYERS[other] < LAYERS[folder], f"{path} imports {other}"


def test_private_names_stay_in_their_folder():
    """Module names may begin with an underscore; a name inside a module may not if another folder uses it."""
    taken = [
        (str(path), module, name)
        for path in SOURCE.rglob("*.py")
        for module, name in names_imported(path)
        if name.startswith("_") and not name.startswith("__")
        if not is_in_folder(module, name, path.parent)
    ]
    assert not taken


def is_in_folder(module: str, name: str, folder: Path) -> bool:
    """Whether the name is that of a module of this folder, or defined in one."""
    home = SOURCE.parent.joinpath(*module.split("."))
    return (home / f"{name}.py").exists() or (home / name).is_dir() or home.parent == folder


def names_imported(path: Path):
    """Pairs (module, name) that a module takes from the package, by import or as an attribute of an imported module."""
    tree, modules = parsed(path), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "write imports in full"
            if (node.module or "").split(".")[0] == "jaxhamel":
                for alias in node.names:
                    modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                    yield node.module, alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id, "")
            if SOURCE.parent.joinpath(*module.split(".")).with_suffix(".py").exists():
                yield module, node.attr


def test_no_class_is_handed_to_a_check_that_could_import_it():
    """A check of one class is in that class's folder; `check_kind` and `each_of` take any class."""
    handed = [
        (str(path), node.name)
        for path in SOURCE.rglob("*.py")
        if "_checks" in str(path)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef) and node.name not in ("check_kind", "each_of")
        if any(x.annotation and ast.unparse(x.annotation) == "type" for x in node.args.args)
    ]
    assert not handed


@pytest.mark.parametrize(
    "folder",
    sorted({path.parent for path in SOURCE.rglob("*.py")}),
    ids=lambda p: str(p.relative_to(SOURCE)),
)
def test_a_folder_has_few_modules_and_short_functions(folder):
    """A folder has at most fourteen modules, except for one file per system and per space; the median function has
    fewer than ten lines."""
    modules = sorted(folder.glob("*.py"))
    if folder.name not in ("systems", "geometry"):
        assert len([path for path in modules if path.name != "__init__.py"]) <= 14
    lengths = [length for path in modules for length in lengths_of_functions(path)]
    assert statistics.median(lengths or [0]) < 10


def lengths_of_functions(path: Path):
    """Numbers of lines of a module's functions, without docstrings."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            yield length_of(node) - (length_of(first) if ast.get_docstring(node) else 0)


def length_of(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


# Names that users of two folders see; each means the same thing of another kind.
SEEN_BY_USERS = {"Distribution", "Points", "Progress"}


def test_a_class_or_type_has_one_name_and_a_name_one_meaning():
    homes = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        for name in names_of_types(parsed(path).body):
            homes[name].add(str(path.relative_to(SOURCE)))
    twice = {name: found for name, found in homes.items() if len(found) > 1}
    assert set(twice) == SEEN_BY_USERS, twice


def names_of_types(body):
    """The CamelCase names of a module without private ones: its classes and type aliases."""
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [node]
        for target in targets:
            name = getattr(target, "name", None) or getattr(target, "id", "_")
            if name[0].isupper() and not name.isupper() and not isinstance(target, ast.FunctionDef):
                yield name


def test_checks_and_shapes_import_no_folder():
    names = ("_typing.py", "_citation.py", "_shapes.py", "_words.py", "_files.py", "_lapack.py")
    names += ("_compiled.py",)
    folders = (path for name in ("_checks", "_content") for path in (SOURCE / name).rglob("*.py"))
    private = [*(SOURCE / name for name in names), *folders]
    assert len(private) > 5
    for path in private:
        assert not list(imported_folders(path))


def test_import_changes_nothing():
    """Importing changes no precision, touches no device, prints nothing and needs no extra."""
    program = (
        "import sys, jax; before = jax.config.values.copy(); import jaxhamel; "
        "from jax._src import xla_bridge; "
        "assert jax.config.values == before, 'configuration changed'; "
        "assert not xla_bridge._backends, 'a device was started'; "
        "extras = {'matplotlib', 'typer', 'rich', 'scipy.stats'} & set(sys.modules); "
        "assert not extras, extras"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == ""
    assert run.stderr == ""


def test_names_found_when_asked_for_are_those_that_tools_read():
    """`jaxhamel.simulate` stays the function, even after an import of the folder of that name."""
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If)).body
    imports = [node for node in block if isinstance(node, ast.ImportFrom)]
    names = {node.names[0].name: node.module for node in imports}
    assert set(names) | {"__version__"} == set(jaxhamel.__all__)
    importlib.import_module("jaxhamel.simulate._trajectory")
    for name, home in names.items():
        if home != "jaxhamel":
            assert getattr(jaxhamel, name) is getattr(sys.modules[home], name)
    assert callable(jaxhamel.simulate)
    with pytest.raises(AttributeError, match="module 'jaxhamel' has no attribute 'simulat'"):
        _ = jaxhamel.simulat


def public_objects():
    for module in (
        jaxhamel,
        jaxhamel.geometry,
        jaxhamel.mechanics,
        jaxhamel.systems,
        jaxhamel.multibody,
        jaxhamel.control,
        jaxhamel.ensemble,
        jaxhamel.identify,
    ):
        for name in dir(module):
            if not name.startswith("_") and getattr(module, name).__class__.__name__ != "module":
                yield pytest.param(getattr(module, name), id=f"{module.__name__}.{name}")


@pytest.mark.parametrize("thing", list(public_objects()))
def test_everything_public_is_documented(thing):
    assert (getattr(thing, "__doc__", None) or "").strip()


def test_citation_names_what_was_used():
    text = jaxhamel.citation(RollingBall)
    assert "putkaradze2018dynamics" in text
    assert text.count("mueller2021hamel") == 1
    assert "putkaradze" not in jaxhamel.citation()
