"""The result of a fit: values with standard errors, directions that the data do not determine, and residuals."""

import csv
from pathlib import Path
from typing import IO, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxhamel._compiled import compiled
from jaxhamel._search._loop import Verdict
from jaxhamel._words import cell
from jaxhamel.identify._flat import Flat, flat_directions
from jaxhamel.identify._linearised._information import information, widened
from jaxhamel.identify._linearised._losses import Squares
from jaxhamel.identify._linearised._model import Unknowns
from jaxhamel.identify._noise import (
    correlation_time,
    error_names,
    error_units,
    residual_series,
    wrong_noise,
)
from jaxhamel.identify._problem import Problem
from jaxhamel.mechanics import System


class Estimate(NamedTuple):
    """The outcome of `fit`.

    - `problem`: the problem solved. `system`: the system with the estimated parameters. `x`: the estimated states at the
      nodes, offsets and coordinates z.
    - `names`, `values`, `errors`, `units`, `frozen`: one entry for each of the r quantities; `errors` are standard errors
      in the units of the values, zero for a frozen quantity, infinite for one that the data do not determine, NaN if the
      motion broke down. `correlation`: of the quantities, `(r, r)`.
    - `information`, `covariance`: of the coordinates z, `(P, P)`; the covariance leaves out flat directions.
    - `flat`: the directions that the data do not determine, each a `Flat` with a sentence `words`. `bounds`: sentences on
      the quantities that are at a bound.
    - `noise`: standard deviation of each error, given or estimated; `rms`: the root mean square of each error in its unit;
      `counts`: the number of its residuals.
    - `cost`: ½ Σ of squares in units of the noise; `gap`: the largest gap between segments; both at `x`.
    - `converged`: whether the fit converged; `status`: how it ended; `seconds`: its run time; `history`: arrays with one
      entry for each iteration, rejected steps included.
    - `refinement`: factor by which the fit refined the integration steps of the problem, to keep their error small.
    - `others`: the final costs of all starts of `fit_many`; None after `fit`.
    - `correlation_time`: τ = 1 + 2 Σ ρ of the residuals, in samples; `correlated`: whether τ samples count as one in the
      standard errors, see `fit`.
    """

    problem: Problem
    system: System
    x: Unknowns
    names: list[str]
    values: np.ndarray
    errors: np.ndarray
    units: list[str]
    frozen: list[bool]
    correlation: np.ndarray
    information: np.ndarray
    covariance: np.ndarray
    flat: list[Flat]
    bounds: list[str]
    noise: np.ndarray
    rms: dict[str, float]
    counts: dict[str, int]
    cost: float
    gap: float
    history: dict[str, np.ndarray]
    seconds: float
    converged: bool
    status: str
    refinement: int = 1
    others: np.ndarray | None = None
    correlation_time: float = 1.0
    correlated: bool = False

    def __str__(self) -> str:
        width = max([len(name) for name in self.names] + [9])
        rows = [
            f"  {name:<{width}} {value:>12.6g}  {_error(error, frozen):>16}  {unit}"
            for name, value, error, frozen, unit in zip(
                self.names, self.values, self.errors, self.frozen, self.units, strict=True
            )
        ]
        head = "converged" if self.converged else "NOT converged"
        top = f"Estimate of {type(self.system).__name__}: {head}, {self.status}"
        titles = f"  {'':<{width}} {'estimate':>12}  {'standard error':>16}"
        units = error_units(self.problem.measurements)
        residuals = [
            f"  {k:<{width}} {v:>12.4g}  RMS residual  {units[k]}".rstrip()
            for k, v in self.rms.items()
        ]
        remarks = [f"  {sentence}" for sentence in self.remarks]
        return "\n".join([top, titles, *rows, *residuals, *remarks])

    @property
    def remarks(self) -> list[str]:
        """Sentences about directions that the data do not determine, quantities at a bound, and wrong sizes of noise."""
        noise = wrong_noise(self.problem, self.rms, self.counts) if self.converged else []
        return [*(flat.words for flat in self.flat), *self.bounds, *noise]

    def rows(self) -> list[dict[str, Any]]:
        """One row for each quantity: name, estimate, standard error, unit, frozen, remark."""
        return [
            {
                "parameter": name,
                "estimate": float(value),
                "standard_error": float(error),
                "unit": unit,
                "frozen": bool(frozen),
                "remark": _remark(float(error)),
            }
            for name, value, error, unit, frozen in zip(
                self.names, self.values, self.errors, self.units, self.frozen, strict=True
            )
        ]

    def to_csv(self, path: str | Path | IO[str]) -> None:
        """Writes `rows` with a header to a path or an open file, with 17 digits; a quantity that the data do not determine
        has the standard error `inf`.

        Text that begins with `=`, `+`, `-` or `@` gets an apostrophe, since spreadsheets would take it for a formula.
        """
        write_rows(path, self.rows())

    def to_dict(self) -> dict[str, Any]:
        """The numbers and sentences of the estimate as a dictionary, for `summary.json`."""
        return {
            "converged": self.converged,
            "status": self.status,
            "parameters": {row.pop("parameter"): row for row in self.rows()},
            "rms": self.rms,
            "noise": dict(zip(self.rms, self.noise.tolist(), strict=True)),
            "measurements": self.counts,
            "correlation_time": self.correlation_time,
            "correlated": self.correlated,
            "cost": self.cost,
            "gap": self.gap,
            "iterations": len(self.history["cost"]),
            "not_determined": [flat.words for flat in self.flat],
            "at_bounds": self.bounds,
            "fit_seconds": self.seconds,
        }


