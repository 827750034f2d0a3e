"""Checks of what a Monte Carlo run is given: distributions, samples, quantities, a folder."""

import errno
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise

import jax
import numpy as np

from jaxhamel._checks._values import _kind, check_finite, check_positive
from jaxhamel._words import counted

_WIDTHS = {
    "std": "It is the width of a distribution.",
    "sigma": "It is the standard deviation of the logarithm.",
    "median": "A lognormal number is positive; take the distribution normal for one that may not be.",
}


def check_distribution(name, parameters, known) -> None:
    """A known name, exactly its parameters, finite numbers of shapes that fit and that give it a width."""
    if not isinstance(name, str) or name not in known:
        raise ValueError(
            f"there is no distribution {name!r}; take one of {', '.join(map(repr, known))}."
        )
    if set(parameters) != set(known[name]):
        raise ValueError(
            f"distribution {name!r} got {', '.join(parameters) or 'no parameters'}; it takes "
            f"{', '.join(known[name])}."
        )
    numbers = {key: _numbers_of(key, value) for key, value in parameters.items()}
    for key, value in numbers.items():
        check_finite(key, value)
    for key in _WIDTHS.keys() & numbers.keys():
        check_positive(key, numbers[key], _WIDTHS[key])
    _check_one_shape(name, numbers)
    ends = [numbers[key] for key in ("low", "mode", "high") if key in numbers]
    for low, high in pairwise(ends):
        if not np.all(low <= high) or not np.all(ends[0] < ends[-1]):
            raise ValueError(
                f"distribution {name!r} goes from {low} to {high}; `low` must be below `high`, and `mode` between."
            )


def _numbers_of(key, value):
    """An array of real numbers, or one of them."""
    try:
        return np.asarray(value, float)
    except (TypeError, ValueError):
        raise ValueError(
            f"`{key}` is {value!r}; it must be a number or an array of numbers."
        ) from None


def _check_one_shape(name, numbers) -> None:
    """Parameters broadcast to one shape, that of what is drawn, with a number in it."""
    shapes = {key: value.shape for key, value in numbers.items()}
    said = ", ".join(f"`{key}` of shape {shape}" for key, shape in shapes.items())
    try:
        shape = np.broadcast_shapes(*shapes.values())
    except ValueError:
        raise ValueError(
            f"distribution {name!r} got {said}; they must broadcast to one shape, that of what is drawn. Give single "
            "numbers for what all entries share."
        ) from None
    if 0 in shape:
        raise ValueError(
            f"distribution {name!r} got {said}: nothing to draw. Give at least one number."
        )


def check_sampling(
    distributions, size, seed, sampler, samplers, called: str = "trajectories"
) -> None:
    """Something to draw, whole positive numbers, a known sampler; `called` is what the size is named."""
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
    check_whole(called, size)
    check_room(called, size, 2)  # one quantity, and whether it failed
    if not _is_whole(seed) or seed < 0:
        raise ValueError(f"`seed` is {seed!r}; it must be a whole number, 0 or more.")
    if not isinstance(sampler, str) or sampler not in samplers:
        raise ValueError(
            f"`sampler` is {sampler!r}; it must be one of {', '.join(map(repr, samplers))}."
        )


def check_room(name, size, numbers) -> None:
    """A table of so many numbers a row fits into this machine's memory, of which nothing is taken yet."""
    there, wanted = _memory(), 8 * int(size) * numbers
    if wanted > there:
        raise ValueError(
            f"`{name}` is {size}; their table of {numbers} columns takes {wanted / 2**30:.3g} GiB of memory, and this "
            f"machine has {there / 2**30:.3g}. Take fewer, or fewer quantities."
        )


