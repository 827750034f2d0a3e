"""The form in which an adaptive step is compiled, chosen by the number of operations of the equations of motion.

A step written out, with all its stages, is one loop over the lanes, which passes no slopes through memory. A loop over the
stages has the equations of motion once, so that it compiles sooner, and its look-ups stay look-ups: in a step written out
the position of a read in a later stage depends on reads in earlier ones. Timings: docs/performance.md#adaptive-steps.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxhamel._lanes._divided._look_ups import MOST_LOOKED_UP
from jaxhamel._lanes._tracing import is_described
from jaxhamel.ensemble._equal_steps._stepped_motion import SteppedMotion, written_rate
from jaxhamel.ensemble._methods._embedded_pairs import Pair

# The most lanes, and the number of lanes for the last slow trajectories. With a power of two as the first, columns would
# compete for the same sets of the cache.
WIDEST, NARROW = 1920, 64
# A step of more operations than this is compiled for one number of lanes only, which takes half the time.
LONG = 5_000
# A step of more operations than this is compiled as a loop over its stages.
LONGEST = 20_000
# The slopes of so many lanes, which a loop over the stages keeps in memory, fit into the second-level cache.
LANES_OF_LOOP = 240

# Lanes on a GPU, where an iteration costs the same for one lane as for thousands. Not measured.
ON_GPU = 2**17

# The fewest lanes: LLVM unrolls a loop over eight lanes and compiles for 90 s instead of 3. Smaller ensembles are left to
# diffrax under vmap, which is as fast for them.
FEWEST = 32

Widths = tuple[tuple[int, int], ...]


class StepForm(NamedTuple):
    """How the steps of an ensemble are compiled.

    - `whole`: for each shared array, whether it stays an array: one that only operations on large arrays read, as of a
      network.
    - `looped`: whether a step is a loop over its stages; `length`: the number of operations of a step that is written out.
    """

    whole: list[bool]
    looped: bool
    length: int

    @classmethod
    def of(cls, motion: SteppedMotion, pair: Pair) -> "StepForm":
        """Chooses the form. Primitives that lanes cannot take run under `vmap`, in a step that is written out."""
        leaves, stages = jax.tree.leaves(motion.shared), len(pair.b)
        found = written_rate(motion, jnp.zeros_like(motion.y[0]))
        if found is None:
            return cls([False] * len(leaves), False, 0)
        arrays, length = found.apart.operations > 0, stages * found.length
        read = found.arguments[len(found.arguments) - len(leaves) :]
        looped = arrays or stages * found.look_ups > MOST_LOOKED_UP or length > LONGEST
        return cls([arrays and not nodes for nodes in read], looped, length)

    @property
    def is_long(self) -> bool:
        """Whether compilation is kept short: for one number of lanes only, and in reverse mode by a loop over the stages."""
        return self.looped or self.length > LONG

    def widths_for(self, size: int) -> Widths:
        """Chooses numbers of lanes, in pairs (lanes, busy): when at most `busy` lanes are busy, the next pair takes over."""
        if jax.default_backend() != "cpu" and not is_described():
            return ((min(size, ON_GPU), 0),)
        most = LANES_OF_LOOP if self.looped else WIDEST
        width = max(-(-min(size, most) // 8) * 8, FEWEST)  # a multiple of the vector length
        width += 8 * (width % 512 == 0)
        if self.is_long or width < 2 * NARROW:
            return ((width, 0),)
        return (width, max(width // 4, NARROW)), (NARROW, 0)


def as_scalars(tree: Any, whole: list[bool]) -> tuple[Any, Callable]:
    """Splits arrays into scalars before the loop over the steps; returns these and a function that rebuilds the arrays.

    `whole`: the arrays that stay as they are.
    """
    leaves, structure = jax.tree.flatten(tree)
    scalars = [
        x if kept else [jnp.ravel(x)[i] for i in range(jnp.size(x))]
        for x, kept in zip(leaves, whole, strict=True)
    ]
    like = [(jnp.shape(x), jnp.result_type(x)) for x in leaves]

    def array(each, shape, dtype):
        if not isinstance(each, list):
            return each
        return jnp.stack(each).reshape(shape) if each else jnp.zeros(shape, dtype)

    def rebuilt(scalars):
        pairs = zip(scalars, like, strict=True)
        return jax.tree.unflatten(structure, [array(each, *x) for each, x in pairs])

    return scalars, rebuilt
