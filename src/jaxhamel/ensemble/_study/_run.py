"""Runs the blocks of an ensemble on all devices and stores their results in order, until the accuracy targets are met."""

import time
import warnings
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel.ensemble._checks._quantities import check_accuracy, check_aux, check_quantities
from jaxhamel.ensemble._checks._run_folder import (
    another_program,
    begun_elsewhere,
    check_folder,
    other_numbers,
)
from jaxhamel.ensemble._checks._sampling import check_room, check_whole
from jaxhamel.ensemble._origin._origin import Origin
from jaxhamel.ensemble._study._block_store import BlockStore
from jaxhamel.ensemble._study._devices import Devices, gathered, in_order, of_the_first, together
from jaxhamel.ensemble._study._progress import (
    BY_THE_MODEL,
    NOT_FINITE,
    Goal,
    Moments,
    Progress,
    Target,
)

# Bounds of the default number of trajectories in a block. Larger blocks fall out of the cache (docs/performance.md).
SMALLEST_BLOCK, LARGEST_BLOCK = 256, 1024
ROUND = 4  # number of blocks that each thread computes between two exchanges of results among the processes


class SampleRows(Protocol):
    """The samples of a run, accessible by index."""

    size: int

    def __getitem__(self, rows: slice, /) -> dict[str, np.ndarray]: ...


