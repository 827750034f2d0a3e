"""Every key of a scenario, with its kind, unit and default; the keys of systems are in `_system_schema`.

The tables of docs/scenarios.md are generated from this schema; a test compares them.
"""

from typing import TYPE_CHECKING

from jaxhamel.cli._scenario._ensemble_schema import (
    CLOSED_LOOP,
    ESTIMATOR,
    FEEDBACK,
    MONTECARLO,
    POLICY,
    SENSORS,
)
from jaxhamel.cli._scenario._plan_schema import METHOD as COLLOCATION
from jaxhamel.cli._scenario._plan_schema import PLANS
from jaxhamel.cli._scenario._system_schema import initial_schema, system_schema
from jaxhamel.cli._scenario._validate import Table, Variants
from jaxhamel.cli._scenario._values import (
    OMITTED,
    POSITIVE,
    Key,
    array,
    choice,
    integer,
    number,
    numbers,
    rows,
    text,
    texts,
)

if TYPE_CHECKING:
    from jaxhamel.mechanics import System

DEGREE = Key(integer(2), "degree of the spline; 5 makes accelerations smooth", 5)
LIMITS = {
    "lower": Key(
        numbers(), "lower rail limits, one for each mass; no limits when empty", [], "rad or m"
    ),
    "upper": Key(numbers(), "upper rail limits, likewise", [], "rad or m"),
}
CONTROL = Variants(
    by="curve",
    about="how the masses move along their rails",
    default="constant",
    tables={
        "constant": Table(
            {"value": Key(numbers(), "θ of every mass; zeros when empty", [], "rad or m")}
        ),
        "sine": Table(
            {
                "mean": Key(
                    numbers(), "θ₀ in θ = θ₀ + a sin(ω t + φ), one number each", unit="rad or m"
                ),
                "amplitude": Key(numbers(), "amplitude a", unit="rad or m"),
                "frequency": Key(numbers(), "angular frequency ω", unit="rad/s"),
                "phase": Key(numbers(), "phase φ", [], "rad"),
            }
        ),
        "fourier": Table(
            {
                "period": Key(POSITIVE, "period T of the first harmonic", unit="s"),
                "mean": Key(numbers(), "constant term of every mass", unit="rad or m"),
                "cosine": Key(
                    rows(),
                    "cosine amplitudes; row k: harmonic k, one number for each mass",
                    unit="rad or m",
                ),
                "sine": Key(
                    rows(),
                    "sine amplitudes; row k: harmonic k, one number for each mass",
                    unit="rad or m",
                ),
                **LIMITS,
            }
        ),
        "spline": Table(
            {
                "coefficients": Key(
                    rows(),
                    "B-spline coefficients for equally spaced knots, each row with one number for each mass",
                    unit="rad or m",
                ),
                "start": Key(number(), "time at which the spline begins", 0.0, "s"),
                "end": Key(number(), "time at which it ends", unit="s"),
                "degree": DEGREE,
                **LIMITS,
            }
        ),
        "recorded": Table(
            {
                "columns": Key(
                    texts(), "columns of a CSV file that hold the control, one for each control"
                ),
                "between": Key(
                    choice("held", "linear", "smooth"),
                    "`held`: each value holds until the next row, like a command; `linear`: samples of a continuous signal; "
                    "`smooth`: a motion, such as angles of masses on rails, as a spline of degree 5",
                ),
                "factor": Key(
                    numbers(),
                    "control for a value of 1 in the column, such as a torque constant, one for each column; 1 when empty",
                    [],
                ),
                "delay": Key(number(least=0.0), "time from a row to its effect", 0.0, "s"),
                "knots": Key(
                    POSITIVE, "number of knots of a smooth control in a second", 20.0, "1/s"
                ),
                "file": Key(
                    text(),
                    "the file, in the folder of the scenario or below; empty for `identify` and `predict`, which read the "
                    "columns in the file of each run",
                    "",
                ),
                "time": Key(text(), "column of the times in `file`", "t"),
                "time_unit": Key(choice("s", "ms", "us", "ns"), "their unit", "s"),
            }
        ),
        "stored": Table(
            {"name": Key(choice("figure-eight"), "a solution that comes with the package")}
        ),
    },
)

TIME = Table(
    {
        "start": Key(number(), "first time", 0.0, "s"),
        "end": Key(number(), "last time, after `start`", unit="s"),
        "samples": Key(integer(2), "number of output times, including both ends", 1001),
    },
    about="time span and output times",
    required=True,
)
METHODS = ("tsit5", "dopri5", "dopri8", "bosh3", "heun", "midpoint", "euler")
SOLVER = Table(
    {
        "method": Key(choice(*METHODS), "Runge–Kutta method; quaternions keep unit norm", "tsit5"),
        "rtol": Key(POSITIVE, "relative tolerance of adaptive steps", 1e-8),
        "atol": Key(POSITIVE, "absolute tolerance of adaptive steps", 1e-10),
        "dt": Key(number(least=0.0), "fixed step; 0: adaptive steps", 0.0, "s"),
        "max_steps": Key(
            integer(1), "largest number of steps; a simulation that needs more ends early", 100_000
        ),
    },
    about="numerical integration",
)


