"""Sensitivity of a quantity to its random parameters: Sobol indices by sampling, and upper bounds on them by derivatives.

For a quantity f(x) of independent parameters x_i, with variance V,

    S_i = Var(E[f | x_i])/V ,     T_i = E[Var(f | x_j, j ≠ i)]/V ,

S_i is the share of the variance that x_i explains alone, T_i the share with all its interactions (Sobol 1993; Homma and
Saltelli 1996).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from jaxhamel.ensemble._checks._quantities import (
    check_base_samples,
    check_left_over,
    check_quantities,
    check_slopes,
)
from jaxhamel.ensemble._checks._run_folder import check_about
from jaxhamel.ensemble._checks._sampling import check_model, check_sampling, check_whole
from jaxhamel.ensemble._study._distributions import Distributions
from jaxhamel.ensemble._study._progress import Progress
from jaxhamel.ensemble._study._run import EnsembleRun
from jaxhamel.ensemble._study._sampling import (
    SAMPLERS,
    Probabilities,
    Samples,
    column_names,
    dimension,
    samples_of_cube,
)

BlockFunction = Callable[[dict[str, Array]], Mapping[str, Array]]


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Sensitivity indices of each parameter, for each quantity.

    - `parameters`: d names, one for each random number.
    - `indices`: `(d,)` by quantity and kind (`first`, `total`, `bound`); `low`, `high`: the ends of their 95 % intervals.
    - `variance`: by quantity; `used`: number of base samples without a failed trajectory; `failed`: number of the others,
      which are left out.

    `print(sensitivity)` shows them as a table.
    """

    parameters: list[str]
    indices: dict[str, dict[str, Float[ndarray, " d"]]]
    low: dict[str, dict[str, Float[ndarray, " d"]]]
    high: dict[str, dict[str, Float[ndarray, " d"]]]
    variance: dict[str, float]
    used: int
    failed: int

    def __str__(self) -> str:
        lines = [f"{self.used} base samples, {self.failed} left out (a trajectory failed)"]
        width = max(map(len, self.parameters))
        for name, kinds in self.indices.items():
            lines.append(f"{name} (variance {self.variance[name]:.4g})")
            for i, parameter in enumerate(self.parameters):
                cells = [self._cell(name, kind, i) for kind in kinds]
                lines.append(f"  {parameter:<{width}}  {'   '.join(cells)}")
        return "\n".join(lines)

    def _cell(self, name: str, kind: str, i: int) -> str:
        low, high = self.low[name][kind][i], self.high[name][kind][i]
        return f"{kind} {self.indices[name][kind][i]: .3f} ({low: .3f} … {high: .3f})"