class EnsembleRun:
    """The evaluation of a model for all samples, block by block.

    **Arguments:** as for `monte_carlo`; `model` maps whole blocks to whole blocks; `asked` has the settings that
    determine the numbers.
    """

    def __init__(
        self,
        model: Callable[[dict[str, Array]], Any],
        samples: SampleRows,
        asked: dict[str, Any],
        block: int | None = None,
        folder: Path | str | None = None,
        resume: bool = False,
        accuracy: Mapping[Any, float] | None = None,
        has_aux: bool = False,
    ):
        check_folder(folder, resume)
        wanted = check_whole("block", _default_block(samples.size) if block is None else block)
        # at most N, since unused lanes cost time; the default takes few different values, so that few programs are compiled
        self.samples, self.block = samples, wanted if block is None else min(wanted, samples.size)
        self._devices, self._has_aux, self._first = Devices(model), has_aux, None
        shapes = jax.eval_shape(model, self._padded_block(0))
        quantities = check_aux(shapes, self.block)[0] if has_aux else shapes
        self.names = check_quantities(quantities, self.block)
        self.events = tuple(n for n in self.names if quantities[n].dtype == bool)
        check_room("trajectories", samples.size, len(self.names) + 1)
        # before the folder is created, so that wrong arguments leave no folder behind
        targets = check_accuracy(accuracy, self.names, self.events)
        self._goal = Goal([Target(*each, each[0] in self.events) for each in targets])
        columns = [*self.names, "failed"]
        asked = {**asked, "quantities": self.names, "block": self.block}
        asked["precision"] = _precision()
        with together():  # under jax.distributed only process 0 has the folder
            mine = folder if jax.process_index() == 0 else None
            origin = None if mine is None else self._origin(model)
            self._store = BlockStore(mine, columns, samples.size, self.block, asked, resume, origin)
            if origin is not None and self._store.begun is not None:
                self._check(origin)
        if jax.process_count() > 1:
            self._store.table = of_the_first(self._store.table)

    def _check(self, origin: Origin) -> None:
        try:
            check_origin(self._store, origin, lambda index: self._rows((0, index)))
        except BaseException:
            self._store.close()
            raise

    def _origin(self, model: Callable[[dict[str, Array]], Any]) -> Origin:
        last = -(-self.samples.size // self.block) - 1
        return Origin.of(model, self._padded_block(0), self._padded_block(last))

    def values(
        self, progress: Callable[[Progress], None] | None = None
    ) -> dict[str, Float[np.ndarray, " N"]]:
        """The table's columns, up to the block after which the target accuracy is met."""
        try:
            with together():
                return self._values(progress)
        finally:
            self._store.close()

    def _values(self, progress: Callable[[Progress], None] | None) -> dict[str, np.ndarray]:
        """Stores the missing blocks as they arrive, in order, and reports progress; returns the columns computed so far."""
        store, moments, started = self._store, Moments.none(len(self.names)), time.monotonic()
        missing, fresh, done = store.missing, 0, 0
        arriving = self._arriving(missing)
        for index in range(store.blocks):
            if fresh < len(missing) and missing[fresh] == index:
                rows = store.rows(index)
                store.write(index, next(arriving)[: rows.stop - rows.start])
                fresh += 1
            moments += Moments.of(store[index][:, :-1])
            done = store.rows(index).stop
            here = store.first(done)
            if progress is not None:
                now = time.monotonic()
                running = now - (self._devices.ready or now)
                run, rest = (self.block * n for n in (fresh, len(missing) - fresh))
                times = (now - started, running)
                progress(Progress(here, store.size, moments, *times, run, rest, self.events))
            if self._goal.reached(here, moments):
                break
        arriving.close()
        return {name: x.copy() for name, x in store.first(done).items()}

    def first(self) -> Any:
        """The auxiliary results of the first block (`has_aux`); a resumed run computes that block again."""
        if self._has_aux and self._first is None:
            self._rows((0, 0))
        return self._first

    def _arriving(self, missing: list[int]) -> Generator[Float[np.ndarray, "B c"], None, None]:
        """Yields the rows of the missing blocks in order. Each process computes a share of them, and all receive all."""
        mine, here, each = self._threads(missing), jax.process_index(), len(missing)
        if jax.process_count() > 1:
            each = ROUND * mine
        for first in range(0, len(missing), max(each * jax.process_count(), 1)):
            share = missing[first + here * each :][:each]
            found = in_order(self._rows, list(enumerate(share)), mine)
            if jax.process_count() > 1:
                yield from self._gathered(list(found), each)[: len(missing) - first]
            else:
                yield from found

    def _threads(self, missing: list[int]) -> int:
        return max(min(self._devices.threads, len(missing)), 1)

    def _gathered(self, rows: list[np.ndarray], each: int) -> Float[np.ndarray, "R B c"]:
        """The rows of all processes, the share of one process after that of another."""
        padded = np.full((each, self.block, len(self.names) + 1), np.nan)
        for place, block in zip(padded, rows, strict=False):
            place[: len(block)] = block
        return gathered(padded).reshape(-1, *padded.shape[1:])

    def _rows(self, numbered: tuple[int, int]) -> Float[np.ndarray, "B c"]:
        """Computes block `index` as task `number`: each trajectory's quantities (NaN if it failed) and failure code."""
        number, index = numbered
        found = self._devices(number, self._padded_block(index))
        size = min(self.block, self.samples.size - index * self.block)
        if self._has_aux:
            found, aux = found
            self._first = (
                jax.tree.map(lambda x: np.asarray(x)[:size], aux) if index == 0 else self._first
            )
        found = {name: np.asarray(x) for name, x in found.items()}
        rows = np.stack([found[name][:size].astype(float) for name in self.names], axis=1)
        broken = ~np.isfinite(rows).all(axis=1)
        said = np.asarray(found.get("failed", np.zeros(size)))[:size] != 0
        why = np.where(broken, NOT_FINITE, np.where(said, BY_THE_MODEL, 0.0))
        rows[why != 0] = np.nan
        return np.concatenate([rows, why[:, None]], axis=1)

    def _padded_block(self, index: int) -> dict[str, np.ndarray]:
        """The samples of one block; a last, incomplete block is filled up with copies of its last sample."""
        sample = self.samples[index * self.block : (index + 1) * self.block]
        missing = self.block - len(next(iter(sample.values())))
        return {n: np.concatenate([x, np.repeat(x[-1:], missing, 0)]) for n, x in sample.items()}


def _default_block(size: int) -> int:
    """The default number of trajectories in a block: N/32, rounded to a power of two within bounds, on every machine."""
    return int(np.clip(2 ** round(np.log2(max(size, 1) / 32)), SMALLEST_BLOCK, LARGEST_BLOCK))


def _precision() -> str:
    return jax.dtypes.canonicalize_dtype(float).name


# Checks that the program that continues a run is the one that began it.


# Tolerance for trajectories computed again with other versions, relative to the largest value of a quantity: the machine
# precision to this power. Its square root admits rounding errors that the motion amplifies, but no change of a parameter.
_DIGITS = 0.5


def _tolerance() -> float:
    return float(jnp.finfo(jax.dtypes.canonicalize_dtype(float)).eps) ** _DIGITS


def check_origin(
    store: BlockStore, here: Origin, again: Callable[[int], Float[np.ndarray, "B c"]]
) -> None:
    """Checks that the program `here` is the one that began the run in the folder.

    The canonical texts of both programs must be equal. If they differ and the versions of JAX or Python differ too, one
    block is computed `again` instead, and its trajectories must agree with those in the folder.

    **Raises:** `ValueError` if the program or the numbers differ. `UserWarning` if only the versions differ.
    """
    there = store.begun
    if there is None:
        return
    same_program, versions = there.digest == here.digest, there.versions_not_of(here)
    if not same_program and not versions:
        raise another_program(store.folder, there.first_difference(here))
    if not versions:
        return
    rows, by = (0, 0.0) if same_program else _compare_first_block(store, again, versions)
    if store.missing and (same_program or rows):
        said = begun_elsewhere(store.folder, versions, same_program, rows, by)
        warnings.warn(said, UserWarning, stacklevel=5)


def _compare_first_block(
    store: BlockStore, again: Callable[..., Any], versions: str
) -> tuple[int, float]:
    """Computes the first block in the folder again; returns its number of trajectories and the largest relative change."""
    done = [index for index in range(store.blocks) if index not in store.missing]
    if not done:
        return 0, 0.0
    kept, found = store[done[0]], again(done[0])
    scale = np.nanmax(np.abs(kept), axis=0, initial=np.finfo(float).tiny)
    away = np.where(np.isnan(kept) & np.isnan(found), 0.0, np.abs(found - kept)) / scale
    worst = np.max(np.where(np.isnan(away), np.inf, away), axis=0)
    column = int(np.argmax(worst))
    if worst[column] > _tolerance():
        raise other_numbers(store.folder, versions, store.columns[column], worst[column])
    return len(kept), float(worst[column])
