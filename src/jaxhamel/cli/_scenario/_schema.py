"""Every key of a scenario, with its kind, unit and default; those of systems are in `_system_schema`.

docs/scenarios.md is made from these tables, and a test holds the two together.
"""

from typing import TYPE_CHECKING

from jaxhamel.cli._scenario._system_schema import POSITIVE, class_of, initial_schema, system_schema
from jaxhamel.cli._scenario._validate import Table, Tables, Variants
from jaxhamel.cli._scenario._values import (
    OMITTED,
    Key,
    array,
    boolean,
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

DEGREE = Key(integer(2), "of the spline's polynomials; 5 makes accelerations smooth", 5)
LIMITS = {
    "lower": Key(
        numbers(), "lower rail limits, one for each mass; none when empty", [], "rad or m"
    ),
    "upper": Key(numbers(), "upper rail limits", [], "rad or m"),
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
                "amplitude": Key(numbers(), "a", unit="rad or m"),
                "frequency": Key(numbers(), "ω", unit="rad/s"),
                "phase": Key(numbers(), "φ", [], "rad"),
            }
        ),
        "fourier": Table(
            {
                "period": Key(POSITIVE, "T of the first harmonic", unit="s"),
                "mean": Key(numbers(), "constant term of every mass", unit="rad or m"),
                "cosine": Key(rows(), "row k: of harmonic k, for every mass", unit="rad or m"),
                "sine": Key(rows(), "row k: of harmonic k, for every mass", unit="rad or m"),
                **LIMITS,
            }
        ),
        "spline": Table(
            {
                "coefficients": Key(
                    rows(),
                    "B-spline coefficients at equal spacing, a row for all masses",
                    unit="rad or m",
                ),
                "start": Key(number(), "where the spline begins", 0.0, "s"),
                "end": Key(number(), "where it ends", unit="s"),
                "degree": DEGREE,
                **LIMITS,
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
        "samples": Key(integer(2), "number of times that are written, both ends among them", 1001),
    },
    about="when",
    required=True,
)
METHODS = ("tsit5", "dopri5", "dopri8", "bosh3", "heun", "midpoint", "euler")
SOLVER = Table(
    {
        "method": Key(choice(*METHODS), "Runge–Kutta method; quaternions are kept unit", "tsit5"),
        "rtol": Key(POSITIVE, "relative tolerance of adaptive steps", 1e-8),
        "atol": Key(POSITIVE, "absolute tolerance of adaptive steps", 1e-10),
        "dt": Key(number(least=0.0), "fixed step; 0 takes adaptive steps", 0.0, "s"),
        "max_steps": Key(integer(1), "a simulation that needs more ends early", 100_000),
    },
    about="how the equations are integrated",
)


CURVE = {
    "rest": Key(
        numbers(),
        "the control where the search starts, one number each: masses at rest in an equilibrium",
        unit="rad or m",
    ),
    "coefficients": Key(integer(8), "spline coefficients of each control", 60),
    "degree": DEGREE,
    "harmonics": Key(integer(0), "of a Fourier series of period `time.end`; 0: a spline", 0),
    "intervals": Key(integer(1), "of the search, with a Fourier series", 20),
    **LIMITS,
    "perturbation": Key(
        number(least=0.0), "random change of the start, by --seed; 0: none", 0.0, "rad or m"
    ),
}
METHOD = {
    "steps": Key(integer(2), "integration steps between two knots of the spline, even", 6),
    "cost_tolerance": Key(
        POSITIVE, "solved when ten iterations lower the cost by less than this share", 1e-3
    ),
    "max_iterations": Key(integer(1), "iterations after which the search gives up", 400),
    "max_seconds": Key(POSITIVE, "seconds after which the search gives up", 80.0, "s"),
}
ALONG_PATH = {
    "period": Key(
        number(least=0.0), "time of one round, start included; 0 takes `time.end`", 0.0, "s"
    ),
    "ramp": Key(number(least=0.0), "time in which the path gains its speed", 3.0, "s"),
    **CURVE,
    "coordinates": Key(
        texts(), "columns of the two coordinates that follow the path; x and y when empty", []
    ),
    "tracking_weight": Key(
        POSITIVE, "weight of the squared distance from the path", 5e4, "1/(m² s)"
    ),
    "acceleration_weight": Key(number(least=0.0), "weight of θ̈²", 1e-6, "s³"),
    "friction_limit": Key(
        number(least=0.0), "friction coefficient of the ground, a soft limit; 0: none", 0.0
    ),
    "contact_weight": Key(
        number(least=0.0),
        "weight of friction and normal force beyond their limits",
        1.0,
        "1/(N² s)",
    ),
    "goal": Key(
        number(least=0.0), "tracking error (RMS) that is enough; 0: as low as it goes", 0.0, "m"
    ),
    **METHOD,
}
TO_STATE = {
    "q": Key(array(None), "the configuration to reach, as in [initial]; any when absent", OMITTED),
    "u": Key(numbers(), "the quasi-velocities to reach; any when absent", OMITTED),
    "end_weight": Key(
        number(least=0.0), "weight of the squared distance from that state; 0: reached exactly", 0.0
    ),
    "effort_weight": Key(POSITIVE, "weight of ½ ∫ |control|² dt", 1.0),
    "acceleration_weight": Key(number(least=0.0), "weight of the control's second rate", 0.0),
    **CURVE,
    "rest": Key(numbers(), "the control where the search starts; zeros when empty", []),
    "coefficients": Key(integer(8), "spline coefficients of each control", 20),
    **METHOD,
}
TASK = Variants(
    by="path",
    about="the path that the body shall follow, a ball from rest at the origin, or the state to reach",
    tables={
        "figure-eight": Table(
            {
                "width": Key(POSITIVE, "of the figure along x", 2.0, "m"),
                "height": Key(POSITIVE, "of the figure along y", 1.0, "m"),
                **ALONG_PATH,
            }
        ),
        "circle": Table({"radius": Key(POSITIVE, "of the path", 0.5, "m"), **ALONG_PATH}),
        "line": Table({"end": Key(numbers(2), "where it leads", [1.0, 0.0], "m"), **ALONG_PATH}),
        "to-state": Table(TO_STATE),
    },
)

