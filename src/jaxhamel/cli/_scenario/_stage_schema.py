"""Keys of a scenario for `identify`: its stages, and the priors on each run's own initial state; and those for `predict`."""

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
                    "paths of the [[parameters]] that it estimates; a body's is its inertia's",
                ),
                "columns": Key(columns, "it takes the files that have all these columns", []),
                "without": Key(columns, "and none of these", []),
                "files": Key(texts(), "and match one of these patterns", ["*"]),
                "optional": Key(
                    boolean(), "whether the stage is left out if no file belongs to it", False
                ),
                "system": Key(
                    text(),
                    "kind of system with the same parameters that its runs are of; that of [system] when empty",
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
                "whether fits are without this prior, and predictions take mean and standard deviation over the runs "
                "of the last stage (as given here for one run)",
                False,
            ),
        }
    ),
    about="what is known beforehand of an entry of each run's own initial state",
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