def write_rows(
    path: str | Path | IO[str], rows: list[dict[str, Any]], more: tuple[str, ...] = ()
) -> None:
    """Writes the rows of a table of estimates; `more` names further columns of text at its end."""
    if isinstance(path, str | Path):
        with open(path, "w", newline="", encoding="utf-8") as file:
            return write_rows(file, rows, more)
    writer = csv.writer(path, lineterminator="\n")
    head = ["parameter", "estimate", "standard_error", "unit", "frozen", "remark", *more]
    writer.writerow(head)
    for row in rows:
        numbers = [f"{row[key]:.17g}" for key in ("estimate", "standard_error")]
        name, unit, *texts = (cell(row[key]) for key in ("parameter", "unit", "remark", *more))
        writer.writerow([name, *numbers, unit, str(row["frozen"]).lower(), *texts])


def _error(error: float, frozen: bool) -> str:
    if frozen:
        return "frozen"
    if np.isnan(error):
        return "unknown"
    return f"± {error:.3g}" if np.isfinite(error) else "not determined"


def _remark(error: float) -> str:
    if np.isnan(error):
        return "unknown: the motion broke down"
    return "" if np.isfinite(error) else "not determined by the data"


def estimate_of(search: Any, ending: Verdict) -> Estimate:
    """The `Estimate` at the end of a fit, with the standard errors, flat directions and residuals at its last point."""
    problem, x, model = search.problem, search.x, search.problem.model
    parts, (cost, gap) = search.weighed()
    tau = correlation_time(residual_series(problem.groups, parts))
    plain, there = search.residuals(parts)
    factor = 1.0 if isinstance(model.loss, Squares) else _efficiency(model.loss, plain, there)
    used = widened(parts, tau) if search.correlated else parts
    rms, counts = _rms_and_counts(problem, search.noise, plain, there)
    return Estimate(
        problem=problem,
        system=model.system_at(x.z),
        x=x,
        units=[unit for p in problem.parameters for unit in p.units()],
        rms=rms,
        counts=counts,
        cost=cost,
        gap=gap,
        correlation_time=tau,
        correlated=search.correlated,
        **_uncertainty(problem, x, used, factor),
        **_course_of(search, ending),
    )


