"""The keys of a scenario for many trajectories: `[montecarlo]`, and the closed loop of `control`."""

from jaxhamel.cli._scenario._validate import OpenTable, Table, Tables, Variants
from jaxhamel.cli._scenario._values import (
    OMITTED,
    POSITIVE,
    Key,
    array,
    boolean,
    bounds,
    choice,
    integer,
    number,
    numbers,
    rows,
    text,
)

WHAT_SPREADS = Key(
    text(),
    "`system.<parameter>` (dotted), `initial.q` (a body increment of the configuration), "
    "`initial.u`, `control.offset`, `control.scale` or `control.delay`; or one entry of these, such as "
    "`initial.u.0`",
)
SPREAD = Tables(
    Variants(
        by="distribution",
        about="distribution about the scenario's value; the entries of an array are independent",
        default="normal",
        tables={
            "normal": Table(
                {
                    "key": WHAT_SPREADS,
                    "std": Key(POSITIVE, "standard deviation", unit="as the key"),
                    "relative": Key(boolean(), "whether `std` is relative to the value", False),
                }
            ),
            "uniform": Table(
                {
                    "key": WHAT_SPREADS,
                    "half_width": Key(POSITIVE, "largest deviation", unit="as the key"),
                    "relative": Key(
                        boolean(), "whether `half_width` is relative to the value", False
                    ),
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
    about="the values that differ from trajectory to trajectory",
)
MONTECARLO = Table(
    {
        "trajectories": Key(
            integer(1), "number of trajectories, if --trajectories is not given", 1000
        ),
        "sampler": Key(choice("random", "latin-hypercube", "sobol"), "sampling method", "random"),
        "dt": Key(POSITIVE, "fixed step of the classical Runge–Kutta method", 0.01, "s"),
        "rtol": Key(
            number(least=0.0),
            "relative tolerance of adaptive steps, chosen for each trajectory; 0: fixed steps `dt`",
            0.0,
        ),
        "atol": Key(POSITIVE, "absolute tolerance of adaptive steps", 1e-10),
        "samples": Key(integer(2), "number of times at which each trajectory is evaluated", 101),
        "friction_limit": Key(
            number(least=0.0), "friction coefficient of the ground; 0: no limit", 0.0
        ),
        "spread": SPREAD,
    },
    about="settings of `montecarlo`",
)

FIELD = Key(array(None), "a field of the class")
STATE_FEEDBACK = {
    "gains": Table(
        {
            "gains": Key(
                rows(),
                "K in c = c₀(t) − K δ, one row for each control; δ is the deviation of the configuration (in exponential "
                "coordinates), then of the quasi-velocities; c₀ is the curve of [control]",
            ),
            "q": Key(
                array(None),
                "the configuration that is held, as in [initial]; the system's own initial one when absent",
                OMITTED,
            ),
            "u": Key(numbers(), "the quasi-velocities that are held, likewise", OMITTED),
            "limit": Key(number(least=0.0), "largest absolute value of a command; 0: none", 0.0),
        }
    ),
    "law": Table(
        {
            "law": Key(
                text(),
                "the name of a class in the file of --system, whose objects are called with (t, q, u) and give the control; "
                "the values of its fields stand in [feedback.fields]",
            ),
            "fields": OpenTable(
                FIELD, about="the values of the class's fields, by their names", keys_checked=True
            ),
        }
    ),
}
FEEDBACK = Variants(
    by="kind",
    about="a controller: gains, or a law of the user's file, in continuous time, for `simulate`, `montecarlo`, `identify` "
    "and `predict`; a regulator about the plan (tvlqr) for `control`; without this table the loop is not closed",
    tables={
        **STATE_FEEDBACK,
        "tvlqr": Table(
            {
                "period": Key(POSITIVE, "sampling period", 0.01, "s"),
                "delay": Key(
                    number(least=0.0),
                    "time from a sample until its command acts, a multiple of `period`",
                    0.0,
                    "s",
                ),
                "predict": Key(
                    boolean(),
                    "whether the law is given the state at the end of the delay, predicted by the planned system",
                    False,
                ),
                "state_weights": Key(
                    numbers(),
                    "weights of the squared errors of the state: configuration, then velocities; if the control moves "
                    "masses, their positions follow the configuration and their rates come last; when empty 1/size² with "
                    "the sizes of the planned motion (Bryson's rule, see jaxhamel.control.regulate)",
                    [],
                ),
                "control_weights": Key(
                    numbers(),
                    "weights of the squared corrections of the control; if the control moves masses, of their "
                    "accelerations; when empty 1/size² with its largest distances from its mean in the plan",
                    [],
                ),
                "limit": Key(
                    number(least=0.0), "largest absolute value of a command; 0: none", 0.0
                ),
            }
        ),
    },
)
SENSORS = Table(
    {
        "noise": Key(
            numbers(),
            "standard deviation of the noise in each sample, one number for each entry of the state, in the order of "
            "`feedback.state_weights`; none when empty",
            [],
        ),
        "bias": Key(
            numbers(),
            "standard deviation of each robot's constant error, in the same order; none when empty",
            [],
        ),
        "resolution": Key(
            numbers(),
            "step to which measured values are rounded, in the same order; 0: no rounding",
            [],
        ),
    },
    about="errors of the state that the controller sees; without this table it sees the state itself",
    stays_absent=True,
)
ESTIMATED = {
    "start": Key(
        numbers(),
        "standard deviation of the initial state about the plan's, in the same order; that of the noise when empty",
        [],
    ),
    "drift": Key(
        numbers(),
        "standard deviation of the model's error after one second, in the same order; that of the noise when empty",
        [],
    ),
    "iterations": Key(integer(1), "Gauss–Newton steps in each sample", 1),
}
ESTIMATOR = Variants(
    by="kind",
    about="an estimate of the state from the sensors, with the planned system as model; without this table the controller "
    "receives the measured values",
    tables={
        "kalman": Table(ESTIMATED),
        "moving-horizon": Table(
            {
                **ESTIMATED,
                "window": Key(integer(1), "number of samples that are fitted at once", 10),
                "lower": Key(
                    bounds(),
                    "smallest values of the estimated states, one number for each entry of the state, in the order of "
                    "`feedback.state_weights`; the configuration is in exponential coordinates from the identity; "
                    "none when empty",
                    [],
                ),
                "upper": Key(bounds(), "largest values, in the same order", []),
            }
        ),
    },
)
POLICY = Table(
    {
        "layers": Key(integer(1), "number of layers of the network", 2),
        "units": Key(integer(1), "number of units in each layer", 32),
        "robots": Key(integer(1), "number of robots whose mean cost each update lowers", 64),
        "updates": Key(integer(1), "number of updates, those before --resume included", 200),
        "rate": Key(POSITIVE, "step of Adam", 1e-3),
        "max_seconds": Key(POSITIVE, "seconds after which the training ends", 600.0, "s"),
    },
    about="a network that corrects the commands of [feedback], trained by gradients through closed loops, for tasks that "
    "collocation solves; without this table the regulator alone corrects deviations from the plan",
    stays_absent=True,
)
CLOSED_LOOP = Table(
    {
        "trajectories": Key(integer(1), "number of robots", 1000),
        "steps": Key(integer(1), "integration steps (RK4) in each sampling period", 1),
        "tolerance": Key(
            number(least=0.0),
            "tracking error (RMS) up to which a robot has followed the plan; 0: 2 % of the size of the path, or of the "
            "plan if the task has no path",
            0.0,
            "m, or m and rad",
        ),
        "spread": SPREAD,
    },
    about="the robots whose loops are closed; without this table only the scenario's own robot",
    stays_absent=True,
)
