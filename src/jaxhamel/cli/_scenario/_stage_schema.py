"""The keys of a scenario for `identify` for its stages and for priors on each run's initial state; keys for `predict`."""

from jaxhamel.cli._scenario._validate import Table, Tables
from jaxhamel.cli._scenario._values import (
    OMITTED,
    PLACE,
    POSITIVE,
    Accepts,
    Key,
    boolean,
    choice,
    either,
    heading,
    number,
    numbers,
    text,
    texts,
)

LOSS = choice("squares", "huber", "soft-l1", "cauchy")


def stages_schema(columns: Accepts) -> Tables:
    """The schema of `[[stages]]`; `columns` is the kind of value that its lists of column names accept."""
    return Tables(
        Table(
            {
                "name": Key(heading(), "name of the stage in tables"),
                "parameters": Key(
                    texts(),
                    "paths of the [[parameters]] that it estimates; the path of a body is that of its inertia",
                ),
                "columns": Key(columns, "columns that a file must have to belong to the stage", []),
                "without": Key(columns, "columns that a file of the stage must not have", []),
                "files": Key(
                    texts(), "patterns, one of which a file of the stage must match", ["*"]
                ),
                "optional": Key(
                    boolean(), "whether the stage is left out if no file belongs to it", False
                ),
                "system": Key(
                    text(),
                    "kind of system of its runs, with the same parameters; that of [system] when empty",
                    "",
                ),
                "loss": Key(
                    LOSS, "loss function of its residuals; that of [fit] if absent", OMITTED
                ),
            }
        ),
        about="fits one after the other, each starting from the values found before; one fit of all parameters if absent",
    )


PRIORS = Tables(
    Table(
        {
            "name": Key(heading(), "name of the quantity in tables"),
            "index": Key(PLACE, "index of the entry of the configuration"),
            "part": Key(either(PLACE, text()), "the factor that has it; none when empty", ""),
            "rate": Key(boolean(), "whether the quantity is its time derivative", False),
            "mean": Key(number(), "mean of the prior, SI", 0.0),
            "std": Key(POSITIVE, "standard deviation of the prior, SI"),
            "over_runs": Key(
                boolean(),
                "whether fits leave this prior out, and predictions take its mean and standard deviation from the runs "
                "of the last stage (from here if there is only one run)",
                False,
            ),
        }
    ),
    about="prior knowledge of an entry of each run's own initial state",
)
PREDICTION = Table(
    {
        "memory": Key(
            number(least=0.0),
            "the weight of a squared residual falls with its age as exp(-age / memory); 0: equal weights",
            0.0,
            "s",
        ),
        "noise": Key(
            numbers(),
            "standard deviation of each measurement at the end of the first seconds, SI; that of the fit when empty",
            [],
        ),
    },
    about="the initial state in `jaxhamel predict`",
)