def _uncertainty(problem: Problem, x: Unknowns, parts: Any, factor: float) -> dict[str, Any]:
    """The values of the parameters and the fields of `Estimate` on their uncertainty, whose covariance is `factor` times
    the inverse of the Fisher information.
    """
    F = np.asarray(information(problem.model, problem.groups, parts, x))
    values, jacobian, sizes = (np.asarray(a) for a in quantities(problem.model, x.z))
    frozen = [f for p in problem.parameters for f in p.is_frozen()]
    names = [name for p in problem.parameters for name in p.names()]
    covariance, flat, loose = flat_directions(F, jacobian, values, sizes, names)
    spread = jacobian @ (covariance * factor) @ jacobian.T
    return {
        "names": names,
        "values": values,
        "errors": _standard_errors(spread, frozen, loose),
        "frozen": frozen,
        "correlation": _correlation(spread),
        "information": F / factor,
        "covariance": covariance * factor,
        "flat": flat,
        "bounds": _at_bounds(problem, values),
    }


def _course_of(search: Any, ending: Verdict) -> dict[str, Any]:
    """The fields of an `Estimate` that describe the course of the search."""
    return {
        "noise": search.noise,
        "history": search.history,
        "seconds": search.elapsed(),
        "converged": ending.converged,
        "status": ending.status,
        "refinement": search.refinement,
    }


def _standard_errors(spread: np.ndarray, frozen, loose) -> np.ndarray:
    """The square roots of the diagonal of the covariance `spread`; zero for a frozen quantity, infinite for one that the
    data do not determine (`loose`).
    """
    known = np.sqrt(np.maximum(np.diagonal(spread), 0.0))
    return np.where(frozen, 0.0, np.where(loose, np.inf, known))


@compiled
def quantities(model, z: Array):
    """The quantities at z `(r,)`, their derivatives by z `(r, P)`, and the change of each that counts as 100 % `(r,)`."""
    sizes = [p.sizes(model.system_at(z)) for p in model.parameters]
    sizes = jnp.concatenate([*sizes, jnp.zeros(0, z.dtype)])
    none = jnp.zeros((sizes.shape[0], 0), z.dtype)
    jacobian = jax.jacfwd(model.quantities)(z) if z.shape[0] else none
    return model.quantities(z), jacobian, sizes


def _efficiency(loss, plain, there) -> float:
    """The factor E ψ² E s′² / (E ψ′)² by which F⁻¹ is multiplied to give the variance of an M-estimate.

    E is the mean over all residuals r. The variance is that of Huber 1964, eq. (16). F contains the slope s′ of the
    transformed residual s(r), see `AbstractLoss`.
    """
    r = jnp.asarray(plain[there > 0])
    psi, slope = loss.psi(r), loss.slope(r)
    used = jax.vmap(jax.grad(loss.transformed))(r) ** 2
    return float(jnp.mean(psi**2) * jnp.mean(used) / jnp.mean(slope) ** 2)


def _correlation(spread: np.ndarray) -> np.ndarray:
    """The correlation matrix of a covariance `spread`; a quantity without variance is correlated with itself only."""
    width = np.sqrt(np.maximum(np.diagonal(spread), 0.0))
    outer = width[:, None] * width[None, :]
    return np.where(outer > 0, spread / np.where(outer > 0, outer, 1.0), np.eye(len(width)))


def _rms_and_counts(problem, noise, plain, there):
    """Two dictionaries by the names of the errors: the root mean square in the error's unit, and the number of residuals."""
    counts, weights = np.sum(there > 0, axis=0), there.sum(axis=0)
    squares = np.sum(there * np.where(there > 0, plain * noise, 0.0) ** 2, axis=0)
    rms = np.sqrt(squares / np.where(weights > 0, weights, 1.0))
    names = error_names(problem.measurements)
    return dict(zip(names, rms.tolist(), strict=True)), dict(
        zip(names, counts.astype(int).tolist(), strict=True)
    )


def _at_bounds(problem, values) -> list[str]:
    sentences, start = [], 0
    for parameter in problem.parameters:
        names = parameter.names()
        part = values[start : start + len(names)]
        for name, value, side in zip(names, part, parameter.bound(part), strict=True):
            if side:
                sentences.append(
                    f"{name} is at its {side} bound, {value:.4g}: the data do not determine it, or its best value lies "
                    "beyond the bound."
                )
        start += len(names)
    return sentences
