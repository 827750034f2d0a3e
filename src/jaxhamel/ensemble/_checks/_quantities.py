"""Checks of the quantities that a Monte Carlo model returns, and of their accuracy targets."""

from collections.abc import Mapping

import jax
import numpy as np

from jaxhamel._checks._values import check_positive, type_of


def check_aux(found, block) -> tuple:
    """Checks that the model returns a pair, and returns it: the quantities, and arrays with an entry for each trajectory."""
    if not isinstance(found, tuple) or len(found) != 2:
        raise ValueError(
            f"`model` gives {_short_description(found)}; with `has_aux=True` it must give a pair, (quantities, arrays)."
        )
    for value in jax.tree.leaves(found[1]):
        if value.shape[:1] != (block,):
            raise ValueError(
                f"`model` gives an array of shape {value.shape} for {block} samples beside its quantities; its first axis "
                "must be that of the samples."
            )
    return found


def check_quantities(found, block) -> list[str]:
    """Checks that the model returns a dictionary of one number for each trajectory; returns its keys except `failed`."""
    if not isinstance(found, Mapping) or not set(found) - {"failed"}:
        said = (
            f"a dictionary of {sorted(found)}"
            if isinstance(found, Mapping)
            else _short_description(found)
        )
        raise ValueError(
            f"`model` gives {said}; it must give a dictionary of numbers, one for each "
            'quantity of interest, such as {"end": x[-1]}.'
        )
    for name, value in found.items():
        if not isinstance(name, str):
            raise ValueError(
                f"`model` gives a quantity named {name!r}, {type_of(name)}; a name must be text."
            )
        if not isinstance(value, jax.ShapeDtypeStruct) or value.dtype.kind not in "biufV":
            raise ValueError(
                f"`model` gives {name!r} as {_short_description(value)}; each quantity must be one real number."
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


def _short_description(value) -> str:
    """A description of a value that is no batch of numbers, for a message."""
    if isinstance(value, jax.ShapeDtypeStruct):
        return f"numbers of dtype {value.dtype}"
    return "None" if value is None else f"a {type(value).__name__}"


def check_slopes(found, names) -> None:
    """Checks that the quantities are differentiable numbers."""
    for name in names:
        if not np.issubdtype(found[name].dtype, np.inexact):
            raise ValueError(
                f"`model` gives {name!r} of dtype {found[name].dtype}, which has no derivative. Leave it out here, or "
                "take `sobol_indices`."
            )


def check_base_samples(samples) -> None:
    """Checks that there are at least two base samples, as a variance requires."""
    if samples < 2:
        raise ValueError(f"`samples` is {samples}; sensitivity needs at least 2.")


def check_left_over(used, samples) -> None:
    """Checks that at least two base samples are left whose trajectories all succeeded."""
    if used < 2:
        raise ValueError(
            f"of {samples} base samples only {used} had no trajectory that failed; sensitivity needs at least 2. "
            "Take narrower distributions, or more samples."
        )


def check_accuracy(accuracy, names, events=()) -> list[tuple[str, float | None, float]]:
    """Checks the accuracy targets; returns each as (column, probability of a quantile or None, standard error).

    `names`: the quantities; those of them in `events` are 0 or 1, as is `failed`, and have no quantiles.
    """
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
        if share is not None and name in ("failed", *events):
            raise ValueError(
                f"`accuracy` asks for a quantile of {name!r}, which is 0 or 1; ask for {{{name!r}: error}}."
            )
        if not _is_number(value):
            raise ValueError(
                f"`accuracy[{key!r}]` is {value!r}; it must be a number, a standard error."
            )
        check_positive(f"accuracy[{key!r}]", np.asarray(value, float), "It is a standard error.")
        found.append((name, share, float(value)))
    return found


def _is_number(value) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
