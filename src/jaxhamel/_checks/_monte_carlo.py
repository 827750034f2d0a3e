"""Checks of what a Monte Carlo run is given: distributions, samples, quantities, a folder."""

from collections.abc import Mapping
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


def check_sampling(distributions, size, seed, block, sampler, samplers) -> None:
    """Something to draw, whole positive numbers, a known sampler."""
    if not isinstance(distributions, Mapping) or not distributions:
        raise ValueError(
            "`distributions` names nothing to draw; give a dictionary such as "
            '{"mass": Distribution("normal", mean=1.0, std=0.02)}.'
        )
    for name, value in {"trajectories": size, "block": block}.items():
        if not _is_whole(value) or value < 1:
            raise ValueError(f"`{name}` is {value!r}; it must be a whole number, at least 1.")
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


def check_accuracy(accuracy, names) -> np.ndarray:
    """Standard errors that are enough, by quantity; infinite where none is asked, and never reached without any."""
    accuracy = accuracy or {}
    for name, value in accuracy.items():
        if name not in names:
            raise ValueError(
                f"`accuracy` names {name!r}, which `model` does not give; it gives {', '.join(names)}."
            )
        check_positive(f"accuracy[{name!r}]", np.asarray(value, float), "It is a standard error.")
    if not accuracy:
        return np.full(len(names), -1.0)
    return np.array([accuracy.get(name, np.inf) for name in names], float)


def check_same_run(folder, there, asked, resume) -> None:
    """The folder's run is the one asked for, and is to be gone on with."""
    if not resume:
        raise ValueError(
            f"the folder {folder} holds a run already ({there.get('trajectories')} trajectories, seed "
            f"{there.get('seed')}); nothing was changed. Resume it, or give another folder."
        )
    differs = [key for key in {**there, **asked} if there.get(key) != asked.get(key)]
    if differs:
        key = differs[0]
        raise ValueError(
            f"the folder {folder} holds another run: its `{key}` is {there.get(key)!r}, asked for is "
            f"{asked.get(key)!r}; nothing was changed. Ask for the same, or give another folder."
        )


def _is_whole(value) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
