"""CSV files of measurements: units, gaps, and one-line errors with file, line and column."""

import numpy as np
import pytest

from jaxhamel.identify import (
    AngularRate,
    Coordinate,
    DataError,
    Orientation,
    Positive,
    Problem,
    Run,
    read_csv,
)
from jaxhamel.identify._data._units import TO_SI, declared_unit, with_declared_units
from jaxhamel.systems import CartPole, KnifeEdge

ANGLE = Coordinate(0, name="angle", columns=("angle",))
TABLE = "t,angle,other\n0.0,0.1,a\n0.02,,b\n0.05,0.3,c\n"


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "run.csv"
        path.write_text(content, encoding="utf-8")
        return path

    return write


def refused(path, *measurements, **options):
    with pytest.raises(DataError) as caught:
        read_csv(path, measurements or [ANGLE], **options)
    message = str(caught.value)
    assert "\n" not in message
    assert "run.csv" in message or "no.csv" in message
    return message


def test_reads_what_is_measured_with_gaps_and_leaves_other_columns_alone(file):
    run = read_csv(file(TABLE), [ANGLE])
    np.testing.assert_array_equal(run.ts, [0.0, 0.02, 0.05])
    np.testing.assert_array_equal(run.values["angle"], [[0.1], [np.nan], [0.3]])
    assert run.name == "run"


def test_each_coordinate_has_a_column_of_its_own_name(file):
    arm, tip = Coordinate(0, name="arm"), Coordinate(1, name="tip")
    run = read_csv(file("t,tip,arm\n0,1,2\n0.1,3,4\n"), [arm, tip])
    np.testing.assert_array_equal(run.values["arm"], [[2.0], [4.0]])
    np.testing.assert_array_equal(run.values["tip"], [[1.0], [3.0]])
    inner, outer = AngularRate(name="inner"), AngularRate(name="outer")
    with pytest.raises(ValueError, match="'inner' and 'outer' both have the column `Omega_x`"):
        read_csv(file("t,Omega_x\n0,1\n"), [inner, outer])


def test_units_become_si_and_times_may_start_at_zero(file):
    run = read_csv(
        file("time,angle\n5000000000,90\n5020000000,-180\n5040000000,nan\n"),
        [ANGLE],
        time="time",
        units={"time": "ns", "angle": "deg"},
        from_zero=True,
    )
    np.testing.assert_allclose(run.ts, [0.0, 0.02, 0.04], atol=1e-12)
    np.testing.assert_allclose(run.values["angle"][:2, 0], [np.pi / 2, -np.pi])


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("t,angel\n0,1\n1,2\n", {}, "line 1: there is no column `angle`; the file has t, angel."),
        ("time,angle\n0,1\n1,2\n", {}, "line 1: there is no column `t`"),
        ("t,angle,angle\n0,1,1\n1,2,2\n", {}, "line 1: the column `angle` is there twice"),
        ("t,angle\n0,1\n0.1,x\n", {}, "line 3, column `angle`: 'x' is not a number."),
        ("t,angle\n0,1\n0.1,inf\n", {}, "line 3, column `angle`: 'inf' is not finite."),
        ("t,angle\n0,1\n,2\n0.2,2\n", {}, "line 3, column `t`: the value is missing"),
        (
            "t,angle\n0,1\n0.1,\n",
            {"required": ["angle"]},
            "line 3, column `angle`: the value is missing",
        ),
        (
            "t,angle\n0,1\n0.2,1\n0.1,1\n",
            {},
            "line 4, column `t`: the time 0.1 is before the one above it",
        ),
        ("t,angle\n0,1\n0.2,1\n0.2,1\n", {}, "line 4, column `t`: the time 0.2 is repeated"),
        ("t,angle\n0,1\n0.2,1,3\n0.3,1\n", {}, "line 3: it has 3 cells; the header has 2 columns."),
        ("t,angle\n0,1\n", {}, "it has 1 row of values; it needs a header and two rows"),
        (
            "t,angle\n0,1\n20000000,1\n40000000,1\n",
            {},
            'read in s, the times are 2e+07 s apart, which cannot be right. Give the unit of the column, such as "ns".',
        ),
        (
            "t,angle\n0,1\n0.1,90\n",
            {},
            "line 3, column `angle`: 90 rad, read in rad, is beyond 12.5664",
        ),
        (
            "t,angle\n0,1\n0.1,1\n",
            {"units": {"angle": "grad"}},
            "`angle` is given as 'grad'; it must be one of",
        ),
        ("t,angle\n0,\n0.1,\n", {}, "every value is NaN"),
    ],
)
def test_bad_files_get_one_line(file, content, options, message):
    assert message in refused(file(content), **options)


def test_file_that_is_not_there(tmp_path):
    assert "the file cannot be read (No such file or directory)" in refused(tmp_path / "no.csv")


def test_quaternions_are_unit_and_whole(file):
    whole = "t,qw,qx,qy,qz\n0,1,0,0,0\n0.1,1,0.5,0,0\n"
    assert "line 3, columns qw, qx, qy, qz: the norm is 1.118" in refused(
        file(whole), Orientation()
    )
    part = "t,qw,qx,qy\n0,1,0,0\n0.1,1,0,0\n"
    assert "there is no column `qz`" in refused(file(part), Orientation())


