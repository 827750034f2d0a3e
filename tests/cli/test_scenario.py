"""Scenarios: messages about bad ones, `--set`, defaults, and the built-in ones."""

import pytest

from jaxhamel.cli._scenario._scenario import built_in, load, load_identification
from jaxhamel.cli._scenario._validate import ScenarioError

TOP = """
[system]
kind = "heavy-top"
mass = 15.0
inertia = [15.2, 0.5, 15.2]
com = [0.0, 1.0, 0.0]
[time]
end = 1.0
"""


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "mine.toml"
        path.write_text(content, encoding="utf-8")
        return str(path)

    return write


def refused(source, *changes):
    with pytest.raises(ScenarioError) as caught:
        load(source, changes)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_defaults_are_filled_in(file):
    scenario = load(file(TOP))
    assert scenario["system"]["gravity"] == 9.81
    assert scenario["initial"] == {"orientation": [1, 0, 0, 0], "omega": [0, 0, 0]}
    assert scenario["time"] == {"start": 0.0, "end": 1.0, "samples": 1001}
    assert scenario["control"] == {"curve": "constant", "value": []}
    assert scenario["task"] is None
    assert scenario.title == scenario.name == "mine"


@pytest.mark.parametrize("name", built_in())
def test_built_in_scenarios_are_good_and_say_what_they_are(name):
    about = built_in()[name]
    assert 20 < len(about.description) < 100
    assert "\n" not in about.description
    read = load_identification if "identify" in about.commands else load
    assert read(name)["description"] == about.description


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "system.mas=3",
            '`system.mas` is not a key of `system` of a "heavy-top" (it is 3). '
            "Did you mean `mass`? Accepted keys: kind, mass, inertia, com, gravity.",
        ),
        (
            "system.radius=3",
            '`system.radius` is not a key of `system` of a "heavy-top" (it is 3). '
            "Accepted keys: kind, mass, inertia, com, gravity.",
        ),
        ("tim.end=3", "`tim` is not a key of a scenario (it is a table). Did you mean `time`?"),
        ("initial.position=[0,0]", "`initial.position` is not a key of `initial`"),
        ("control.cuve='sine'", "Did you mean `curve`?"),
    ],
)
def test_unknown_keys_are_named_with_what_is_accepted(file, change, message):
    assert refused(file(TOP), change).startswith(message) or message in refused(file(TOP), change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("system.mass=-1", "`system.mass` is -1; it must be a number larger than 0 (kg): mass."),
        ("system.mass=heavy", '`system.mass` is "heavy"; it must be a number larger than 0 (kg)'),
        ("system.mass=true", "`system.mass` is true; it must be a number"),
        ("system.mass=nan", "`system.mass` is nan; it must be a number"),
        ("system.com=[0,1]", "`system.com` is [0, 1]; it must be a list of 3 numbers (m)"),
        ("system.inertia=[[1,0],[0,1]]", "it must be a list of 3 numbers, or a list of lists of 3"),
        (
            "system.kind=heavy-tap",
            '`system.kind` is "heavy-tap"; it must be one of "rolling-ball",',
        ),
        ("time.samples=1", "`time.samples` is 1; it must be a whole number of 2 or more"),
        ("time.samples=10.5", "`time.samples` is 10.5; it must be a whole number of 2 or more"),
        ("time=3", "`time` is 3; it must be a table, [time]."),
        ("system.rails=3", "`system.rails` is not a key"),
        ("solver.method=rk4", '`solver.method` is "rk4"; it must be one of "tsit5"'),
        ("title=3", "`title` is 3; it must be a string"),
    ],
)
def test_values_that_are_not_accepted(file, change, message):
    assert message in refused(file(TOP), change)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("mass", "`system.mass` is missing; it must be a number larger than 0 (kg): mass."),
        ("end", "`time.end` is missing; it must be a number (s): last time, after `start`."),
        ("kind", '`system.kind` is missing; it must be one of "rolling-ball"'),
    ],
)
def test_missing_keys(file, missing, message):
    lines = [line for line in TOP.splitlines() if not line.startswith(missing)]
    assert message in refused(file("\n".join(lines)))


def test_missing_tables(file):
    assert refused(file(TOP.replace("[time]\nend = 1.0", ""))) == (
        "`time` is missing; a scenario needs a table [time]: time span and output times."
    )
    assert refused(file("[time]\nend = 1")).startswith("`system` is missing")


def test_unknown_keys_are_reported_before_missing_and_wrong_ones(file):
    content = TOP.replace("mass = 15.0", "").replace("end = 1.0", "end = 'soon'\nnow = 3")
    assert "`time.now` is not a key" in refused(file(content))


def test_an_unknown_kind_is_reported_before_the_keys_of_its_table(file):
    content = TOP.replace('"heavy-top"', '"heavy-tap"').replace("mass = 15.0", "nonsense = 3")
    assert '`system.kind` is "heavy-tap"; it must be one of "rolling-ball"' in refused(
        file(content)
    )
    rails = "system.rails.1.kind=gimbal", "system.rails.1.radios=3"
    assert '`system.rails.1.kind` is "gimbal"; it must be one of' in refused(
        "reference-ball", *rails
    )


def test_array_of_tables(file):
    content = TOP.replace("heavy-top", "rolling-ball") + "[system.rails]\nkind = 'circular'\n"
    content = content.replace("mass = 15.0", "").replace("inertia = [15.2, 0.5, 15.2]", "")
    message = refused(file(content.replace("com = [0.0, 1.0, 0.0]", "")))
    assert message == "`system.rails` is a table; it must be an array of tables, [[system.rails]]."


def test_entries_of_an_array_are_named_by_their_number():
    assert '`system.rails.1.radios` is not a key of `system.rails.1` of a "circular"' in refused(
        "reference-ball", "system.rails.1.radios=3"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("time.end", "--set time.end: it must be key=value with a dotted key"),
        ("time..end=3", "it must be key=value with a dotted key"),
        ("time.end.of=3", "--set time.end.of=3: `end` is a value, not a table; it has no keys."),
        ("system.com.7=3", "--set system.com.7=3: `7` must be the number of an entry, 0 to 2."),
    ],
)
def test_changes_that_cannot_be_made(file, change, message):
    assert message in refused(file(TOP), change)


def test_changes_are_read_as_toml_and_bare_words_as_strings(file):
    changes = ["time.end=2", "system.com.1=0.5", "solver.method=dopri8", 'title="A = b"']
    scenario = load(file(TOP), changes)
    assert scenario["time"]["end"] == 2.0
    assert scenario["system"]["com"] == [0.0, 0.5, 0.0]
    assert scenario["solver"]["method"] == "dopri8"
    assert scenario.title == "A = b"


def test_change_may_start_a_table(file):
    assert load(file(TOP), ["solver.rtol=1e-6"])["solver"]["rtol"] == 1e-6


def test_scenario_that_does_not_exist(tmp_path):
    message = refused("heavy-tap")
    assert message.startswith("there is no such scenario. Did you mean `heavy-top`?")
    assert "suslov" in message
    assert "ball-inertia" not in message  # a scenario of another command
    with pytest.raises(ScenarioError, match="Give a TOML file or one of ball-inertia, roboball"):
        load_identification("no-such-thing")
    assert refused(str(tmp_path / "no.toml")) == (
        "the file cannot be read (No such file or directory)."
    )


def test_file_that_is_not_toml(file):
    assert refused(file("[system")).startswith("not valid TOML:")
