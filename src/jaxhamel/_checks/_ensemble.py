"""Checks of what ensembles are given: one batch size, at least one trajectory."""

import numpy as np

from jaxhamel._checks._values import check_finite


def check_batch(leaves, axes) -> int:
    """The common length of the mapped axes."""
    sizes = {
        i: _length(np.shape(leaf), axis, i)
        for i, (leaf, axis) in enumerate(zip(leaves, axes, strict=True))
        if axis is not None
    }
    if not sizes:
        raise ValueError(
            "`in_axes` maps no array of the arguments; at least one must have a batch axis. Give 0 for "
            "an argument that differs from lane to lane."
        )
    if len(set(sizes.values())) > 1:
        each = ", ".join(
            f"{size} along axis {axes[i]} of shape {np.shape(leaves[i])}"
            for i, size in sizes.items()
        )
        raise ValueError(
            f"the batch sizes differ: {each}. All mapped axes must have the same length; give None in "
            "`in_axes` for what all lanes share."
        )
    return next(iter(sizes.values()))


def _length(shape, axis, i) -> int:
    if not -len(shape) <= axis < len(shape):
        raise ValueError(
            f"`in_axes` has axis {axis} for leaf {i} of the arguments, of shape {shape}; give an axis it "
            "has, or None for what all lanes share."
        )
    return shape[axis]


def check_trajectories(size: int, u0) -> None:
    """At least one trajectory, and finite velocities."""
    if size == 0:
        raise ValueError(
            "the ensemble has zero trajectories: the mapped axes have length 0. Give at least one entry "
            "along each axis named in `in_axes`."
        )
    check_finite("u0", u0)
