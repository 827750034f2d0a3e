"""Every key of a scenario for `identify`: the initial system, the measurements, the unknown parameters."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from jaxhamel.cli._scenario._ensemble_schema import FEEDBACK, STATE_FEEDBACK
from jaxhamel.cli._scenario._schema import ANY, CONTROL
from jaxhamel.cli._scenario._stage_schema import LOSS, PREDICTION, PRIORS, stages_schema
from jaxhamel.cli._scenario._system_description import WhenRead
from jaxhamel.cli._scenario._system_schema import system_schema
from jaxhamel.cli._scenario._validate import Entry, OpenTable, Table, Tables, Variants
from jaxhamel.cli._scenario._values import (
    OMITTED,
    PLACE,
    POSITIVE,
    Accepts,
    Key,
    NotAccepted,
    array,
    boolean,
    choice,
    either,
    heading,
    integer,
    number,
    numbers,
    text,
    texts,
)

if TYPE_CHECKING:
    from jaxhamel.mechanics import System


def _list_of(kind: Accepts, words: str) -> Accepts:
    def read(value):
        if not isinstance(value, list):
            raise NotAccepted
        return [kind.read(entry) for entry in value]

    return Accepts(f"a list of {words}", read)


TEXTS = texts()
HEADINGS = _list_of(
    heading(), "strings without control characters and without spaces at their ends"
)
FLAGS = either(boolean(), _list_of(boolean(), "true and false"))

COLUMNS = {
    "columns": Key(
        HEADINGS,
        "columns of the CSV files, one for each component; the default names when empty",
        [],
    ),
    "unit": Key(text(), "unit of these columns, such as deg or mm; SI when empty", ""),
    "noise": Key(
        either(number(least=0.0), numbers()),
        "standard deviation of the noise, SI: one number, or one for each component; 0: estimated",
        0.0,
    ),
    "offset": Key(
        number(least=0.0),
        "standard deviation, SI, of a constant offset, different for each run; 0: no offset",
        0.0,
    ),
    "limit": Key(
        number(least=0.0),
        "largest plausible value, SI; a larger one is refused as a wrong unit; 0: the default limit",
        0.0,
    ),
    "name": Key(text(), "name of the measurement in tables; the quantity when empty", ""),
}
FACTOR = {"part": Key(PLACE, "index of the factor of a product space that has the quantity", 0)}
MEASUREMENT_TABLES = Tables(
    Variants(
        by="quantity",
        about="the measured quantity",
        tables={
            "position": Table(
                {"part": Key(PLACE, "index of the factor that has the quantity", 1), **COLUMNS}
            ),
            "orientation": Table({**FACTOR, **COLUMNS}),
            "angular-rate": Table(dict(COLUMNS)),
            "accelerometer": Table(
                {
                    "point": Key(
                        numbers(3), "position of the sensor, body frame", [0.0, 0.0, 0.0], "m"
                    ),
                    **COLUMNS,
                }
            ),
            "coordinate": Table(
                {
                    "index": Key(PLACE, "index of the entry of the configuration"),
                    "part": Key(
                        either(PLACE, text()), "the factor that has it; none when empty", ""
                    ),
                    "rate": Key(
                        boolean(), "whether the time derivative is measured instead", False
                    ),
                    **COLUMNS,
                }
            ),
        },
    ),
    about="one table for each measured quantity",
    required=True,
)

PRIOR = {
    "unit": Key(text(), "unit in the tables of results; that of the class when empty", ""),
    "prior_mean": Key(
        numbers(), "mean of the prior, for each reported quantity; no prior when empty", []
    ),
    "prior_std": Key(numbers(), "standard deviation of the prior", []),
    "prior_relative": Key(
        boolean(), "whether prior_std is relative (a standard deviation of log x)", False
    ),
}
ENTRIES = {
    "path": Key(
        text(),
        "the array of the system, such as masses or rails.radius, or an entry of it, such as masses.0",
    ),
    "frozen": Key(
        FLAGS, "whether the value is kept fixed; a list has one flag for each entry", False
    ),
    **PRIOR,
}
PARAMETERS = Tables(
    Variants(
        by="kind",
        about="the coordinates in which the parameter is estimated",
        tables={
            "positive": Table(dict(ENTRIES)),
            "free": Table(
                {
                    **ENTRIES,
                    "scale": Key(
                        number(least=0.0),
                        "size of a large change; 0: the size of the initial value",
                        0.0,
                    ),
                }
            ),
            "bounded": Table(
                {
                    **ENTRIES,
                    "lower": Key(number(), "lower bound"),
                    "upper": Key(number(), "upper bound"),
                }
            ),
            "rotational-inertia": Table(dict(ENTRIES)),
            "body": Table(
                {
                    "mass": Key(text(), "path of the mass"),
                    "com": Key(text(), "path of the centre of mass"),
                    "inertia": Key(text(), "path of the inertia"),
                    "about_com": Key(
                        boolean(), "whether the inertia is about the centre of mass", True
                    ),
                    "frozen": Key(
                        TEXTS, 'those of "mass", "com", "inertia" that are kept fixed', []
                    ),
                    **PRIOR,
                }
            ),
        },
    ),
    about="one table for each unknown parameter or body of the system",
    required=True,
)

DATA = Table(
    {
        "files": Key(TEXTS, "patterns of the file names in the folder of --data", ["*.csv"]),
        "time": Key(heading(), "name of the column with the times", "t"),
        "time_unit": Key(choice("s", "ms", "us", "ns", "min"), "unit of the times", "s"),
        "from_zero": Key(
            boolean(), "whether times are shifted so that each run starts at t = 0", False
        ),
        "required": Key(HEADINGS, "columns in which no value may be missing", []),
        "clock": Key(
            choice("stamps", "steady"),
            'times of the measurements: "steady" recovers those of a sensor with a steady rate from late stamps',
            "stamps",
        ),
    },
    about="the data files",
)
FIT = Table(
    {
        "segments": Key(
            PLACE,
            "number of segments of each run, see identify.Problem; 0: about two per second",
            0,
        ),
        "dt": Key(
            number(least=0.0),
            "longest integration step; 0: the time between two measurements",
            0.0,
            "s",
        ),
        "loss": Key(LOSS, "loss function of the residuals", "squares"),
        "correlated": Key(
            boolean(),
            "whether standard errors allow for residuals that are correlated from one sample to the next",
            False,
        ),
        "starts": Key(
            integer(1),
            "number of random starts around the given system; the best result is kept",
            1,
        ),
        "spread": Key(
            POSITIVE,
            "standard deviation of the random starts; 0.3 is 30 % of a positive parameter",
            0.3,
        ),
        "max_iterations": Key(integer(1), "iterations after which a fit gives up", 100),
        "max_seconds": Key(POSITIVE, "seconds after which a fit gives up", 600.0, "s"),
    },
    about="settings of the fit",
)
SYNTHETIC = Table(
    {
        "runs": Key(integer(1), "number of runs", 1),
        "seconds": Key(POSITIVE, "length of each run", 20.0, "s"),
        "rate": Key(POSITIVE, "sampling rate", 50.0, "Hz"),
        "noise": Key(
            number(least=0.0),
            "standard deviation of the noise relative to each signal's RMS, for measurements without a `noise` of their own",
            0.01,
        ),
        "speed": Key(number(least=0.0), "size of the random initial velocities", 0.3, "rad/s"),
    },
    about="synthetic data, simulated with the values of [truth] if --data is not given",
)
FITTED = Tables(
    Table(
        {
            "path": Key(text(), "a leaf of the system"),
            "value": Key(array(None), "the fitted value"),
        }
    ),
    about="fitted values, written by `identify` for `predict`",
)


OTHERS = {
    "title": Key(text(), "heading of the report", ""),
    "description": Key(text(), "one sentence about the scenario", ""),
    "system": ANY,
    "control": CONTROL,
    "feedback": replace(FEEDBACK, tables=STATE_FEEDBACK),
    "data": DATA,
    "measurements": MEASUREMENT_TABLES,
    "parameters": PARAMETERS,
    "fit": FIT,
    "stages": stages_schema(HEADINGS),
    "priors": PRIORS,
    "prediction": PREDICTION,
    "truth": ANY,
    "synthetic": SYNTHETIC,
    "fitted": FITTED,
}
OUTLINE = Table(OTHERS)  # all keys of a scenario except those of its system


def identify_schema(kind: object, given: "type[System] | None" = None) -> Table:
    """The schema of a scenario for `identify`, with a system of this kind or of the given class."""
    system = system_schema(given)
    truth = _truth(system.chosen({"kind": kind} if kind is not None else {}))
    return Table({**OTHERS, "system": system, "truth": truth})


def _truth(system: Table | None) -> Table:
    """The schema of `[truth]`, the true values behind synthetic data: any key of the system, each optional."""
    about = "true values behind the synthetic data, where they differ from [system]"
    return Table({} if system is None else _optional(system), about)


def _optional(table: Table) -> dict[str, Entry]:
    """The entries of a table without defaults and requirements; arrays of rails and of other variants are left out."""
    found: dict[str, Entry] = {}
    for name, entry in table.entries.items():
        if isinstance(entry, Key):
            found[name] = replace(entry, default=OMITTED)
        elif isinstance(entry, Table):
            found[name] = _optional_table(entry)
        elif isinstance(entry, Tables) and isinstance(entry.entry, Table):
            found[name] = Tables(_optional_table(entry.entry), entry.about)
        elif isinstance(entry, OpenTable):
            found[name] = replace(entry, required=False)
    return found


def _optional_table(table: Table) -> Table:
    return Table(WhenRead(partial(_optional, table)), table.about, stays_absent=True)
