"""Checks of what a picture is made from."""

import numpy as np


def check_frames(name: str, value, count: int) -> None:
    """`value` has one row for each time of a picture, and every entry is finite."""
    array = np.asarray(value)
    if array.ndim == 0 or len(array) != count:
        raise ValueError(
            f"`{name}` has shape {array.shape}; its first axis must have length {count}, one row for each entry of `ts`. "
            "Give arrays sampled at the same times."
        )
    if not np.all(np.isfinite(array)):
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise ValueError(
            f"`{name}` is not finite at row {row}; a picture needs finite numbers. "
            "Cut the arrays before the time at which the simulation broke down."
        )