WHAT_SPREADS = Key(
    text(),
    "`system.<parameter>` (dotted), `initial.q` (a body increment of the configuration), "
    "`initial.u`, `control.offset`, `control.scale` or `control.delay`",
)
SPREAD = Tables(
    Variants(
        by="distribution",
        about="how it is distributed about the scenario's value, each entry for itself",
        default="normal",
        tables={
            "normal": Table(
                {
                    "key": WHAT_SPREADS,
                    "std": Key(POSITIVE, "standard deviation", unit="as the key"),
                    "relative": Key(boolean(), "whether `std` is a share of the value", False),
                }
            ),
            "uniform": Table(
                {
                    "key": WHAT_SPREADS,
                    "half_width": Key(POSITIVE, "largest deviation", unit="as the key"),
                    "relative": Key(boolean(), "whether it is a share of the value", False),
                }
            ),
            "lognormal": Table(
                {
                    "key": WHAT_SPREADS,
                    "sigma": Key(POSITIVE, "standard deviation of the logarithm"),
                }
            ),
        },
    ),
    about="what differs from trajectory to trajectory",
)
MONTECARLO = Table(
    {
        "trajectories": Key(integer(1), "how many, where --trajectories does not say", 1000),
        "sampler": Key(
            choice("random", "latin-hypercube", "sobol"), "how they are drawn", "random"
        ),
        "dt": Key(POSITIVE, "fixed step of the classical Runge–Kutta method", 0.01, "s"),
        "rtol": Key(
            number(least=0.0),
            "relative tolerance of steps that each trajectory chooses for itself, instead of `dt`; 0 takes `dt`",
            0.0,
        ),
        "atol": Key(POSITIVE, "absolute tolerance of these steps", 1e-10),
        "samples": Key(integer(2), "times at which each trajectory is looked at", 101),
        "friction_limit": Key(number(least=0.0), "friction coefficient of the ground; 0: any", 0.0),
        "spread": SPREAD,
    },
    about="for `montecarlo`: what differs from trajectory to trajectory",
)


ANY = Key(array(None), "made from the class of the system")
OTHERS = {
    "title": Key(text(), "heading of the report", ""),
    "description": Key(text(), "one sentence about the scenario", ""),
    "system": ANY,
    "initial": ANY,
    "control": CONTROL,
    "time": TIME,
    "solver": SOLVER,
    "task": TASK,
    "montecarlo": MONTECARLO,
}
OUTLINE = Table(OTHERS)  # the keys of a scenario but for those of its system


def scenario_schema(kind: object, given: "type[System] | None" = None) -> Table:
    """The schema of a scenario with a system of this kind, of any kind when none is like that; or of a class given."""
    start = initial_schema(class_of(kind, given))
    return Table({**OTHERS, "system": system_schema(given), "initial": start})
