"""A user's own system, --system FILE.py:Class, and the files that `jaxhamel new` writes."""

import json
import os
import re
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import jaxhamel
from jaxhamel.cli._app import app
from jaxhamel.cli._commands import _new
from jaxhamel.cli._objects._system import build_system, named
from jaxhamel.cli._results._solution import write_tables
from jaxhamel.cli._scenario._given_class import given_class
from jaxhamel.cli._scenario._scenario import load
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.identify._parameters._paths import leaf_paths, with_leaf
from jaxhamel.systems import Satellite, Snakeboard
from jaxhamel.viz._motion._page import parameters

SHORT = ("time.end=0.2", "time.samples=5", "solver.method=heun", "solver.dt=0.01")
PLAIN = """
import jax
import jax.numpy as jnp
import jaxhamel

class Particle(jaxhamel.System):
    mass: jax.Array
    spring: jax.Array
    space = jaxhamel.Product(jaxhamel.SO2(), jaxhamel.Euclidean(2))

    def lagrangian(self, t, q, v):
        return 0.5 * self.mass * v @ v - 0.5 * q[1] @ self.spring @ q[1]

NUMBER = 3
"""
TOML = """
[system]
mass = 2.0
spring = [[8.0, 0.0], [0.0, 2.0]]
[initial]
q = [[0.5], [1.0, 0.0]]
u = [0.0, 0.0, 0.0]
[time]
end = 1.0
"""


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def sets(*pairs):
    return [part for pair in pairs for part in ("--set", pair)]


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(PLAIN, encoding="utf-8")
    (tmp_path / "mine.toml").write_text(TOML, encoding="utf-8")
    return tmp_path


def test_plain_fields_are_keys_and_the_motion_is_the_oscillators(mine):
    """With the file's spring 8 and mass 2 the motion is x = cos 2t."""
    steps = sets("time.samples=3", "solver.method=dopri8", "solver.rtol=1e-10", "solver.atol=1e-12")
    result = run(
        "simulate",
        mine / "mine.toml",
        "--system",
        f"{mine}/mine.py:Particle",
        "--out",
        mine / "o",
        *steps,
    )
    assert result.exit_code == 0, result.stderr
    header, *rows = (mine / "o" / "trajectory.csv").read_text(encoding="utf-8").splitlines()
    assert header == "t,q1_1,q2_1,q2_2,u_1,u_2,u_3"
    table = np.array([row.split(",") for row in rows], dtype=float)
    np.testing.assert_allclose(table[:, 2], np.cos(2 * table[:, 0]), atol=1e-8)
    said = json.loads((mine / "o" / "summary.json").read_text(encoding="utf-8"))
    assert said["asked"]["system"]["kind"] == "particle"
    assert (mine / "o" / "report.html").exists()


