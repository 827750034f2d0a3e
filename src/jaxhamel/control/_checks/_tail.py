"""Checks of the mean of the largest values of an ensemble."""

import numpy as np

from jaxhamel._checks._values import check_arrays, check_real, check_shape, concrete, inline


def check_tail(values, share) -> None:
    """Checks that there are values, real numbers, and that the share is above 0 and at most 1."""
    check_arrays(values=values)
    check_real("values", values)
    if np.ndim(values) == 0 or np.shape(values)[0] == 0:
        raise ValueError(
            f"`values` has shape {np.shape(values)}; it must be (N, ...), one row for each member of the ensemble."
        )
    check_shape("share", share, (), "It is the share of the largest values, say 0.05.")
    check_real("share", share)
    number = concrete(share)
    if number is not None and not 0 < number <= 1:
        raise ValueError(
            f"`share` is {inline(number)}; it must be above 0 and at most 1, say 0.05 for the largest 5 %."
        )