def test_rates_in_degrees_are_noticed(file):
    table = "t,Omega_x,Omega_y,Omega_z\n0,0,0,0\n0.1,0,250,0\n"
    message = refused(file(table), AngularRate())
    assert "column `Omega_y`: 250 rad/s, read in rad/s, is beyond 100" in message
    assert '("deg/s"?)' in message
    units = {f"Omega_{axis}": "deg/s" for axis in "xyz"}
    run = read_csv(file(table), [AngularRate()], units=units)
    assert run.values["angular_rate"][1, 1] == pytest.approx(np.deg2rad(250))


@pytest.mark.parametrize("cell", ["1_0", "١", "１", "0x10", "1e5_0"])
def test_numbers_are_those_that_everyone_writes(cell, file):
    """Notations of numbers that other programs do not write are refused, although Python's `float` accepts most of
    them."""
    said = refused(file(f"t,angle\n0,1\n0.1,{cell}\n0.2,3\n"))
    assert f"line 3, column `angle`: '{cell}' is not a number" in said


def test_every_unit():
    """Each unit has its defined factor: an hour has 60 minutes, a turn 360 degrees, the standard gravity is 9.80665
    m/s²."""
    turn = 2 * np.pi
    wanted = {
        "s": 1,
        "ms": 1e-3,
        "us": 1e-6,
        "µs": 1e-6,
        "ns": 1e-9,
        "min": 60,
        "m": 1,
        "cm": 0.01,
        "mm": 0.001,
    }
    wanted |= {
        "rad": 1,
        "mrad": 1e-3,
        "deg": turn / 360,
        "turn": turn,
        "rad/s": 1,
        "deg/s": turn / 360,
    }
    wanted |= {
        "rpm": turn / 60,
        "m/s": 1,
        "m/s²": 1,
        "m/s^2": 1,
        "g": 9.80665,
        "N": 1,
        "N m": 1,
        "": 1,
    }
    assert wanted.keys() == TO_SI.keys()
    for unit, factor in TO_SI.items():
        assert factor == pytest.approx(wanted[unit], rel=1e-15), unit


def test_messages_stay_short_whatever_the_file_has(file):
    wide = ",".join(f"column{i}" for i in range(9_000))
    said = [
        refused(file(f"{wide}\n{wide}\n{wide}\n")),
        refused(file(f"t,angle\n0,1\n0.1,{100_000 * 'x'}\n0.2,3\n")),
        refused(file(f"t,angle\n0,1\n0.1,1{400 * '0'}\n0.2,3\n")),
    ]
    assert "column29, ... (9,000 in all)." in said[0]
    assert "x...' is not a number" in said[1]
    assert "0...' is not finite" in said[2]
    assert max(map(len, said)) < 900


def test_a_unit_of_another_quantity_is_refused(file):
    """Degrees for a rate would be taken as radians per second without a word."""
    table = "t,Omega_x,Omega_y,Omega_z\n0,1,2,3\n0.1,1,2,3\n"
    message = refused(file(table), AngularRate(), units={"Omega_y": "deg"})
    assert message.endswith("given as 'deg'; it must be one of 'rad/s', 'deg/s', 'rpm'.")
    assert "must be one of 's', 'ms'" in refused(file(TABLE), units={"t": "mm"})


def test_the_limit_of_a_coordinate_is_that_of_its_unit(file):
    """A wheel at 20 rad/s and a cart at 20 m are plausible, an angle of 20 rad is not."""
    table = file("t,x\n0,1\n0.1,20\n")
    for other in (Coordinate(0, name="x", rate=True), Coordinate(0, name="x", unit="m")):
        np.testing.assert_array_equal(read_csv(table, [other]).values["x"], [[1.0], [20.0]])
    assert "beyond 12.5664" in refused(table, Coordinate(0, name="x"))
    assert Coordinate(0, rate=True).unit == "rad/s"
    assert Coordinate(0, limit=2.0).limit == 2.0


def test_units_that_a_class_declares():
    """The cart of the cart-pole is measured in m and its pole in rad, by default too; a file or a problem in the other
    unit is refused. An SE2 pose has the units rad, m, m without a declaration."""
    cart_pole = CartPole(1.0, 0.3, 0.5)
    cart, pole = Coordinate(0, name="cart"), Coordinate(1, name="pole")
    found = with_declared_units(cart_pole, [cart, pole, Coordinate(0, rate=True)])
    assert [m.unit for m in found] == ["m", "rad", "m/s"]
    assert found[0].limit == 1e3
    for wrong in (Coordinate(1, name="pole", unit="m"), Coordinate(0, name="cart", unit="rad")):
        with pytest.raises(ValueError, match=f"'{wrong.name}'.*{wrong.unit!r}.*CartPole declares"):
            with_declared_units(cart_pole, [wrong])
    assert [declared_unit(KnifeEdge(1.0, 1.0, 0.0), Coordinate(i)) for i in range(4)] == [
        "rad",
        "m",
        "m",
        "",
    ]
    run = Run(np.linspace(0.0, 1.0, 5), {"cart": np.zeros((5, 1))}, None)
    with pytest.raises(ValueError, match="correct `state_names`"):
        Problem(cart_pole, [Positive("pole_mass")], [Coordinate(0, name="cart", unit="rad")], [run])
