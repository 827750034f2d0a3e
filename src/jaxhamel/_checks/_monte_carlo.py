"""Checks of what a Monte Carlo run is given: distributions, samples, quantities, a folder."""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise

import numpy as np

from jaxhamel._checks._values import check_finite, check_positive


def check_distribution(name, parameters, known) -> None:
    """A known name, exactly its parameters, finite numbers that give it a width."""
    if name not in known:
        raise ValueError(
            f"there is no distribution {name!r}; take one of {', '.join(map(repr, known))}."
        )
    if set(parameters) != set(known[name]):
        raise ValueError(
            f"distribution {name!r} got {', '.join(parameters) or 'no parameters'}; it takes "
            f"{', '.join(known[name])}."
        )
    for key, value in parameters.items():
        check_finite(key, np.asarray(value, float))
    for key in ("std", "sigma", "median"):
        if key in parameters:
            check_positive(
                key, np.asarray(parameters[key], float), "It is the width of a distribution."
            )
    ends = [
        np.asarray(parameters[key], float) for key in ("low", "mode", "high") if key in parameters
    ]
    for low, high in pairwise(ends):
        if not np.all(low <= high) or not np.all(ends[0] < ends[-1]):
            raise ValueError(
                f"distribution {name!r} goes from {low} to {high}; `low` must be below `high`, and `mode` between."
            )


def check_sampling(distributions, size, seed, sampler, samplers) -> None:
    """Something to draw, whole positive numbers, a known sampler."""
    if not isinstance(distributions, Mapping) or not distributions:
        raise ValueError(
            "`distributions` names nothing to draw; give a dictionary such as "
            '{"mass": Distribution("normal", mean=1.0, std=0.02)}.'
        )
    for name, each in distributions.items():
        if not hasattr(each, "quantile"):
            raise ValueError(
                f"`distributions` has {each!r} for {name!r}, which is no Distribution. Write a fixed number into `model`, "
                'or give Distribution("normal", mean=1.0, std=0.02), say.'
            )
    check_whole("trajectories", size)
    if not _is_whole(seed) or seed < 0:
        raise ValueError(f"`seed` is {seed!r}; it must be a whole number, 0 or more.")
    if sampler not in samplers:
        raise ValueError(
            f"`sampler` is {sampler!r}; it must be one of {', '.join(map(repr, samplers))}."
        )


def check_quantities(found, block) -> list[str]:
    """A dictionary of one number for each trajectory; the names but `failed`."""
    if not isinstance(found, Mapping) or not set(found) - {"failed"}:
        raise ValueError(
            f"`model` gives {type(found).__name__}; it must give a dictionary of numbers, one for each "
            'quantity of interest, such as {"end": x[-1]}.'
        )
    for name, value in found.items():
        if value.shape != (block,):
            raise ValueError(
                f"`model` gives {name!r} of shape {value.shape[1:]} for one trajectory; each quantity must be "
                "one number. Give the entries names of their own."
            )
    return [name for name in found if name != "failed"]


def check_whole(name, value) -> int:
    """A whole number, at least 1."""
    if not _is_whole(value) or value < 1:
        raise ValueError(f"`{name}` is {value!r}; it must be a whole number, at least 1.")
    return int(value)


def check_index(index, size) -> int:
    """Of one of `size` trajectories."""
    if not _is_whole(index) or not 0 <= index < size:
        raise ValueError(
            f"there is no trajectory {index!r}; there are {size}, counted from 0 to {size - 1}."
        )
    return int(index)


def check_left_over(used, samples) -> None:
    """Enough base samples in which nothing failed."""
    if used < 2:
        raise ValueError(
            f"of {samples} base samples only {used} had no trajectory that failed; sensitivity needs at least 2. "
            "Take narrower distributions, or more samples."
        )


def drawn_badly(index, seed, error) -> str:
    """What to say of parameters that were drawn and cannot be."""
    return (
        f"the distributions draw parameters that cannot be: in trajectory {index} (seed {seed}), {error} Take a "
        "smaller spread, or a distribution that keeps to what is possible, such as lognormal or truncated-normal."
    )


def check_accuracy(accuracy, names) -> list[tuple[str, float | None, float]]:
    """(column, share of a quantile or None, standard error) of each; `failed` is a column."""
    found = []
    for key, value in (accuracy or {}).items():
        name, share = key if isinstance(key, tuple) else (key, None)
        if name not in (*names, "failed"):
            raise ValueError(
                f"`accuracy` names {name!r}, which `model` does not give; it gives {', '.join(names)}, and "
                "`failed` is the share of trajectories that fail."
            )
        if share is not None and not 0 < share < 1:
            raise ValueError(
                f"`accuracy` asks for the quantile {share!r} of {name!r}; it must be between 0 and 1."
            )
        check_positive(f"accuracy[{key!r}]", np.asarray(value, float), "It is a standard error.")
        found.append((name, share, float(value)))
    return found


def check_same_run(folder, there, asked, resume) -> None:
    """The folder's run is the one asked for, and is to be gone on with."""
    if not resume:
        raise ValueError(
            f"the folder {folder} holds a run already ({there.get('trajectories')} trajectories, seed "
            f"{there.get('seed')}); nothing was changed. Resume it, or give another folder."
        )
    there, asked = dict(_flat(there)), dict(_flat(asked))
    differs = [key for key in {**there, **asked} if there.get(key) != asked.get(key)]
    if differs:
        key = differs[0]
        raise ValueError(
            f"the folder {folder} holds another run: its `{key}` is {there.get(key)!r}, asked for is "
            f"{asked.get(key)!r}; nothing was changed. Ask for the same, or give another folder."
        )


def _flat(table, path=""):
    """Nested tables and lists of tables as dotted keys."""
    pairs = table.items() if isinstance(table, Mapping) else enumerate(table)
    for key, value in pairs:
        nested = isinstance(value, Mapping) or (
            isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value)
        )
        if nested:
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def check_no_stranger(path) -> None:
    """Nothing stands where the table goes, but what a run killed at its very start leaves."""
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise ValueError(
            f"{path} is there and no run that this package wrote; nothing was changed. Give another folder."
        )


@contextmanager
def writing(folder, done) -> Iterator[None]:
    """What the system says when it cannot write, with what is kept and how to go on."""
    try:
        yield
    except OSError as error:
        number = error.errno or errno.EIO
        raise OSError(
            number,
            f"{os.strerror(number)}: {folder} takes no more; the {done} trajectories written before are kept. "
            "Make room there and resume the run",
        ) from error


def _is_whole(value) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
