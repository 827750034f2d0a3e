"""Every key of a scenario, with its kind, unit and default; those of systems are in `_system_schema`.

docs/scenarios.md is made from these tables, and a test holds the two together.
"""

from jaxhamel.cli._scenario._system_schema import INITIAL, POSITIVE, SYSTEM
from jaxhamel.cli._scenario._validate import Table, Tables, Variants
from jaxhamel.cli._scenario._values import (
    Key,
    boolean,
    choice,
    integer,
    number,
    numbers,
    rows,
    text,
)

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


SEARCH = {
    "period": Key(
        number(least=0.0), "time of one round, start included; 0 takes `time.end`", 0.0, "s"
    ),
    "ramp": Key(number(least=0.0), "time in which the path gains its speed", 3.0, "s"),
    "rest": Key(numbers(), "where the masses start, at rest; an equilibrium", unit="rad or m"),
    "coefficients": Key(integer(8), "spline coefficients of each mass", 60),
    "degree": DEGREE,
    **LIMITS,
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
    "perturbation": Key(
        number(least=0.0), "random change of the start, by --seed; 0: none", 0.0, "rad or m"
    ),
    "steps": Key(integer(2), "integration steps between two knots of the spline, even", 6),
    "cost_tolerance": Key(
        POSITIVE, "solved when ten iterations lower the cost by less than this share", 1e-3
    ),
    "goal": Key(
        number(least=0.0), "tracking error (RMS) that is enough; 0: as low as it goes", 0.0, "m"
    ),
    "max_iterations": Key(integer(1), "iterations after which the search gives up", 400),
    "max_seconds": Key(POSITIVE, "seconds after which the search gives up", 80.0, "s"),
}
TASK = Variants(
    by="path",
    about="the path that the ball shall roll along, from rest at the origin",
    tables={
        "figure-eight": Table(
            {
                "width": Key(POSITIVE, "of the figure along x", 2.0, "m"),
                "height": Key(POSITIVE, "of the figure along y", 1.0, "m"),
                **SEARCH,
            }
        ),
        "circle": Table({"radius": Key(POSITIVE, "of the path", 0.5, "m"), **SEARCH}),
        "line": Table({"end": Key(numbers(2), "where it leads", [1.0, 0.0], "m"), **SEARCH}),
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


def scenario_schema(kind: object) -> Table:
    """The schema of a scenario with a system of this kind; of any kind when none is like that."""
    start = INITIAL.get(kind) if isinstance(kind, str) else None
    anything = {name: key for table in INITIAL.values() for name, key in table.entries.items()}
    return Table(
        {
            "title": Key(text(), "heading of the report", ""),
            "description": Key(text(), "one sentence about the scenario", ""),
            "system": SYSTEM,
            "initial": start or Table(anything),
            "control": CONTROL,
            "time": TIME,
            "solver": SOLVER,
            "task": TASK,
            "montecarlo": MONTECARLO,
        }
    )