def _memory() -> float:
    """Of this machine, bytes; without a bound where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf


def check_aux(found, block) -> tuple:
    """A pair: the quantities, and arrays with one entry for each trajectory."""
    if not isinstance(found, tuple) or len(found) != 2:
        raise ValueError(
            f"`model` gives {_said(found)}; with `has_aux=True` it must give a pair, (quantities, arrays)."
        )
    for value in jax.tree.leaves(found[1]):
        if value.shape[:1] != (block,):
            raise ValueError(
                f"`model` gives an array of shape {value.shape} for {block} samples beside its quantities; its first axis "
                "must be that of the samples."
            )
    return found


def check_quantities(found, block) -> list[str]:
    """A dictionary of one number for each trajectory; the names but `failed`."""
    if not isinstance(found, Mapping) or not set(found) - {"failed"}:
        said = f"a dictionary of {sorted(found)}" if isinstance(found, Mapping) else _said(found)
        raise ValueError(
            f"`model` gives {said}; it must give a dictionary of numbers, one for each "
            'quantity of interest, such as {"end": x[-1]}.'
        )
    for name, value in found.items():
        if not isinstance(name, str):
            raise ValueError(
                f"`model` gives a quantity named {name!r}, {_kind(name)}; a name must be text."
            )
        if not isinstance(value, jax.ShapeDtypeStruct) or value.dtype.kind not in "biufV":
            raise ValueError(
                f"`model` gives {name!r} as {_said(value)}; each quantity must be one real number."
            )
        if value.shape[:1] != (block,):
            raise ValueError(
                f"`model` gives {name!r} of shape {value.shape} for {block} samples; a batched one must give one number for "
                f"each of them, shape ({block},). Without `batched=True` it gets one sample at a time."
            )
        if value.shape != (block,):
            raise ValueError(
                f"`model` gives {name!r} of shape {value.shape[1:]} for one trajectory; each quantity must be "
                "one number. Give the entries names of their own."
            )
    return [name for name in found if name != "failed"]


def _said(value) -> str:
    """What it is, in a few words."""
    if isinstance(value, jax.ShapeDtypeStruct):
        return f"numbers of dtype {value.dtype}"
    return "None" if value is None else f"a {type(value).__name__}"


def check_slopes(found, names) -> None:
    """Derivatives need numbers that vary."""
    for name in names:
        if not np.issubdtype(found[name].dtype, np.inexact):
            raise ValueError(
                f"`model` gives {name!r} of dtype {found[name].dtype}, which has no derivative. Leave it out here, or "
                "take `sobol_indices`."
            )


def check_about(about) -> None:
    """What is kept beside the numbers, as JSON."""
    if about is None:
        return
    try:
        fits = isinstance(about, Mapping) and bool(json.dumps(about))
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise TypeError(
            f"`about` is {about!r}; it must be a dictionary that JSON takes: text, numbers, lists and dictionaries of "
            "those. Write arrays as lists, x.tolist()."
        )


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
    if accuracy is not None and not isinstance(accuracy, Mapping):
        raise TypeError(
            f"`accuracy` is {accuracy!r}; it must be a dictionary of standard errors, such as {{{names[0]!r}: 0.01}}."
        )
    for key, value in (accuracy or {}).items():
        name, share = key if isinstance(key, tuple) and len(key) == 2 else (key, None)
        if name not in (*names, "failed"):
            raise ValueError(
                f"`accuracy` names {name!r}, which `model` does not give; it gives {', '.join(names)}, and "
                "`failed` is the share of trajectories that fail."
            )
        if share is not None and not (_is_number(share) and 0 < share < 1):
            raise ValueError(
                f"`accuracy` asks for the quantile {share!r} of {name!r}; it must be between 0 and 1."
            )
        if share is not None and name == "failed":
            raise ValueError(
                "`accuracy` asks for a quantile of 'failed', which is 0 or 1; ask for {'failed': error}."
            )
        if not _is_number(value):
            raise ValueError(
                f"`accuracy[{key!r}]` is {value!r}; it must be a number, a standard error."
            )
        check_positive(f"accuracy[{key!r}]", np.asarray(value, float), "It is a standard error.")
        found.append((name, share, float(value)))
    return found


def check_same_run(folder, there, asked, resume) -> None:
    """The folder's run is the one asked for, and is to be gone on with."""
    if not resume:
        raise ValueError(
            f"the folder {folder} holds a run already ({counted(there.get('trajectories'), 'trajectory')}, seed "
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
    begun = path.is_dir() and all(part.name.endswith(".partial") for part in path.iterdir())
    if path.exists() and not begun:
        raise a_stranger(path)


def a_stranger(path) -> ValueError:
    """What to say of something else where the table goes."""
    return ValueError(
        f"{path} is there and no run that this package wrote; nothing was changed. Give another folder."
    )


@contextmanager
def writing(folder, done) -> Iterator[None]:
    """What the system says when it cannot write, with what is kept and how to go on."""
    try:
        yield
    except OSError as error:
        number = error.errno or errno.EIO
        full = number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        what = "takes no more" if full else "cannot be written to"
        kept = (
            f"the {counted(done, 'trajectory')} written before {'is' if done == 1 else 'are'} kept"
            if done or full
            else "nothing is lost"
        )
        then = "Make room there" if full else "Make it writable"
        then += " and resume the run" if done or full else ", or give another folder"
        raise OSError(number, f"{os.strerror(number)}: {folder} {what}; {kept}. {then}") from error


def _is_number(value) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _is_whole(value) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
