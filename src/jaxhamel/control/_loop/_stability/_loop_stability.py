"""Stability of a loop about an equilibrium in one sentence: of a law in continuous time, or of a digital controller."""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Complex

from jaxhamel._typing import Configuration
from jaxhamel.control._checks._laws import check_law_of_loop, has_memory
from jaxhamel.control._loop._sampled import Sampled
from jaxhamel.control._loop._stability._multipliers import linear_period
from jaxhamel.mechanics import Feedback, System, linearise, modes
from jaxhamel.mechanics._checks._feedback import check_made_for

SMALL = 1e-6  # a multiplier or an eigenvalue this close to a neutral one counts as neutral


class LoopStability(NamedTuple):
    """Stability of a loop about an equilibrium; `print` it for a sentence.

    - `stable`: whether all deviations die away, apart from those of neutral modes, which stay constant, as along a symmetry
      or a constraint. False if one grows in proportion to time, as the place of a cart whose speed is not held.
    - `rate`: the rate σ at which the slowest deviation dies away (σ < 0) or the fastest one grows, as exp(σ t) [1/s]; 0 if
      to first order a deviation that is not neutral keeps its size, as in an undamped oscillation, or grows in proportion
      to time.
    - `eigenvalues`: λ of the equations of the closed loop [1/s], or with a `Sampled` the multipliers μ of one period, the
      least stable first; σ = Re λ or log|μ| / T.
    - `reason`: for an unstable loop the cause, as a sentence; for deviations that grow in proportion to time the end of
      one; else empty.
    """

    stable: bool
    rate: float
    eigenvalues: Complex[np.ndarray, " m"]
    reason: str

    def __str__(self) -> str:
        time = math.log(2) / abs(self.rate) if self.rate else math.inf
        if self.stable:
            return f"stable: the slowest deviation halves in {time:.3g} s"
        if not self.rate:
            return f"marginal: to first order some deviations {self.reason or 'neither grow nor die away.'}"
        return f"unstable: small deviations double in {time:.3g} s. {self.reason}"


def loop_stability(
    system: System,
    q: Configuration,
    u: ArrayLike,
    law: Any,
    *,
    t: ArrayLike = 0.0,
    steps: int = 2,
    route: str | None = None,
) -> LoopStability:
    """Tells whether a loop about an equilibrium (q, u) is stable to first order, how fast deviations grow, and why.

    A digital controller that is unstable is compared with itself without its delay, and with its law in continuous time: the
    reason is the delay, the period, or the gains themselves.

    **Arguments:**

    - `system`: any system; `q`, `u`: an equilibrium of the loop.
    - `law`: a `Sampled` without sensors, a `jaxhamel.Feedback`, or a callable pytree (t, q, u) → control.
    - `t`: the time [s]; `steps`, `route`: as for `loop_multipliers`, with a `Sampled`.

    **Returns:** a `LoopStability`. All values must be concrete: it cannot be called under `jit` or `grad`.

    **Raises:** `TypeError` for anything that is no law; with a `Sampled`, the errors of `loop_multipliers`.
    """
    check_law_of_loop(law)
    if not isinstance(law, Sampled):
        return _continuous(system, q, u, law, t)
    found = _sampled(system, q, u, law, t, steps, route)
    if found.rate <= 0:
        return found
    return found._replace(reason=_reason(system, q, u, law, t, steps, route))


def _continuous(system, q, u, law, t) -> LoopStability:
    law = law if isinstance(law, Feedback) else Feedback(law)
    check_made_for("`law`", law.function, system)
    q, u = jax.tree.map(jnp.asarray, (q, u))
    A = linearise(system, t, q, u, law).A
    found = modes(A)
    values = np.asarray(found.eigenvalues)
    small = _small(A.dtype) * max(float(jnp.max(jnp.abs(A))), 1.0)
    neutral = np.asarray(found.zero) | (np.abs(values) < small)
    rate, stable = _rate(np.real(values), neutral, small)
    return _verdict(rate, stable, values, np.asarray(A), int(np.sum(neutral)))


def _sampled(system, q, u, controller: Sampled, t, steps, route) -> LoopStability:
    M = np.asarray(linear_period(system, q, u, controller, t, steps, route))
    values, period, small = _largest_first(M), float(controller.period), _small(M.dtype)
    with np.errstate(divide="ignore"):
        rates = np.log(np.abs(values)) / period
    neutral = np.abs(values - 1) < small
    rate, stable = _rate(rates, neutral, small / period)
    return _verdict(rate, stable, values, (M - np.eye(len(M))) / period, int(np.sum(neutral)))


def _largest_first(M: np.ndarray) -> np.ndarray:
    """The eigenvalues of M, the largest first."""
    values = np.linalg.eigvals(M)
    return values[np.argsort(-np.abs(values))]


def _verdict(
    rate: float, stable: bool, values: np.ndarray, A: np.ndarray, neutral: int
) -> LoopStability:
    """The result for the linear equations δ̇ = A δ, or δ_{k+1} = (1 + T A) δ_k, with a number of neutral eigenvalues."""
    if rate > 0:
        return LoopStability(False, rate, values, THE_GAINS)
    if _drifts(A, neutral):
        return LoopStability(False, 0.0, values, DRIFT)
    return LoopStability(stable, rate, values, "")


def _drifts(A: np.ndarray, neutral: int) -> bool:
    """Whether A has fewer null vectors than neutral eigenvalues: a Jordan block, which grows in proportion to time."""
    sizes = np.linalg.svd(A, compute_uv=False)
    return bool(np.sum(sizes <= _small(A.dtype) * max(sizes[0], 1.0)) < neutral)


def _small(dtype: Any) -> float:
    """The largest distance of a neutral eigenvalue, relative to A: rounding moves a double one by the root of its error."""
    return max(SMALL, 10.0 * float(np.finfo(dtype).eps) ** 0.5)


def _rate(rates: np.ndarray, neutral: np.ndarray, small: float) -> tuple[float, bool]:
    """(the largest rate of the modes that are not neutral, whether it is negative); rates below `small` count as 0."""
    rate = float(np.max(rates[~neutral], initial=-np.inf))
    rate = 0.0 if abs(rate) <= small or rate == -np.inf else rate
    return rate, rate < 0


DRIFT = "grow in proportion to time, as the place of a body whose speed nothing changes."
THE_GAINS = "The gains are the reason: without delay and in continuous time they do not hold the equilibrium, either."


def _reason(system, q, u, controller: Sampled, t, steps, route) -> str:
    """Why an unstable digital loop is unstable: its delay, its period or its gains."""
    period, delay = float(controller.period), controller.delay
    if delay:
        prompt = _sampled(system, q, u, dataclasses.replace(controller, delay=0), t, steps, route)
        if prompt.stable:
            advice = (
                "make the gains smaller, or give a `model` that predicts the state over the delay"
            )
            if controller.model is not None:
                advice = "or make the gains smaller"
            return (
                f"The delay of {delay * period:.3g} s is the reason: without it the loop is stable. Shorten the delay, "
                f"{advice}."
            )
    if has_memory(controller.law):
        return (
            f"It is unstable without delay, too. Change the gains, or the period of {period:.3g} s."
        )
    if _continuous(system, q, u, controller.law, t).stable:
        return (
            f"The period of {period:.3g} s is the reason: in continuous time the law holds the equilibrium. Shorten the "
            "period, or make the gains smaller."
        )
    return THE_GAINS
