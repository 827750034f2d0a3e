"""monte_carlo: from distributions of parameters to statistics of what a motion does, reproducible to the last bit."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from jaxhamel import _checks
from jaxhamel.ensemble._block_store import BlockStore
from jaxhamel.ensemble._distributions import Distributions
from jaxhamel.ensemble._moments import Moments
from jaxhamel.ensemble._sampling import Samples
from jaxhamel.ensemble._study import Study

# Trajectories in a block. A block always runs as one program on as many trajectories, the last one filled up, so that
# rounding does not depend on how many there are, nor on when the run was interrupted.
BLOCK = 256


class Progress(NamedTuple):
    """How far a run is: `done` of `size` trajectories, `failed` of them, `elapsed` and `left` [s]."""

    done: int
    size: int
    failed: int
    elapsed: float
    left: float


def monte_carlo(
    model: Callable[[dict[str, Array]], Mapping[str, Array]],
    distributions: Distributions,
    trajectories: int,
    *,
    seed: int = 0,
    sampler: str = "random",
    batched: bool = False,
    block: int = BLOCK,
    accuracy: Mapping[str, float] | None = None,
    folder: Path | str | None = None,
    resume: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Study:
    """What N motions do whose parameters are drawn from distributions.

    **Arguments:**

    - `model`: from one sample, a dictionary of arrays by the names in `distributions`, to the quantities of interest, a
      dictionary of numbers. With `batched=True` it takes and gives arrays with a leading axis of `block` samples, as
      `jaxhamel.ensemble.rollout` does. A quantity that is NaN or infinite, or a number `failed` that is not zero, marks
      a trajectory as failed.
    - `distributions`: `Distribution`s by name.
    - `trajectories`: N; `seed`; `sampler`: `"random"`, `"latin-hypercube"` or `"sobol"`.
    - `block`: trajectories that run together.
    - `accuracy`: by quantity the standard error of the mean that is enough: the run stops at the first block after which
      all are reached (a random sample only).
    - `folder`: where the numbers are written block by block; `resume`: go on with what is there.
    - `progress`: called after each block.

    **Returns:** a `Study`. Failed trajectories are counted and listed, and are in no statistic.

    **Raises:** `ValueError` for no trajectories, an unknown sampler or quantity, a folder that holds another run.

    The same N, seed, sampler and block give the same numbers to the last bit, in one go or in many.
    """
    samples = Samples(distributions, trajectories, seed, block, sampler)
    run = eqx.filter_jit(model if batched else jax.vmap(model))
    names = _quantities(run, samples)
    wanted = _checks.check_accuracy(accuracy, names)
    asked = {"trajectories": trajectories, "seed": seed, "sampler": sampler, "block": block}
    asked["distributions"] = {name: repr(each) for name, each in distributions.items()}
    store = BlockStore(folder, [*names, "failed"], trajectories, block, asked, resume)
    started, fresh, index, moments = time.monotonic(), 0, 0, Moments.none(len(names))
    for index in range(samples.blocks):
        if not store.has(index):
            store.write(index, _evaluate(run, samples[index], names, block))
            fresh += 1
        moments += Moments.of(store[index][:, :-1])
        if progress is not None:
            done = samples.rows(index).stop
            progress(_progress(done, moments.n, samples, time.monotonic() - started, fresh, index))
        if np.all(moments.mean_error <= wanted):
            break
    return Study.of(store.read(index + 1), samples)


def _quantities(run: Callable, samples: Samples) -> list[str]:
    """The names of what the model gives, found without computing anything."""
    full = jax.eval_shape(run, _filled_up(samples[0], samples.block))
    return _checks.check_quantities(full, samples.block)


def _evaluate(run: Callable, sample: dict, names: list[str], block: int) -> np.ndarray:
    """The rows of one block: the quantities, NaN where a trajectory failed, and whether it did."""
    size = len(next(iter(sample.values())))
    found = {name: np.asarray(x)[:size] for name, x in run(_filled_up(sample, block)).items()}
    rows = np.stack([found[name].astype(float) for name in names], axis=1)
    failed = ~np.isfinite(rows).all(axis=1) | (found.get("failed", np.zeros(size)) != 0)
    rows[failed] = np.nan
    return np.concatenate([rows, failed[:, None].astype(float)], axis=1)


def _filled_up(sample: dict, block: int) -> dict:
    """A block of full length: its last sample repeated."""
    missing = block - len(next(iter(sample.values())))
    return {
        name: np.concatenate([x, np.repeat(x[-1:], missing, axis=0)]) for name, x in sample.items()
    }


def _progress(done, good, samples: Samples, elapsed, fresh, index) -> Progress:
    left = elapsed / max(fresh, 1) * (samples.blocks - 1 - index)
    return Progress(done, samples.size, done - good, elapsed, left)
