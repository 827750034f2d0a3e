"""Checks of `in_axes`: an entry for each argument, an axis that its arrays have, and one common batch size."""

import jax
import numpy as np
from jax.tree_util import keystr, tree_leaves_with_path

from jaxhamel._checks._values import type_of


def wrong_axes(in_axes, given) -> ValueError:
    """The error for an `in_axes` that is not a pytree prefix of the arguments; `given`: the arguments by name."""
    if not isinstance(in_axes, tuple):
        return ValueError(
            f"`in_axes` is {_short_text(in_axes)}; {_accepted_axes(given)}, in a tuple. {_WHICH}"
        )
    if len(in_axes) != len(given):
        return ValueError(
            f"`in_axes` is {_short_text(in_axes)}, of length {len(in_axes)}; {_accepted_axes(given)}. {_WHICH}"
        )
    pairs = zip(in_axes, given, strict=True)
    entry, name = next((entry, name) for entry, name in pairs if not _axis_fits(entry, given[name]))
    return ValueError(
        f"`in_axes` has {_short_text(entry)} for `{name}`, which is {_described_part(given[name])}; it must be an integer, "
        f"None, or built like `{name}` with an integer or None in place of its arrays. {_WHICH}"
    )


def check_axis_kinds(in_axes, axes, given) -> None:
    """Checks that each axis (one for each leaf of the arguments) is an integer or None."""
    for i, axis in enumerate(axes):
        if axis is None or (isinstance(axis, int | np.integer) and not isinstance(axis, bool)):
            continue
        if not isinstance(in_axes, tuple):
            raise TypeError(
                f"`in_axes` is {_short_text(axis)}, {type_of(axis)}; {_accepted_axes(given)}. {_WHICH}"
            )
        raise TypeError(
            f"`in_axes` has {_short_text(axis)}, {type_of(axis)}, for `{_leaf_names(given)[i]}`; it must be an integer or "
            f"None. {_WHICH}"
        )


def _accepted_axes(given) -> str:
    return f"it must be an integer, None, or one entry for each of ({', '.join(given)})"


def check_batch(given, axes) -> int:
    """Checks that all mapped axes have one length, and returns it; `axes` has one entry for each leaf of `given`."""
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(tuple(given.values()))]
    pairs = enumerate(zip(axes, shapes, strict=True))
    mapped = {i: pair for i, pair in pairs if pair[0] is not None}
    for i, (axis, shape) in mapped.items():
        if not -len(shape) <= axis < len(shape):
            raise _no_such_axis(axis, shape, _leaf_names(given)[i])
    sizes = {i: shape[axis] for i, (axis, shape) in mapped.items()}
    if not sizes:
        raise ValueError(
            f"`in_axes` maps no array of ({', '.join(given)}); at least one must have a batch axis. Give 0 for an argument "
            "that differs from lane to lane."
        )
    if len(set(sizes.values())) > 1:
        raise _different(sizes, mapped, _leaf_names(given))
    return next(iter(sizes.values()))


def check_size(size: int) -> None:
    """Checks that there is at least one trajectory."""
    if size == 0:
        raise ValueError(
            "the ensemble has zero trajectories: the mapped axes have length 0. Give at least one entry "
            "along each axis named in `in_axes`."
        )


def _no_such_axis(axis, shape, name) -> ValueError:
    if not shape:
        return ValueError(
            f"`in_axes` has axis {axis} for `{name}`, which has no axis. Give it one entry for each lane, "
            "or None in `in_axes` if all lanes share it."
        )
    return ValueError(
        f"`in_axes` has axis {axis} for `{name}`, of shape {shape}; its axes are {-len(shape)} to {len(shape) - 1}. Give "
        "one of them, or None if all lanes share it."
    )


def _different(sizes, mapped, names) -> ValueError:
    """The error that batch sizes differ; its message names, for each size, the first leaf of this size."""
    first = {size: i for i, size in reversed(sizes.items())}
    said = [
        f"`{names[i]}` of shape {mapped[i][1]} has {size} along axis {mapped[i][0]}"
        for size, i in sorted(first.items(), key=lambda pair: pair[1])
    ]
    return ValueError(
        f"the batch sizes differ: {', '.join(said)}. All mapped axes must have the same length; give None in `in_axes` for "
        "an argument that all lanes share."
    )


def _leaf_names(given) -> list[str]:
    """Names of the leaves in the user's notation: `system.masses`, `q0[1]`."""
    return [
        name + keystr(path)
        for name, part in given.items()
        for path, _ in tree_leaves_with_path(part)
    ]


def _axis_fits(entry, part) -> bool:
    try:
        jax.tree.map(lambda axis, part: None, entry, part, is_leaf=lambda x: x is None)
    except (TypeError, ValueError):
        return False
    return True


def _described_part(part) -> str:
    shape = getattr(part, "shape", None)
    return type_of(part) if shape is None else f"an array of shape {tuple(shape)}"


def _short_text(value) -> str:
    """The text of a value if that is short, otherwise its type."""
    text = repr(value)
    return text if len(text) <= 60 else f"{type_of(value).removeprefix('of type ')}(…)"


_WHICH = "Give 0 for an argument with a leading batch axis, None for one that all lanes share."
