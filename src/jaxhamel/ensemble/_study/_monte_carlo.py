"""monte_carlo: from distributions of parameters to statistics of a motion's quantities, reproducible to the last bit."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from jaxhamel import _checks
from jaxhamel.ensemble._checks._run_folder import check_about
from jaxhamel.ensemble._checks._sampling import check_model
from jaxhamel.ensemble._study._distributions import Distributions
from jaxhamel.ensemble._study._progress import Progress
from jaxhamel.ensemble._study._run import EnsembleRun
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
    """Runs a model for N samples of its parameters, drawn from distributions, and collects the statistics of the results.

    **Arguments:**

    - `model`: maps one sample, a dictionary of arrays with the names in `distributions`, to the quantities of interest, a
      dictionary of numbers. With `batched=True` it takes and returns arrays with a leading axis of `block` samples, as
      `jaxhamel.ensemble.rollout` does. A Boolean quantity is an event (for instance, a limit is crossed): its probability
      is estimated with a confidence interval. A quantity that is NaN or infinite, or a number `failed` that is not zero,
      marks the trajectory as failed; failed trajectories are left out of the statistics.
    - `distributions`: `Distribution`s by name.
    - `trajectories`: N; `seed`; `sampler`: `"random"`, `"latin-hypercube"` or `"sobol"`.
    - `has_aux`: as for `jax.grad`: whether `model` returns a pair of its quantities and any other arrays, for instance
      paths to plot. `Study.first` has the other arrays of the first block.
    - `accuracy`: target standard errors: `{"end": 0.01}` for a mean, `{("end", 0.95): 0.02}` for a quantile,
      `{"failed": 1e-3}` for the probability of failure, or likewise an event's name. The run stops after the first block at
      which all targets are met.
    - `check`: called before the run with each sample in which some number takes its smallest or largest value. It should
      build the system, whose constructor refuses, say, a negative mass, or return False for a bad sample. A traced model
      cannot check values: without `check`, a trajectory with a negative mass is computed like any other.
    - `folder`: the folder to which the numbers are written block by block. `resume`: continue the run in the folder. It
      must have been begun with the same distributions, seed, sampler, N, block, precision and model. To compare models,
      the operations that JAX traces and the numbers and arrays that they refer to are stored with the run. `about`:
      anything else that determines the numbers but is invisible to JAX (for instance the name of a file that a Python
      callback reads), as JSON; it is compared, too.
    - `progress`: called with a `Progress` after each block; `print` shows one line each time.
    - `block`: number of trajectories computed together on one device; the default is chosen from N. A smaller block takes
      less memory.

    All JAX devices are used, and all cores of a CPU. Under `jax.distributed`, every process calls this function with the
    same arguments and receives all results; the devices of all processes are used, and process 0 writes the folder.

    **Returns:** a `Study`, with the failed trajectories counted and listed.

    **Raises:** `ValueError` for no trajectories, an unknown sampler or quantity, a folder that holds another run or the
    run of another model (the message names the first operation that differs), `resume` without a folder, or parameters
    that `check` refuses (the message has the trajectory's index); `OSError` if the folder cannot be written: all earlier
    blocks are kept and `resume` continues from them; `ModuleNotFoundError` for a folder without zarr (`pip install
    'jaxhamel[cli]'`). Under `jax.distributed` an error in one process ends all of them.

    Different versions of JAX trace the same model differently. If the folder was begun with other versions and the
    programs differ, a block of trajectories is computed again and must agree to half the digits of the precision; the run
    then continues with a `UserWarning`.

    The same N and seed give the same numbers to the last bit, with or without interruptions, on one device or many.
    """
    samples = Samples(distributions, trajectories, seed, sampler)
    check_model(model)
    check_about(about)
    _checks.check_progress(progress)
    if check is not None:
        _checks.check_callable("check", check, "of one sample, a dictionary of arrays")
        samples.check(check)
    run = EnsembleRun(
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
    """The settings that determine the numbers of a run, as stored in its folder."""
    asked = {"trajectories": samples.size, "seed": samples.seed}
    asked |= {"sampler": samples.sampler, "about": about}
    return asked | {"distributions": {n: repr(d) for n, d in samples.distributions.items()}}
