"""Finds the numbers of a state that reverse mode has to store, from the programs of f and N.

For example, f of a rolling ball does not depend on its position on the plane, and N changes only the quaternion.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxhamel._lanes._derivatives._active_inputs import with_entries
from jaxhamel._lanes._written_out import Written, written_out


class Needed(NamedTuple):
    """Indices of numbers of the state.

    `rate`: those that f reads; `ends`: those of z that the derivative N′ reads; `made`: those that N changes.
    """

    rate: list[int]
    ends: list[int]
    made: list[int]

    @property
    def kept(self) -> list[int]:
        """Indices of the entries of z that are stored at the start of each step."""
        return sorted({*self.rate, *self.ends})

    @property
    def changing(self) -> list[int]:
        """Indices of the entries whose cotangents change in a step."""
        return sorted({*self.rate, *self.ends, *self.made})

    @classmethod
    def by(cls, motion: Any, rate: Written | None) -> "Needed":
        """Finds these indices for a motion.

        `rate`: its f as a scalar program of (t, y, mine, shared); None if f cannot be written out, so that all are needed.
        """
        numbers = list(range(len(motion.y)))
        unit = written_out(motion.unit, (True, False), motion.y, motion.shared)
        moving = numbers
        if rate is not None:
            given = rate.leaves_read([x for each in rate.results for x in each])
            moving = [i for i in numbers if 1 + i in given]
        if unit is None:
            return cls(moving, numbers, numbers)
        made = [i for i in numbers if unit.results[i] != unit.arguments[i]]
        given = unit.leaves_read([unit.results[i][0] for i in made])
        return cls(moving, [i for i in numbers if i in given], made)


def entries_at(values, places) -> tuple:
    """The values at the given indices."""
    return tuple(values[i] for i in places)


def scattered(values, places, like, many: int) -> tuple:
    """A tuple of length `many` with `values` at the given indices and zeros elsewhere."""
    return tuple(with_entries([jnp.zeros_like(like)] * many, places, values))
