"""monte_carlo: from distributions of parameters to statistics of what a motion does, reproducible to the last bit."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from jaxhamel import _checks
from jaxhamel.ensemble._study._distributions import Distributions
from jaxhamel.ensemble._study._run import Run
from jaxhamel.ensemble._study._running import Progress
from jaxhamel.ensemble._study._sampling import Samples
from jaxhamel.ensemble._study._study import Study


def monte_carlo(
    model: Callable[[dict[str, Array]], Any],
    distributions: Distributions,
    trajectories: int,
    *,
    seed: int = 0,
    sampler: str = "random",
    batched: bool = False,
    has_aux: bool = False,
    block: int | None = None,
    accuracy: Mapping[Any, float] | None = None,
    check: Callable[[dict[str, np.ndarray]], Any] | None = None,
    folder: Path | str | None = None,
    resume: bool = False,
    about: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Study:
    """What N motions do whose parameters are drawn from distributions.

    **Arguments:**

    - `model`: from one sample, a dictionary of arrays by the names in `distributions`, to the quantities of interest, a
      dictionary of numbers. With `batched=True` it takes and gives arrays with a leading axis of `block` samples, as
      `jaxhamel.ensemble.rollout` does. A Boolean quantity is an event, a limit that is crossed for instance: it has a
      probability with an interval. A quantity that is NaN or infinite, or a number `failed` that is not zero, marks a
      trajectory as failed: something went wrong in the model, and its numbers are in no statistic.
    - `distributions`: `Distribution`s by name.
    - `trajectories`: N; `seed`; `sampler`: `"random"`, `"latin-hypercube"` or `"sobol"`.
    - `has_aux`: as for `jax.grad`: whether `model` gives a pair, its quantities and arrays of anything else, paths to be
      drawn for instance; those of the first block are in `Study.first`.
    - `accuracy`: standard errors that are enough: `{"end": 0.01}` of a mean, `{("end", 0.95): 0.02}` of a quantile,
      `{"failed": 1e-3}` of the probability of failure, or of an event by its name. The run stops at the first block after
      which all are reached.
    - `check`: called before anything runs with the samples in which any number is smallest or largest: let it build the
      system, which refuses a mass that is not positive, or give False. A model cannot look at the values of what it is
      traced with: without `check` a negative mass moves like any other.
    - `folder`: where the numbers are written block by block. `resume`: go on with what is there, if it was begun with the
      same distributions, seed, sampler, N, block, precision and model: the operations that JAX traces of it, and the
      numbers and arrays that it refers to, are kept and compared. `about`: what JAX does not see of a model and decides
      the numbers (a file that a call of Python reads), as JSON; it is compared, too.
    - `progress`: called with a `Progress` as blocks are done; `print` shows a line each time.
    - `block`: trajectories that run together on one device; by default what suits N. A smaller one takes less memory.

    All devices that JAX has are used, under `jax.distributed` those of all processes (each calls this alike and gets
    everything; process 0 writes the folder), and all cores of a processor.

    **Returns:** a `Study`. Failed trajectories are counted and listed, and are in no statistic.

    **Raises:** `ValueError` for no trajectories, an unknown sampler or quantity, a folder that holds another run or the run
    of another model (with the operation that differs), `resume` without a folder, parameters that `check` refuses (with the
    trajectory's index); `OSError` where the folder cannot be written: all blocks written before stay, and `resume` goes on
    with them; `ModuleNotFoundError` for a folder without zarr (`pip install 'jaxhamel[cli]'`). Under `jax.distributed` what
    is wrong in one process ends all of them.

    JAX traces a model in another way from version to version. Where the folder was begun with other versions and the
    programs differ, trajectories that are there are computed again and must agree to half the digits of the precision; the
    run then goes on with a `UserWarning` that says so.

    The same N and seed give the same numbers to the last bit, in one go or in many, on one device or many.
    """
    samples = Samples(distributions, trajectories, seed, sampler)
    _checks.check_callable("model", model, "of a dictionary of arrays, one for each distribution")
    _checks.check_about(about)
    _checks.check_progress(progress)
    if check is not None:
        _checks.check_callable("check", check, "of one sample, a dictionary of arrays")
        samples.check(check)
    run = Run(
        model if batched else jax.vmap(model),
        samples,
        asked_of(samples, about),
        block,
        folder,
        resume,
        accuracy,
        has_aux,
    )
    return Study.of(run.values(progress), samples, run.first(), run.events)


def asked_of(samples: Samples, about: Mapping[str, Any] | None) -> dict[str, Any]:
    """What decides the numbers of a run, as a folder keeps it."""
    asked = {"trajectories": samples.size, "seed": samples.seed}
    asked |= {"sampler": samples.sampler, "about": about}
    return asked | {"distributions": {n: repr(d) for n, d in samples.distributions.items()}}
