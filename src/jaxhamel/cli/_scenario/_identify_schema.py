"""Every key of a scenario for `identify`: the system to start from, what is measured, what is sought."""

from typing import TYPE_CHECKING

from jaxhamel.cli._scenario._schema import ANY, CONTROL
from jaxhamel.cli._scenario._system_schema import POSITIVE, system_schema
from jaxhamel.cli._scenario._validate import Table, Tables, Variants
from jaxhamel.cli._scenario._values import (
    Accepts,
    Key,
    NotAccepted,
    choice,
    either,
    heading,
    integer,
    number,
    numbers,
    rows,
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


def _yes_or_no() -> Accepts:
    def read(value):
        if not isinstance(value, bool):
            raise NotAccepted
        return value

    return Accepts("true or false", read)


TEXTS = texts()
HEADINGS = _list_of(
    heading(), "strings without control characters and without spaces at their ends"
)
FLAGS = either(_yes_or_no(), _list_of(_yes_or_no(), "true and false"))
PLACE = integer(0)

COLUMNS = {
    "columns": Key(
        HEADINGS, "its columns in the files, one for each component; the usual names when empty", []
    ),
    "unit": Key(text(), "of those columns in the files, such as deg or mm; SI when empty", ""),
    "noise": Key(
        either(number(least=0.0), numbers()),
        "standard deviation, SI, one or one for each component; 0: estimated",
        0.0,
    ),
    "offset": Key(
        number(least=0.0),
        "standard deviation, SI, of a constant offset that each run has of its own; 0: none",
        0.0,
    ),
    "limit": Key(
        number(least=0.0),
        "a value beyond it, SI, is taken for a wrong unit; 0: the usual limit",
        0.0,
    ),
    "name": Key(text(), "for tables; the quantity when empty", ""),
}
FACTOR = {"part": Key(PLACE, "which factor of a product of spaces holds it", 0)}
MEASUREMENTS = Tables(
    Variants(
        by="quantity",
        about="what is measured",
        tables={
            "position": Table({"part": Key(PLACE, "which factor holds it", 1), **COLUMNS}),
            "orientation": Table({**FACTOR, **COLUMNS}),
            "angular-rate": Table(dict(COLUMNS)),
            "accelerometer": Table(
                {
                    "point": Key(numbers(3), "where it sits, body frame", [0.0, 0.0, 0.0], "m"),
                    **COLUMNS,
                }
            ),
            "coordinate": Table(
                {
                    "index": Key(PLACE, "of the entry of the configuration"),
                    "part": Key(
                        either(PLACE, text()), "which factor holds it; none when empty", ""
                    ),
                    "rate": Key(_yes_or_no(), "its time derivative instead", False),
                    **COLUMNS,
                }
            ),
        },
    ),
    about="one table for each measured quantity",
    required=True,
)

PRIOR = {
    "unit": Key(text(), "for the tables", ""),
    "prior_mean": Key(
        numbers(), "known beforehand, for each reported quantity; none when empty", []
    ),
    "prior_std": Key(numbers(), "standard deviation of that", []),
    "prior_relative": Key(_yes_or_no(), "whether prior_std is a share: of log x", False),
}
ENTRIES = {
    "path": Key(text(), "the leaf of the system, such as masses or rails.radius"),
    "frozen": Key(FLAGS, "kept as it is; a list says it of each entry", False),
    **PRIOR,
}
PARAMETERS = Tables(
    Variants(
        by="kind",
        about="in which coordinates it is sought",
        tables={
            "positive": Table(dict(ENTRIES)),
            "free": Table(
                {**ENTRIES, "scale": Key(number(least=0.0), "a large change; 0: of the start", 0.0)}
            ),
            "bounded": Table(
                {**ENTRIES, "lower": Key(number(), "bound"), "upper": Key(number(), "bound")}
            ),
            "rotational-inertia": Table(dict(ENTRIES)),
            "body": Table(
                {
                    "mass": Key(text(), "path of the mass"),
                    "com": Key(text(), "path of the centre of mass"),
                    "inertia": Key(text(), "path of the inertia"),
                    "about_com": Key(_yes_or_no(), "whether it is about the centre of mass", True),
                    "frozen": Key(TEXTS, 'of "mass", "com", "inertia" those that are kept', []),
                    **PRIOR,
                }
            ),
        },
    ),
    about="one table for each part of the system that is sought",
    required=True,
)

DATA = Table(
    {
        "files": Key(TEXTS, "patterns of the file names in the folder of --data", ["*.csv"]),
        "time": Key(heading(), "the column of time", "t"),
        "time_unit": Key(choice("s", "ms", "us", "ns", "min"), "of that column", "s"),
        "from_zero": Key(_yes_or_no(), "whether each run starts at t = 0", False),
        "required": Key(HEADINGS, "columns in which no value may be missing", []),
    },
    about="the files",
)
FIT = Table(
    {
        "segments": Key(PLACE, "of each run, see identify.Problem; 0: about two a second", 0),
        "dt": Key(
            number(least=0.0), "longest integration step; 0: from one time to the next", 0.0, "s"
        ),
        "loss": Key(choice("squares", "huber", "soft-l1", "cauchy"), "how errors count", "squares"),
        "starts": Key(
            integer(1), "starts, at random around the system given; the best is taken", 1
        ),
        "spread": Key(POSITIVE, "of those starts; 0.3 is 30 % of a positive parameter", 0.3),
        "max_iterations": Key(integer(1), "iterations after which a fit gives up", 100),
        "max_seconds": Key(POSITIVE, "seconds after which it gives up", 600.0, "s"),
    },
    about="how it is fitted",
)
SYNTHETIC = Table(
    {
        "runs": Key(integer(1), "how many", 1),
        "seconds": Key(POSITIVE, "of each", 20.0, "s"),
        "rate": Key(POSITIVE, "of sampling", 50.0, "Hz"),
        "noise": Key(number(least=0.0), "share of each signal's RMS", 0.01),
        "speed": Key(number(least=0.0), "of the initial velocities, at random", 0.3, "rad/s"),
    },
    about="data made up where there is no --data, with the values of [truth]",
)
FITTED = Tables(
    Table(
        {
            "path": Key(text(), "a leaf of the system"),
            "value": Key(either(number(), either(numbers(), rows())), "what was found for it"),
        }
    ),
    about="written by `identify`, for `predict`",
)


OTHERS = {
    "title": Key(text(), "heading of the report", ""),
    "description": Key(text(), "one sentence about the scenario", ""),
    "system": ANY,
    "control": CONTROL,
    "data": DATA,
    "measurements": MEASUREMENTS,
    "parameters": PARAMETERS,
    "fit": FIT,
    "truth": ANY,
    "synthetic": SYNTHETIC,
    "fitted": FITTED,
}
OUTLINE = Table(OTHERS)  # the keys of a scenario but for those of its system


def identify_schema(kind: object, given: "type[System] | None" = None) -> Table:
    """The schema of a scenario for `identify`, with a system of this kind or of the class given."""
    system = system_schema(given)
    truth = _truth(system.chosen({"kind": kind} if kind is not None else {}))
    return Table({**OTHERS, "system": system, "truth": truth})


def _truth(system: Table | None) -> Table:
    """Values of the system that made up the data: any of its keys."""
    entries = system.entries if system is not None else {}
    optional = {
        name: Key(entry.accepts, entry.about, None, entry.unit)
        for name, entry in entries.items()
        if isinstance(entry, Key)
    }
    return Table(
        optional, about="the values that made-up data are of, where they differ from [system]"
    )
