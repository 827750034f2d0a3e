"""Which numbers of a state reverse mode has to keep, read off the programs of f and N.

Nothing depends on where a ball is on its plane, and of its state before N only the quaternion is not the state's after it.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxhamel._lanes._length import Written, written
from jaxhamel.ensemble._members._parameters import replaced


class Needed(NamedTuple):
    """Numbers of the state, by their places.

    `rate`: those on which f depends; `ends`: those of z on which N′ does; `made`: those of which N makes others.
    """

    rate: list[int]
    ends: list[int]
    made: list[int]

    @property
    def kept(self) -> list[int]:
        """All that is needed of the z that a step begins with."""
        return sorted({*self.rate, *self.ends})

    @property
    def moved(self) -> list[int]:
        """Those whose cotangents a step changes."""
        return sorted({*self.rate, *self.ends, *self.made})

    @classmethod
    def by(cls, motion: Any, rate: Written | None) -> "Needed":
        """`rate`: the motion's f, written out as (t, y, mine, shared)."""
        numbers = list(range(len(motion.y)))
        unit = written(motion.unit, (True, False), motion.y, motion.shared)
        moving = numbers
        if rate is not None:
            given = rate.needed([x for each in rate.results for x in each])
            moving = [i for i in numbers if rate.arguments[1 + i][0] in given]
        if unit is None:
            return cls(moving, numbers, numbers)
        made = [i for i in numbers if unit.results[i] != unit.arguments[i]]
        given = unit.needed([unit.results[i][0] for i in made])
        return cls(moving, [i for i in numbers if unit.arguments[i][0] in given], made)


def some(values, places) -> tuple:
    """The values at these places."""
    return tuple(values[i] for i in places)


def filled(values, places, like, many: int) -> tuple:
    """So many numbers, zero but for those at these places."""
    return tuple(replaced([jnp.zeros_like(like)] * many, places, values))