def sobol_indices(
    model: BlockFunction,
    distributions: Distributions,
    samples: int,
    *,
    seed: int = 0,
    sampler: str = "sobol",
    batched: bool = False,
    block: int | None = None,
    bootstrap: int = 200,
    folder: Path | str | None = None,
    resume: bool = False,
    about: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Sensitivity:
    """First-order and total Sobol indices of every random number, from N (d + 2) trajectories.

    With two independent sets of samples A and B, and A_i equal to A except for x_i, which is taken from B (Saltelli and
    others 2010; the letters also stand for f at these samples),

        S_i = ⟨B (A_i − A)⟩/V ,     T_i = ⟨(A − A_i)²⟩/(2 V) .

    **Arguments:** `samples`: N, a power of two for the `"sobol"` sampler; `bootstrap`: number of bootstrap resamples for
    the 95 % intervals; all others as for `monte_carlo`, whose notes on devices, folders and seeds hold here, too. A base
    sample with a failed trajectory is left out and counted.

    **Returns:** a `Sensitivity` with the kinds `first` and `total`. The index of a quantity that does not vary is NaN.

    **Raises:** as `monte_carlo`.
    """
    again = _checked(model, distributions, samples, seed, sampler, bootstrap, about)
    points = _Saltelli(distributions, samples, seed, sampler)
    asked = _settings("sobol-indices", distributions, samples, seed, sampler, about)
    run = EnsembleRun(model if batched else jax.vmap(model), points, asked, block, folder, resume)
    values = run.values(progress)
    shape = (samples, points.together)
    good = (values.pop("failed").reshape(shape) == 0).all(axis=1)
    tables = {name: x.reshape(shape)[good] for name, x in values.items()}
    return _of_tables(_saltelli_indices, tables, distributions, samples, again, seed)


def derivative_bounds(
    model: BlockFunction,
    distributions: Distributions,
    samples: int,
    *,
    seed: int = 0,
    sampler: str = "random",
    batched: bool = False,
    block: int | None = None,
    bootstrap: int = 200,
    folder: Path | str | None = None,
    resume: bool = False,
    about: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Sensitivity:
    """Upper bounds on the total Sobol indices from N gradients: derivative-based global sensitivity measures.

    Each parameter is written as x_i = F_i⁻¹(Φ(z_i)) with a standard normal z_i, whose Poincaré constant is one, so that

        T_i ≤ ⟨(∂f/∂z_i)²⟩/V ,     ∂f/∂z_i = ∂f/∂x_i · φ(z_i)/p_i(x_i)

    (Sobol and Kucherenko 2009; Roustant, Barthe and Iooss 2017). Equality holds for a linear f of normal parameters. A
    parameter with a small bound has little influence. The derivatives come from forward mode through the model: N (d + 1)
    motions instead of N (d + 2), and a much smaller N suffices than for the indices themselves.

    **Arguments:**, **Raises:** as for `sobol_indices`. The model has to be differentiable; each row of a batched model's
    results may depend only on the sample in that row.

    **Returns:** a `Sensitivity` of the kind `bound`.
    """
    again = _checked(model, distributions, samples, seed, sampler, bootstrap, about)
    points = Samples(distributions, samples, seed, sampler)
    many = model if batched else jax.vmap(model)
    found = jax.eval_shape(many, points[:1])
    quantities = check_quantities(found, 1)
    check_slopes(found, quantities)
    names = column_names(distributions)
    asked = _settings("derivative-bounds", distributions, samples, seed, sampler, about)
    run = EnsembleRun(
        _with_slopes(many, distributions), _Scaled(points), asked, block, folder, resume
    )
    values = run.values(progress)
    good = values.pop("failed") == 0
    tables = {
        name: np.stack([values[name], *(values[name + _SLOPE + i] for i in names)], axis=1)[good]
        for name in quantities
    }
    return _of_tables(_bound, tables, distributions, samples, again, seed)


def _checked(model, distributions, samples, seed, sampler, bootstrap, about) -> int:
    """Checks all arguments before the run; returns the number of bootstrap resamples."""
    check_sampling(distributions, samples, seed, sampler, SAMPLERS, "samples")
    check_base_samples(samples)
    check_model(model)
    check_about(about)
    return check_whole("bootstrap", bootstrap)


def _settings(what: str, distributions, samples, seed, sampler, about) -> dict[str, Any]:
    asked = {"what": what, "samples": int(samples), "seed": int(seed), "sampler": sampler}
    return asked | {"about": about, "distributions": {n: repr(d) for n, d in distributions.items()}}


class _Saltelli:
    """The samples of Saltelli's scheme, d + 2 rows for each base sample.

    Row i (d + 2) + j is A for j = 0, B for j = 1, and otherwise A with its number j − 2 taken from B.
    """

    def __init__(self, distributions: Distributions, base: int, seed: int, sampler: str):
        self.distributions, d = distributions, dimension(distributions)
        self._points = Probabilities(2 * d, base, seed, sampler)
        self.together, self.size = d + 2, base * (d + 2)

    def __getitem__(self, rows: slice) -> dict[str, ndarray]:
        first, last, _ = rows.indices(self.size)
        base, which = np.divmod(np.arange(first, last), self.together)
        p = self._points[base[0] : base[-1] + 1][base - base[0]]
        a, b = np.split(p, 2, axis=1)
        from_b = (which[:, None] == 1) | (which[:, None] - 2 == np.arange(a.shape[1]))
        return samples_of_cube(self.distributions, np.where(from_b, b, a))


class _Scaled:
    """Samples together with dx/dz of each of their numbers, stored as `name` + `_RATE`."""

    def __init__(self, samples: Samples):
        self.samples, self.size = samples, samples.size

    def __getitem__(self, rows: slice) -> dict[str, ndarray]:
        from scipy import special

        drawn = self.samples[rows]
        step = 1e-4  # step in z of the central differences of the smooth quantile function; relative error about 1e-8
        p = self.samples.probabilities(rows)
        z = special.ndtri(p)
        ahead, behind = (
            samples_of_cube(self.samples.distributions, special.ndtr(z + h)) for h in (step, -step)
        )
        rates = {n + _RATE: (ahead[n] - behind[n]) / (2 * step) for n in drawn}
        return drawn | rates


_RATE, _SLOPE = " by z", " by "


def _with_slopes(model: BlockFunction, distributions: Distributions) -> BlockFunction:
    """The model with additional quantities, the derivatives ∂f/∂z_i, computed for one direction i after another."""
    # `jit` sorts the keys of a dictionary; the numbers keep the order of the distributions
    names, order = column_names(distributions), list(distributions)
    ends = np.cumsum([distributions[name].size for name in order])[:-1]

    def sloped(samples):
        sample = {name: samples[name] for name in order}
        rates = [samples[name + _RATE] for name in order]
        columns = jnp.concatenate([x.reshape(len(x), -1) for x in rates], axis=1)

        def along(i):
            chosen = jnp.where(jnp.arange(columns.shape[1]) == i, columns, 0.0)
            parts = jnp.split(chosen, ends, axis=1)
            shaped = (part.reshape(x.shape) for part, x in zip(parts, rates, strict=True))
            return jax.jvp(model, (sample,), (dict(zip(order, shaped, strict=True)),))[1]

        slopes = jax.lax.map(along, jnp.arange(len(names)))
        return {**model(sample), **_by_name(slopes, names)}

    return sloped


def _by_name(slopes: Mapping[str, Array], names: list[str]) -> dict[str, Array]:
    return {
        f"{quantity}{_SLOPE}{name}": slope[i]
        for quantity, slope in slopes.items()
        if quantity != "failed"
        for i, name in enumerate(names)
    }


def _saltelli_indices(table: Float[ndarray, "N c"]) -> tuple[float, dict[str, ndarray]]:
    a, b, mixed = table[:, :1], table[:, 1:2], table[:, 2:]
    both = np.concatenate([a, b])
    variance = float(np.var(both))
    a, b, mixed = (x - both.mean() for x in (a, b, mixed))
    with np.errstate(invalid="ignore", divide="ignore"):
        first = np.mean(b * (mixed - a), axis=0) / variance
        total = np.mean((a - mixed) ** 2, axis=0) / (2 * variance)
    return variance, {"first": first, "total": total}


def _bound(table: Float[ndarray, "N c"]) -> tuple[float, dict[str, ndarray]]:
    variance = float(np.var(table[:, 0], ddof=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return variance, {"bound": np.mean(table[:, 1:] ** 2, axis=0) / variance}


def _of_tables(indices, tables, distributions, samples, bootstrap, seed) -> Sensitivity:
    """The indices of each quantity, and their 2.5 % and 97.5 % quantiles over bootstrap resamples of the rows."""
    used = len(next(iter(tables.values())))
    check_left_over(used, samples)
    found: dict[str, dict[str, Any]] = {"index": {}, "low": {}, "high": {}, "variance": {}}
    for name, table in tables.items():
        found["variance"][name], found["index"][name] = indices(table)
        rng = np.random.default_rng([seed, 1])
        again = [indices(table[rng.integers(0, used, used)])[1] for _ in range(bootstrap)]
        for end, share in {"low": 0.025, "high": 0.975}.items():
            found[end][name] = {
                kind: np.quantile([each[kind] for each in again], share, axis=0)
                for kind in found["index"][name]
            }
    return Sensitivity(
        column_names(distributions),
        found["index"],
        found["low"],
        found["high"],
        found["variance"],
        used,
        samples - used,
    )
