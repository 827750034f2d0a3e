"""Learns the numbers of a policy by gradients through closed loops; and the mean of the largest values, a cost for that."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._files import written
from jaxhamel._search._loop import Progress
from jaxhamel.control._checks._controllers import (
    check_checkpoint,
    check_losses_file,
    check_training,
)
from jaxhamel.control._checks._region import check_tail

SAVED_EVERY = 50  # updates between two writes of the checkpoint


class Training(NamedTuple):
    """The result of `train`.

    - `policy`: the policy after the last update with a finite loss; `losses`: the loss before each update, `(K,)`.
    - `outcome`: `"finished"`, `"interrupted"`, or `"not finite"` if loss or gradient was NaN or infinite.
    """

    policy: Any
    losses: Float[np.ndarray, " K"]
    outcome: str


def train(
    loss: Callable[[Any, Array], Array],
    policy: Any,
    updates: int,
    *,
    key: Array,
    optimiser: optax.GradientTransformation | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[Progress], Any] | None = None,
) -> Training:
    """Lowers the expected loss of a policy by stochastic gradient steps:

        p_{k+1} = p_k + optimiser(∇ loss(p_k, key_k)) ,    key_k = fold_in(key, k) .

    **Arguments:**

    - `loss`: (policy, key) → a number, for example the mean cost of many trajectories of `closed_loop` whose initial states
      and noise are drawn by the key.
    - `policy`: a pytree; its floating arrays are learned: an `equinox.nn.MLP` inside of a law, or gains.
    - `updates`: the number K of steps, including those of an earlier run that is continued.
    - `key`: a JAX random key.
    - `optimiser`: of optax; default `optax.adam(1e-2)`.
    - `checkpoint`: a file for the state of the training, written every 50 updates and at the end, also after Ctrl-C. If it
      exists, the training continues from it, with the same numbers as without the interruption.
    - `progress`: called with a `Progress` after each update: its number, the loss as `cost`, the seconds so far, and an
      estimate of the seconds left.

    **Returns:** a `Training`. Ctrl-C ends the training after the update under way, with the outcome `"interrupted"`.

    **Raises:** `TypeError` or `ValueError` for a loss that is not a number, or a file of another policy or optimiser.
    """
    optimiser = optax.adam(1e-2) if optimiser is None else optimiser
    check_training(loss, policy, updates, key, optimiser)
    _checks.check_progress(progress)
    learned, fixed = eqx.partition(policy, eqx.is_inexact_array)
    state, losses = (learned, optimiser.init(learned)), []
    path = check_checkpoint(checkpoint)
    if path is not None and path.exists():
        state, losses = _read_checkpoint(path, state)
    outcome, times = "finished", [time.monotonic()]
    try:
        while len(losses) < updates:
            k = jnp.asarray(len(losses), jnp.uint32)
            value, finite, later = _update(loss, optimiser, fixed, state, key, k)
            if not bool(finite):
                outcome = "not finite"
                break
            state = later
            losses.append(float(value))
            if path is not None and len(losses) % SAVED_EVERY == 0:
                _write_checkpoint(path, state, losses)
            if progress is not None:
                times.append(time.monotonic())
                progress(_progress(losses, times, updates))
    except KeyboardInterrupt:
        outcome = "interrupted"
    if path is not None:
        _write_checkpoint(path, state, losses)
    return Training(eqx.combine(state[0], fixed), np.array(losses), outcome)


def _progress(losses: list[float], times: list[float], updates: int) -> Progress:
    """The `Progress` after an update. The first update, which is mostly compilation, does not enter the time left."""
    since = min(1, len(times) - 2)
    pace = (times[-1] - times[since]) / (len(times) - 1 - since)
    left = pace * (updates - len(losses))
    return Progress.of_cost(len(losses), losses[-1], times[-1] - times[0], left)


@compiled
def _update(loss, optimiser, fixed, state, key, k):
    """The loss, whether it and its gradient are finite, and the state after one step."""
    learned, moments = state

    def of(learned):
        return loss(eqx.combine(learned, fixed), jax.random.fold_in(key, k))

    value, slope = jax.value_and_grad(of)(learned)
    with jax.numpy_dtype_promotion("standard"):  # optax multiplies numbers of several dtypes
        step, moments = optimiser.update(slope, moments, learned)
    finite = [jnp.all(jnp.isfinite(x)) for x in (value, *jax.tree.leaves(slope))]
    return value, jnp.all(jnp.stack(finite)), (optax.apply_updates(learned, step), moments)


def _write_checkpoint(path: Path, state: Any, losses: list[float]) -> None:
    arrays: dict[str, Any] = {f"state {i}": x for i, x in enumerate(jax.tree.leaves(state))}
    with written(path, binary=True) as file:
        np.savez(file, **arrays, losses=np.array(losses))  # pyright: ignore[reportArgumentType]


def _read_checkpoint(path: Path, state: Any) -> tuple[Any, list[float]]:
    leaves, structure = jax.tree.flatten(state)
    found = check_losses_file(path, leaves)
    arrays = [jnp.asarray(found[f"state {i}"]) for i in range(len(leaves))]
    return jax.tree.unflatten(structure, arrays), found["losses"].tolist()


def tail_mean(values: ArrayLike, share: ArrayLike) -> Float[Array, "..."]:
    """The mean of the largest `share` of N values, the conditional value at risk of the ensemble:

        CVaR_p = min over c of  c + Σ_i max(v_i − c, 0) / (p N) .

    It replaces the chance constraint P(v > 0) ≤ p, on the safe side: if CVaR_p ≤ 0, at most p N of the values are positive.
    Unlike the number of positive values it has a derivative, so that `control.train` can lower it through the closed loops
    of an ensemble (docs/feedback.md). If p N is no whole number, the smallest of the largest values has a smaller weight;
    if p N ≤ 1, the result is the largest value.

    **Arguments:**

    - `values`: v, one for each member of the ensemble, `(N, ...)`.
    - `share`: p, 0 < p ≤ 1; 1: the mean of all.

    **Returns:** an array of the shape `(...)`; NaN where a value is.

    **Raises:** `TypeError` or `ValueError` for no values, or a share outside of (0, 1].

    Source: Rockafellar and Uryasev 2000.
    """
    check_tail(values, share)
    values = jnp.asarray(values)
    count = jnp.asarray(share, values.dtype) * values.shape[0]
    weights = jnp.clip(count - jnp.arange(values.shape[0]).astype(values.dtype), 0.0, 1.0)
    largest = jnp.flip(jnp.sort(values, axis=0), axis=0)
    return jnp.tensordot(weights / jnp.sum(weights), largest, axes=1)
