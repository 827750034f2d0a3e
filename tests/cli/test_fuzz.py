"""Random documents and options are accepted, or refused in one line; no other error occurs."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jaxhamel.cli
from jaxhamel.cli._objects._build import (
    build_control,
    build_initial,
    build_system,
    build_times,
    solver_options,
)
from jaxhamel.cli._objects._identification import (
    build_identified_system,
    build_measurements,
    build_parameters,
    units_of,
)
from jaxhamel.cli._objects._priors import prediction_priors
from jaxhamel.cli._results._solution import write_tables
from jaxhamel.cli._scenario import _sizes
from jaxhamel.cli._scenario._ensemble_schema import CLOSED_LOOP, FEEDBACK, SENSORS
from jaxhamel.cli._scenario._plan_schema import BUILT_IN, METHOD
from jaxhamel.cli._scenario._scenario import built_in, load, load_identification
from jaxhamel.cli._scenario._validate import ScenarioError

FOLDER = Path(jaxhamel.cli.__file__).parent / "scenarios"
DOCUMENTS = {name: (FOLDER / f"{name}.toml").read_text("utf-8") for name in built_in()}
FEW = ["suslov", "free-rigid-body", "ball-inertia"]  # scenarios that are quick to build


def keys_of(table, path=""):
    """Yields each dotted key of a document, a table's own key before its entries."""
    pairs = table.items() if isinstance(table, dict) else enumerate(table)
    for key, value in pairs:
        yield f"{path}{key}"
        if isinstance(value, dict | list):
            yield from keys_of(value, f"{path}{key}.")


TABLES = {
    "method": [f"method.{key}" for key in METHOD.entries],
    "feedback": [f"feedback.{key}" for key in FEEDBACK.tables["tvlqr"].entries],
    "sensors": [f"sensors.{key}" for key in SENSORS.entries],
    "closed_loop": [f"closed_loop.{key}" for key in CLOSED_LOOP.entries],
}


def keys_in(text):
    """The keys of a document and of solvers, and for a task those of the tables that may accompany it."""
    document = tomllib.loads(text)
    path = document.get("task", {}).get("path")
    names = ["method"] if path in BUILT_IN else ["feedback", "sensors", "closed_loop"]
    more = [key for name in names if path for key in TABLES[name]]
    return [*keys_of(document), *more, "solver.dt", "solver.rtol", "fit.dt", "fit.starts"]


KEYS = {name: keys_in(text) for name, text in DOCUMENTS.items()}
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.floats(),
    st.sampled_from([1e300, 1e308, 1e-300, 5e-324, 2**31, 2**53, 2**63, 1e12, 10**400, -(10**309)]),
)
VALUES = st.recursive(
    st.one_of(NUMBERS, st.booleans(), st.text(max_size=8), st.sampled_from(["nan", "$\\frac{$"])),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.lists(NUMBERS, min_size=2, max_size=4)),
    max_leaves=6,
)


def toml(value):
    """The value in TOML's notation, approximately."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return repr(value) if not isinstance(value, float) else str(value)


@st.composite
def changed(draw, names):
    """A scenario and one to three --set options for it, most of which name an existing key."""
    name = draw(st.sampled_from(names))
    known = st.sampled_from(KEYS[name])
    near = st.builds(lambda key, more: key + more, known, st.sampled_from([".0", ".T", "x", "."]))
    anything = st.text(max_size=12)
    key = st.one_of(known, known, known, near, anything)
    value = st.one_of(VALUES.map(toml), VALUES.map(toml), st.text(max_size=12))
    options = draw(st.lists(st.tuples(key, value), min_size=1, max_size=3))
    return name, [f"{key}={value}" for key, value in options]


@st.composite
def mangled(draw):
    """The text of a scenario with random pieces removed or replaced."""
    text = DOCUMENTS[draw(st.sampled_from(sorted(DOCUMENTS)))]
    for _ in range(draw(st.integers(1, 4))):
        start, length = draw(st.integers(0, len(text))), draw(st.integers(0, 12))
        other = draw(st.one_of(st.just(""), st.text(max_size=6), VALUES.map(toml)))
        text = text[:start] + other + text[start + length :]
    return text


def one_line(read):
    """The value read, or None if it was refused in one line of moderate length."""
    try:
        return read()
    except ScenarioError as error:
        said = str(error)
    assert "\n" not in said
    assert 10 < len(said) < 1200
    return None


def loaded(source, options=()):
    identify = source in FEW[2:] or any(name in source for name in ("ball-inertia", "roboball"))
    return one_line(lambda: (load_identification if identify else load)(source, options))


@settings(max_examples=400)
@given(changed(sorted(DOCUMENTS)))
def test_options(case):
    """An accepted scenario has a computable size, or is refused for its size."""
    scenario = loaded(*case)
    if scenario is None:
        return
    if "measurements" in scenario.tables:
        one_line(lambda: _sizes.check_identification_size(scenario.tables, True))
    else:
        one_line(lambda: _sizes.check_control_size(scenario.tables))
        one_line(lambda: _sizes.check_montecarlo_size(scenario.tables))


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=mangled())
def test_documents(text, tmp_path):
    path = tmp_path / "ball.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    for read in (load, load_identification):
        one_line(lambda read=read: read(str(path)))


@settings(max_examples=150)
@given(case=changed(FEW))
def test_objects(case):
    """An accepted scenario of moderate size gives objects, or is refused in one line."""
    scenario = loaded(*case)
    if scenario is None:
        return
    if "measurements" in scenario.tables:
        if one_line(lambda: (_sizes.check_identification_size(scenario.tables, True), 1)) is None:
            return
        system = one_line(lambda: build_identified_system(scenario))
        if system is None:
            return
        measurements = one_line(lambda: build_measurements(scenario, system))
        if measurements is not None:
            units_of(scenario, measurements)
        one_line(lambda: build_parameters(scenario))
        one_line(lambda: prediction_priors(scenario))
        return
    if one_line(lambda: (_sizes.check_simulation_size(scenario.tables), 1)) is None:
        return
    system = one_line(lambda: build_system(scenario))
    one_line(lambda: build_initial(scenario))
    ts = one_line(lambda: build_times(scenario))
    one_line(lambda: solver_options(scenario))
    if system is not None:
        one_line(lambda: build_control(scenario, system))
    if ts is not None:
        assert np.all(np.isfinite(ts))
        assert np.all(np.diff(ts) > 0)


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_every_scenario_is_read_again_as_it_was_written(name, tmp_path):
    scenario = loaded(name)
    assert scenario is not None
    tables = {key: table for key, table in scenario.tables.items() if table is not None}
    tables.get("truth", {}).clear()
    write_tables(tmp_path / f"{name}.toml", tables)
    again = loaded(str(tmp_path / f"{name}.toml"))
    assert again is not None
    assert again["system"] == scenario["system"]