CURVE = {
    "rest": Key(
        numbers(),
        "initial guess, constant in time, one number for each control: masses at rest in an equilibrium",
        unit="rad or m",
    ),
    "coefficients": Key(integer(8), "number of spline coefficients of each control", 60),
    "degree": DEGREE,
    "harmonics": Key(
        integer(0),
        "number of harmonics of a Fourier series with period `time.end`; 0: a spline instead",
        0,
    ),
    "intervals": Key(integer(1), "number of shooting intervals for a Fourier series", 20),
    **LIMITS,
    "perturbation": Key(
        number(least=0.0),
        "size of the random change of the initial guess (see --seed); 0: none",
        0.0,
        "rad or m",
    ),
}
METHOD = {
    "steps": Key(
        integer(2), "number of integration steps between two knots of the spline, even", 6
    ),
    "cost_tolerance": Key(
        POSITIVE,
        "the search has converged when ten iterations lower the cost by less than this fraction",
        1e-3,
    ),
    "max_iterations": Key(integer(1), "iterations after which the search gives up", 400),
    "max_seconds": Key(POSITIVE, "seconds after which the search gives up", 80.0, "s"),
}
ALONG_PATH = {
    "period": Key(
        number(least=0.0), "time of one round, including the start; 0: `time.end`", 0.0, "s"
    ),
    "ramp": Key(
        number(least=0.0),
        "time in which the motion along the path reaches its full speed",
        3.0,
        "s",
    ),
    **CURVE,
    "coordinates": Key(
        texts(), "names of the two coordinates that follow the path; x and y when empty", []
    ),
    "tracking_weight": Key(
        POSITIVE, "weight of the squared distance from the path", 5e4, "1/(m² s)"
    ),
    "acceleration_weight": Key(number(least=0.0), "weight of θ̈²", 1e-6, "s³"),
    "friction_limit": Key(
        number(least=0.0), "friction coefficient of the ground, as a soft limit; 0: no limit", 0.0
    ),
    "contact_weight": Key(
        number(least=0.0),
        "weight of contact forces beyond the friction limit or below zero normal force",
        1.0,
        "1/(N² s)",
    ),
    "goal": Key(
        number(least=0.0),
        "tracking error (RMS) at which the search may stop; 0: as small as possible",
        0.0,
        "m",
    ),
    **METHOD,
}
TO_STATE = {
    "q": Key(array(None), "the configuration to reach, as in [initial]; free when absent", OMITTED),
    "u": Key(numbers(), "the quasi-velocities to reach; free when absent", OMITTED),
    "end_weight": Key(
        number(least=0.0),
        "weight of the squared distance from that state; 0: the state is reached exactly",
        0.0,
    ),
    "effort_weight": Key(POSITIVE, "weight of ½ ∫ |control|² dt", 1.0),
    "acceleration_weight": Key(
        number(least=0.0), "weight of the control's second time derivative", 0.0
    ),
    **CURVE,
    "rest": Key(numbers(), "initial guess, constant in time; zeros when empty", []),
    "coefficients": Key(integer(8), "number of spline coefficients of each control", 20),
    **METHOD,
}
TASK = Variants(
    by="path",
    about="the path that the body must follow (a ball starts from rest at the origin), or the state that it must reach",
    tables={
        "figure-eight": Table(
            {
                "width": Key(POSITIVE, "width of the figure, along x", 2.0, "m"),
                "height": Key(POSITIVE, "height of the figure, along y", 1.0, "m"),
                **ALONG_PATH,
            }
        ),
        "circle": Table({"radius": Key(POSITIVE, "radius of the circle", 0.5, "m"), **ALONG_PATH}),
        "line": Table(
            {"end": Key(numbers(2), "end point of the line", [1.0, 0.0], "m"), **ALONG_PATH}
        ),
        "to-state": Table(TO_STATE),
        **PLANS,
    },
)


ANY = Key(array(None), "generated from the class of the system")
OTHERS = {
    "title": Key(text(), "heading of the report", ""),
    "description": Key(text(), "one sentence about the scenario", ""),
    "system": ANY,
    "initial": ANY,
    "control": CONTROL,
    "time": TIME,
    "solver": SOLVER,
    "task": TASK,
    "method": COLLOCATION,
    "montecarlo": MONTECARLO,
    "feedback": FEEDBACK,
    "sensors": SENSORS,
    "estimator": ESTIMATOR,
    "policy": POLICY,
    "closed_loop": CLOSED_LOOP,
}
OUTLINE = Table(OTHERS)  # all keys of a scenario except those of its system


def scenario_schema(kind: object, given: "type[System] | None" = None) -> Table:
    """The schema of a scenario with a system of this kind or of the given class; for an unknown kind, of any system."""
    own = {"system": system_schema(given), "initial": initial_schema(kind, given)}
    return Table({**OTHERS, **own})
