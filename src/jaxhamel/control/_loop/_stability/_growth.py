"""Growth of small deviations in a digital loop about the plan of its regulator."""

from collections import deque
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from jaxhamel.control._checks._laws import check_norm_weights, check_regulator_held
from jaxhamel.control._loop._regulator import Regulator
from jaxhamel.control._loop._sampled import Sampled

SAMPLES_OF_GROWTH = 100  # multipliers are computed at about this number of samples
LARGE_STATE = 50  # from this number of entries of x on, they are computed at fewer samples
TERMS = 12  # terms of the series of the exponential, whose argument has a norm of at most 1/2


class LoopGrowth(NamedTuple):
    """The growth of small deviations along a plan, at some of its samples; from `loop_growth`.

    - `ts`: `(L,)` [s]; `growth`: the largest factor by which a deviation of the state grows from the start to each time;
      `multipliers`: the largest |eigenvalue| of the loop's map over the period that begins at each time.
    """

    ts: Float[np.ndarray, " L"]
    growth: Float[np.ndarray, " L"]
    multipliers: Float[np.ndarray, " L"]


def loop_growth(controller: Sampled, weights: ArrayLike | None = None) -> LoopGrowth:
    """The growth of small deviations δ in a digital loop about the plan of its regulator, to first order:

        x_{k+1} = M_k x_k ,    x = (δ, delayed commands) ,    growth_k = ‖M_{k−1} ⋯ M_0‖ of δ ,
        δ_{k+1} = e^{A T} δ_k + ∫_0^T e^{A s} ds B c_{k−d} ,    c_k = −K δ_k ,

    with A, B and K of the regulator at t_k, without limits, sensors and estimator. A `model` of the controller counts as
    exact, so that a command that acts from t_k on is −K δ_k in spite of the delay. If the growth at the end is much larger
    than 1, the loop does not stay at the plan: the gains are too large for its period and delay, or the period is too long
    for the motion. The eigenvalues of a single M_k do not decide on stability, since the plan moves; they show at which
    times deviations grow.

    **Arguments:**

    - `controller`: a `Sampled` whose law is a `Regulator`.
    - `weights`: w ≥ 0, `(n+k,)`, in ‖δ‖² = Σ w δ², for example the diagonal of the regulator's `state_cost`, so that metres
      and radians can be compared. A coordinate of weight 0, such as the angle of a wheel, does not count. Default: 1.

    **Returns:** a `LoopGrowth` at about 100 samples, the last one included. The norm is the largest singular value; δ is in
    SI units.

    **Raises:** `TypeError` for another law, or traced numbers; `ValueError` for weights that do not fit.

    Source: Åström and Wittenmark 1997, ch. 3.
    """
    law = check_regulator_held(controller)
    sizes = np.ones(law.gains.shape[-1])
    if weights is not None:
        sizes = np.sqrt(check_norm_weights(weights, len(sizes)))
    period, first, last = (float(x) for x in (controller.period, law.ts[0], law.ts[-1]))
    count = max(1, int((last - first) / period * (1 + 1e-9)))
    ts = first + period * np.arange(count + 1)
    E, F, K = _matrices(law, ts, period)
    predicts = controller.model is not None
    delay = 0 if predicts else controller.delay
    size = F.shape[1] + delay * F.shape[2]
    looked_at = min(count, SAMPLES_OF_GROWTH // (1 + size // LARGE_STATE))
    some = np.unique(np.linspace(0, count, looked_at + 1).astype(int))
    maps = _maps(E[some], F[some], K[some], delay)
    largest = np.max(np.abs(np.linalg.eigvals(maps)), axis=1)
    if predicts:  # no command of the plan's deviations acts yet
        K[: controller.delay] = 0.0
    return LoopGrowth(ts[some], _norms(E, F, K, delay, sizes)[some], largest)


def _matrices(
    law: Regulator, ts: np.ndarray, period: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The matrices E, F and K of δ_{k+1} = E δ_k + F c_{k−d}, c_k = −K δ_k, at all samples."""
    tables = (*law.linear, law.gains)
    A, B, K = (_at_times(np.asarray(law.ts), np.asarray(x), ts) for x in tables)
    d = A.shape[1]
    both = _exponential(np.concatenate([A, B], axis=2) * period)
    return both[..., :d], both[..., d:], K


def _maps(E: np.ndarray, F: np.ndarray, K: np.ndarray, delay: int) -> np.ndarray:
    """The matrices M_k of some samples; in x, the delayed commands are ordered by the time at which they act."""
    count, d, p = F.shape
    if delay == 0:
        return E - F @ K
    maps = np.zeros((count, d + delay * p, d + delay * p))
    maps[:, :d, :d], maps[:, :d, d : d + p] = E, F
    later = np.arange(d, d + (delay - 1) * p)
    maps[:, later, later + p] = 1.0
    maps[:, d + (delay - 1) * p :, :d] = -K
    return maps


def _at_times(times: np.ndarray, values: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Interpolates matrices, given at equally spaced `times`, linearly to the times `ts`."""
    place = np.clip((ts - times[0]) / (times[-1] - times[0]), 0.0, 1.0) * (len(times) - 1)
    index = np.minimum(place.astype(int), len(times) - 2)
    share = (place - index)[:, None, None]
    return values[index] + share * (values[index + 1] - values[index])


def _exponential(AB: Float[np.ndarray, "K d m"]) -> Float[np.ndarray, "K d m"]:
    """(e^A, ∫_0^1 e^{A s} ds B) of (A, B): the first rows of the exponential of ((A, B), (0, 0)).

    By NumPy, for all samples at once: JAX's `expm` would compile a program for each number of samples.
    """
    d, m = AB.shape[1:]
    whole = np.concatenate([AB, np.zeros((len(AB), m - d, m))], axis=1)
    size = np.max(np.sum(np.abs(whole), axis=2), initial=0.0)
    halvings = max(0, int(np.ceil(np.log2(max(size, 1e-300)))) + 1)
    small, unit = whole / 2.0**halvings, np.eye(m)
    found = np.broadcast_to(unit, whole.shape)
    for k in range(TERMS, 0, -1):
        found = unit + small @ found / k
    for _ in range(halvings):
        found = found @ found
    return found[:, :d]


def _norms(
    E: np.ndarray, F: np.ndarray, K: np.ndarray, delay: int, sizes: np.ndarray
) -> np.ndarray:
    """‖D M_{k−1} ⋯ M_0 D⁻¹‖ of δ at all samples, D = diag(`sizes`) without its zeros; infinite where it overflows."""
    some = sizes > 0
    delta, norms = np.diag(1.0 / np.where(some, sizes, 1.0))[:, some], []
    waiting = deque([np.zeros((F.shape[2], delta.shape[1]))] * delay)
    with np.errstate(over="ignore", invalid="ignore"):
        for now in zip(E, F, K, strict=True):
            known = np.all(np.isfinite(delta))
            norms.append(np.linalg.norm((sizes[:, None] * delta)[some], 2) if known else np.inf)
            waiting.append(-now[2] @ delta)
            delta = now[0] @ delta + now[1] @ waiting.popleft()
    return np.array(norms)