@pytest.mark.parametrize(
    ("system", "changes", "message"),
    [
        ("none.py:Particle", (), "there is no file"),
        ("mine.toml:Particle", (), "it must be FILE.py:Class"),
        ("mine.py", (), "it must be FILE.py:Class"),
        (
            "mine.py:Partical",
            (),
            "the file has no class Partical. Did you mean `Particle`? It has Particle.",
        ),
        ("mine.py:NUMBER", (), "NUMBER is a int, not a system"),
        ("mine.py:Particle", ("system.mas=1",), "`system.mas` is not a key of `system`"),
        (
            "mine.py:Particle",
            ("system.mass=heavy",),
            '`system.mass` is "heavy"; it must be a number, or a',
        ),
        ("mine.py:Particle", ("system.spring=[[1],[1,2]]",), "lists of different lengths"),
        ("mine.py:Particle", ("initial.q=[1.0]",), "`initial.q` has 1 numbers; it must have 3"),
        ("mine.py:Particle", ("initial.q=[[1.0]]",), "`initial.q` has 1 lists; it must have 2"),
        ("mine.py:Particle", ("initial.u=[1.0]",), "`initial.u` has 1 numbers; it must have 3"),
        ("mine.py:Particle", ("initial.p=[1.0]",), "`initial.p` is not a key of `initial`"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(mine, system, changes, message):
    arguments = ("--system", f"{mine}/{system}", "--out", mine / "o", *sets(*changes))
    result = run("simulate", mine / "mine.toml", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (mine / "o").exists()


def test_an_error_of_the_file_is_shown_with_its_own_lines_alone(mine):
    (mine / "mine.py").write_text("def f():\n    return 1 / 0\nf()\n", encoding="utf-8")
    result = run(
        "simulate", mine / "mine.toml", "--system", f"{mine}/mine.py:P", "--out", mine / "o"
    )
    assert result.exit_code == 2
    assert "return 1 / 0" in result.stderr
    assert "ZeroDivisionError" in result.stderr
    assert "importlib" not in result.stderr


def test_an_error_in_the_lagrangian_is_shown_with_its_line(mine):
    """A list of one mass where the Lagrangian unpacks two is an error of the file, not of the package."""
    unpacked = PLAIN.replace(
        "        return 0.5", "        first, second = self.mass\n        return 0.5"
    )
    (mine / "mine.py").write_text(unpacked, encoding="utf-8")
    arguments = ("--system", f"{mine}/mine.py:Particle", "--out", mine / "o")
    result = run("simulate", mine / "mine.toml", *arguments, *sets("system.mass=[2.0]"))
    assert result.exit_code == 2
    assert "first, second = self.mass" in result.stderr
    assert result.stderr.splitlines()[-1].endswith(
        "mine.py:Particle: ValueError: not enough values to unpack (expected 2, got 1)"
    )


def test_a_failure_names_a_singular_mass_matrix(mine):
    """As the summary of a trajectory does in Python: a mass of zero has no acceleration."""
    arguments = (
        "--system",
        f"{mine}/mine.py:Particle",
        "--out",
        mine / "o",
        "--set",
        "system.mass=0",
    )
    result = run("simulate", mine / "mine.toml", *arguments)
    assert result.exit_code == 1
    assert "There the mass matrix of Particle is singular: rank 0 of 3" in result.stderr


def test_a_class_whose_parameters_have_defaults_needs_no_table(tmp_path):
    """Without [system] its parameters are the defaults; one without a default is named, and so is a value in the place of
    its description."""
    text = PLAIN.replace("mass: jax.Array", "mass: jax.Array = jaxhamel.parameter(default=2.0)")
    plain = text.replace("spring: jax.Array", "spring: jax.Array = jaxhamel.parameter(default=3.0)")
    scenario = tmp_path / "mine.toml"
    scenario.write_text(TOML[TOML.index("[initial]") :], encoding="utf-8")
    for content, words in (
        (plain, None),
        (PLAIN, "`system.mass` is missing"),
        (plain.replace("default=2.0", "2.0"), "`about` is of type float; it must be a text"),
    ):
        path = tmp_path / f"mine_{len(content)}.py"
        path.write_text(content, encoding="utf-8")
        if words is None:
            given = given_class(f"{path}:Particle")
            assert load(str(scenario), given=given).tables["system"]["mass"] == 2.0
            continue
        with pytest.raises(ScenarioError, match=words):
            load(str(scenario), given=given_class(f"{path}:Particle"))


def test_a_scenario_alone_runs_no_code(mine):
    mark = mine / "ran"
    (mine / "mine.py").write_text(f"open({str(mark)!r}, 'w')\n{PLAIN}", encoding="utf-8")
    for kind in ("mine.py:Particle", "mine.Particle", "particle"):
        with pytest.raises(ScenarioError, match=r"`system.kind` is|is not a key"):
            load(str(mine / "mine.toml"), [f"system.kind={kind}"])
    assert not mark.exists()


def test_new_writes_files_that_work_and_a_test_that_finds_wrong_equations(tmp_path):
    assert run("new", "my_cart", "--out", tmp_path).exit_code == 0
    files = {"my_cart.py", "my_cart.toml", "test_my_cart.py"}
    assert {path.name for path in tmp_path.iterdir()} == files
    again = run("new", "my_cart", "--out", tmp_path)
    assert again.exit_code == 2
    assert "nothing was written" in again.stderr
    assert run("new", "My-cart", "--out", tmp_path).exit_code == 2
    source, scenario = tmp_path / "my_cart.py", tmp_path / "my_cart.toml"
    system = ("--system", f"{source}:MyCart", "--out", tmp_path / "o")
    result = run("simulate", scenario, *system, *sets(*SHORT))
    assert result.exit_code == 0, result.stderr

    assert run("new", "wrong_cart", "--out", tmp_path).exit_code == 0
    wrong = tmp_path / "wrong_cart.py"
    text = wrong.read_text(encoding="utf-8")
    changed = text.replace("self.length * v[1] * jnp.cos(q[1])", "self.length * v[1]")
    assert changed != text
    wrong.write_text(changed, encoding="utf-8")
    said = outcome_of(tmp_path, "test_my_cart.py", "test_wrong_cart.py")
    equations, energy = "::test_equations_are_newtons", "::test_energy_is_kept"
    right = {f"PASSED test_my_cart.py{name}" for name in (equations, energy)}
    assert {line for line in said if line.startswith("PASSED")} == right
    (failed,) = (line for line in said if line.startswith("FAILED"))
    assert failed.startswith(f"FAILED test_wrong_cart.py{equations}")


def outcome_of(folder, *files):
    """The lines of a `pytest` process, up to the first failing test."""
    options = ["-qx", "-rA", "--tb=no", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    # importing plugins takes 2 s; options of this run, such as -k, are not meant for the user's tests
    plain = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=folder, env=plain, capture_output=True, check=False)
    assert done.returncode == 1, done.stdout  # one test fails
    return done.stdout.decode().splitlines()


def test_report_refuses_what_is_no_trajectory(tmp_path):
    with pytest.raises(TypeError, match=r"`trajectory` is of type int; it must be a jaxhamel.Traj"):
        jaxhamel.report(3, tmp_path)
    with pytest.raises(ValueError, match=r"page.pdf'; a page is HTML: give a folder, or a file"):
        jaxhamel.report(3, tmp_path / "page.pdf")


def test_report_writes_the_page_of_any_system(tmp_path):
    board = Snakeboard(3.0, 0.11, 0.05, 0.013, 0.3)
    q, u = board.initial_state()
    motion = jaxhamel.simulate(board, q, u + 0.3, jnp.linspace(0.0, 0.5, 6), dt=0.05)
    page = jaxhamel.report(motion, tmp_path / "a").read_text(encoding="utf-8")
    assert "path of the centre" in page
    assert page.count('class="chart"') >= 3


@pytest.mark.parametrize("command", ["simulate", "control", "montecarlo", "identify", "predict"])
def test_examples_of_help_texts_are_scenarios_that_are_taken(command):
    """The help's examples with --set are accepted, and each command has the option --system."""
    text = (
        CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
    )
    assert "--system" in text
    examples = re.findall(rf"jaxhamel {command} ([a-z-]+)( .*)", text)
    for name, rest in examples:
        if name in ("figure-eight", "heavy-top"):
            load(name, re.findall(r"--set (\S+)", rest))


def test_parameters_of_named_systems_say_what_they_are():
    notes = {p.name: p.notes for p in jaxhamel.mechanics.parameters_of(Satellite)}
    assert notes["mass"].unit == "kg"


@pytest.mark.parametrize("name", ["typing", "numpy", "jaxhamel"])
def test_new_takes_no_name_of_a_module(name, tmp_path):
    """A file with the name of a module would shadow it when Python runs in this folder."""
    found = run("new", name, "--out", tmp_path)
    assert found.exit_code == 2
    assert f"Python finds a module {name} already" in found.stderr
    assert list(tmp_path.iterdir()) == []


def test_new_writes_all_files_or_none(tmp_path, monkeypatch):
    write = _new.write_text

    def full(path, text):
        if path.suffix == ".toml":
            raise OSError(28, "No space left on device")
        write(path, text)

    monkeypatch.setattr(_new, "write_text", full)
    found = run("new", "trolley", "--out", tmp_path)
    assert found.exit_code == 1
    assert found.stderr.startswith("jaxhamel: trolley: No space left on device.")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    assert run("new", "trolley", "--out", tmp_path).exit_code == 0


@pytest.mark.parametrize(
    ("table", "name", "word"),
    [
        ("system", "mass", "`system.mass`"),
        (None, "force", "`force`"),
        ("task", "n_constraints", "`n_constraints`"),
    ],
)
def test_an_error_of_a_table_and_of_a_method(table, name, word):
    """An attribute of the user's class is no key of the table that is read when the class fails."""
    with pytest.raises(ScenarioError) as caught, named(table):
        raise TypeError(f"`{name}` of Trolley\n   fails")
    assert str(caught.value) == f"{word} of Trolley fails"


PARTS = """
import jax, jaxhamel
import equinox as eqx
from dataclasses import field
from typing import NamedTuple, TypedDict

class Box(TypedDict):
    width: float

class Spring(NamedTuple):
    stiffness: float
    rest: float = 0.0

class Link(eqx.Module):
    length: jax.Array

class Friction(eqx.Module):
    viscous: jax.Array = jaxhamel.parameter(default=0.5)
    cubic: jax.Array = jaxhamel.parameter(default=0.25)

class Branch(NamedTuple):
    length: float = 1.0
    next: "Branch | None" = None
    twigs: "tuple[Branch, ...]" = ()

class Parts(jaxhamel.System):
    free: dict
    box: Box
    known: dict = field(default_factory=lambda: {"damping": 1, "wall": {"gap": 0.5}})
    springs: list[Spring] = field(default_factory=list)
    links: dict[str, Link] = field(default_factory=dict)
    none: Friction | None = None
    low: Friction = Friction(0.125, 0.0)
    tree: Branch = Branch()
    space = jaxhamel.Euclidean(1)
"""
PARTS_TOML = """
[system]
known.wall.gap = 0.25
box.width = 2.0
free = { mass = 2.0, "a b" = { shape = [1.0, 2.0] }, name = "left" }
[[system.springs]]
stiffness = 8.0
[system.links.arm]
length = 0.3
[time]
end = 1.0
"""


@pytest.fixture
def with_parts(tmp_path):
    (tmp_path / "parts.py").write_text(PARTS, encoding="utf-8")
    (tmp_path / "parts.toml").write_text(PARTS_TOML, encoding="utf-8")
    cls = given_class(f"{tmp_path}/parts.py:Parts")
    return lambda *changes: load(str(tmp_path / "parts.toml"), changes, cls)


def test_dictionaries_and_lists_of_objects_are_tables(with_parts, tmp_path):
    """The numbers of nested tables arrive at their places, and are parameters by their paths; a file that the package
    writes of the tables gives the same system.
    """
    system = build_system(with_parts("system.known.damping=2.5"))
    assert system.known["damping"] == 2.5
    assert system.known["wall"]["gap"] == 0.25
    assert system.free["name"] == "left"
    assert system.box["width"] == 2.0
    assert parameters(system)["known.wall.gap"] == 0.25
    assert (system.springs[0].stiffness, system.springs[0].rest) == (8.0, 0.0)
    assert system.links["arm"].length == 0.3
    assert {"free.mass", "free.a b.shape", "known.wall.gap", "links.arm.length"} <= {
        *leaf_paths(system)
    }
    assert with_leaf(system, "known.wall.gap", 3.0).known["wall"]["gap"] == 3.0
    write_tables(tmp_path / "again.toml", with_parts().tables)
    again = build_system(load(str(tmp_path / "again.toml"), (), type(system)))
    assert jnp.array_equal(again.free["a b"]["shape"], jnp.array([1.0, 2.0]))
    assert again.known["damping"] == 1.0


def test_the_default_of_an_object_is_that_of_the_field(with_parts):
    """An absent table is the field's default, None too; keys that a table leaves out are those of the default."""
    changes = "system.low.cubic=2", "system.free.new={gap = 2}"
    system, changed = build_system(with_parts()), build_system(with_parts(*changes))
    assert changed.free["new"]["gap"] == 2.0
    assert system.none is None
    assert (system.low.viscous, system.low.cubic) == (0.125, 0.0)
    assert (changed.low.viscous, changed.low.cubic) == (0.125, 2.0)
    given = build_system(with_parts("system.none.cubic=2"))
    assert (given.none.viscous, given.none.cubic) == (0.5, 2.0)


def test_a_class_may_have_fields_of_its_own_type(with_parts):
    changes = ("system.tree.next.next.length=3", "system.tree.twigs=[{}, {twigs = [{length = 2}]}]")
    tree = build_system(with_parts(*changes)).tree
    assert tree.next.next.length == 3.0
    assert tree.next.next.next is None
    assert tree.twigs[1].twigs[0].length == 2.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("system.tree.next.lenght=2", "`system.tree.next.lenght` is not a key"),
        ("system.known.dampin=2", "`system.known.dampin` is not a key of `system.known`"),
        ("system.box.widht=2", "`system.box.widht` is not a key of `system.box`"),
        ("system.known.wall=2", "`system.known.wall` is 2; it must be a table"),
        ("system.free=2", "`system.free` is 2; it must be a table, [system.free]"),
        ("system.springs.0.rest=a", '`system.springs.0.rest` is "a"; it must be a number'),
        ("system.springs=[{}]", "`system.springs.0.stiffness` is missing"),
        ("system.links.leg={}", "`system.links.leg.length` is missing"),
        ("system.links.leg=1", "`system.links.leg` is 1; it must be a table"),
        (
            "system.free.mas=3",
            "`system.free.mas` is not a key of the table in the file, which has mass, a b, name. Did you mean `mass`?",
        ),
    ],
)
def test_what_is_wrong_in_a_dictionary_is_named(with_parts, change, message):
    with pytest.raises(ScenarioError) as caught:
        with_parts(change)
    assert message in str(caught.value)
