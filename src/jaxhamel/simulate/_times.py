"""`TimesInOrder`: times that are known to increase, so that diffrax does not test them in each run."""

from typing import Any

import diffrax
import equinox as eqx
from jaxtyping import Array, Float


class TimesInOrder(eqx.Module):
    """Increasing times between the first and the last of the motion, as `SubSaveAt.ts`.

    diffrax compares the times with each other and with the ends of the motion while the program runs, and raises by calling
    back into Python. JAX does not keep such programs in its cache on disk, and compiling them takes longer
    (docs/performance.md#first-values). Here both comparisons return False, without a computation.
    """

    times: Float[Array, " T"]

    @property
    def dtype(self) -> Any:
        return self.times.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.times.shape

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, at: Any) -> Any:
        return TimesInOrder(self.times[at]) if isinstance(at, slice) else self.times[at]

    def __lt__(self, other: Any) -> bool:
        return False

    def __gt__(self, other: Any) -> bool:
        return False

    def __mul__(self, direction: Any) -> "TimesInOrder":
        return TimesInOrder(self.times * direction)

    def astype(self, dtype: Any) -> "TimesInOrder":
        return TimesInOrder(self.times.astype(dtype))


def saved_at(ts: Float[Array, " T"], in_order: bool) -> diffrax.SubSaveAt:
    """diffrax's request to save the states at `ts`; `in_order`: whether the times are known to increase."""
    found = diffrax.SubSaveAt(ts=ts)
    return eqx.tree_at(lambda s: s.ts, found, TimesInOrder(ts)) if in_order else found
