r"""Optimal gaits: closed curves in shape space with the largest displacement of the body.

    max  w·log g  −  α ∮ c(r, ṙ) dt      or      max  w·log g / ∮ |dr|      (optionally at ∮ |dr| = L)

over the Fourier coefficients of the loop, by gradients of the displacement g after a cycle (`gait_motion`). On an abelian
group w·log g = ∫ w_α B^α_12 dr¹dr², with the curvature B of the connection; the best loop without effort is the zero level
of this integrand, the height function. At fixed length it is the curve with B proportional to its own curvature, which is
a circle for constant B. Hatton and Choset 2015 and Ramasamy and Hatton 2019 interpret optimal gaits in this way; here the
exact displacement is optimised, without truncating Lie brackets.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._search._stepwise import AbstractTask, Stepwise
from jaxhamel._typing import Configuration, Scalar
from jaxhamel.control._checks._gaits import check_gait_problem
from jaxhamel.control._gaits._gait_motion import gait_displacement
from jaxhamel.control._problem._curves import FourierSeries, free_parameters
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics._description._parameters import as_parameter


def elliptic_gait(
    centre: ArrayLike, radii: ArrayLike, *, harmonics: int = 1, period: ArrayLike = 1.0
) -> FourierSeries:
    """The ellipse r(t) = centre + (a cos 2πt/T, b sin 2πt/T), with additional harmonics that are zero.

    **Arguments:** `centre`: `(m,)`; `radii`: (a, b), of the first two shape coordinates; the others are constant.
    `harmonics`: the number K of harmonics of the series, of which all but the first are zero; `period`: T [s].

    **Returns:** a `FourierSeries`, from which `optimise_gait` can start.
    """
    mean = as_parameter(centre)
    zero = jnp.zeros((harmonics, mean.shape[0]), mean.dtype)
    a, b = jnp.asarray(radii, dtype=mean.dtype)
    return FourierSeries(mean, zero.at[0, 0].set(a), zero.at[0, 1].set(b), period)


class GaitProblem(eqx.Module):
    """The problem of finding an optimal gait.

    **Arguments:**

    - `mechanism`: a connection r → A(r), ξ = −A ṙ, or an object with momentum, see `gait_motion`.
    - `space`: the group G of the displacement.
    - `curve`: the initial gait, a `FourierSeries` in r `(m,)`, whose free parameters are optimised.
    - `objective`: w `(dim,)` for w·log g, in the Lie algebra (log g is the constant velocity that leads
      to g in unit time), or a function of g, such as `lambda g: g[1]` [m].
    - `per`: "cycle", or "length" for the objective divided by the length of the loop.
    - `effort_weight`: α; `effort`: c(r, ṙ), default ṙ·ṙ, integrated over a cycle.
    - `length`: the length to which every loop is scaled about its mean; None: loops are not scaled.
    - `cycles`: number of cycles after which the displacement is taken; `steps`: number of integration steps (order 4) in
      each cycle.

    **Raises:** ValueError or TypeError that names the argument that does not fit.
    """

    mechanism: Any
    space: AbstractSpace
    curve: FourierSeries
    objective: Any
    per: Literal["cycle", "length"] = eqx.field(static=True, default="cycle")
    effort_weight: Array = eqx.field(converter=as_parameter, default=0.0)
    effort: Callable[..., Any] | None = None
    length: Array | None = eqx.field(converter=as_parameter, default=None)
    cycles: int = eqx.field(static=True, default=1)
    steps: int = eqx.field(static=True, default=60)

    def __check_init__(self) -> None:
        check_gait_problem(self)

    def loop(self, p: Float[Array, " P"]) -> FourierSeries:
        """The gait with free parameters p, scaled to the required length."""
        curve = free_parameters(self.curve)[1](p)
        if self.length is None:
            return curve
        scale = self.length / self.length_of(curve)

        def harmonics(c):
            return (c.cosine, c.sine)

        return eqx.tree_at(harmonics, curve, (curve.cosine * scale, curve.sine * scale))

    def displacement(self, curve: FourierSeries) -> Configuration:
        """The displacement g after `cycles` cycles."""
        options = {"period": curve.period, "cycles": self.cycles, "steps": self.steps}
        return gait_displacement(self.mechanism, curve, self.space, **options)

    def reached(self, curve: FourierSeries) -> tuple[Configuration, Scalar]:
        """(g, value): the displacement, and the objective w·log g or function of g."""
        g = self.displacement(curve)
        of = self.objective
        value: Any = of(g) if callable(of) else of @ self.space.log(g)
        return g, value

    def value(self, curve: FourierSeries) -> Scalar:
        """The objective, before division by the length."""
        return self.reached(curve)[1]

    def length_of(self, curve: FourierSeries) -> Scalar:
        """The length ∮ |dr| of one cycle."""
        return self._around(curve, lambda r, rdot: _norm(rdot))

    def effort_of(self, curve: FourierSeries) -> Scalar:
        """The effort ∮ c(r, ṙ) dt of one cycle; default ∮ ṙ·ṙ dt."""
        return self._around(curve, self.effort or (lambda r, rdot: jnp.dot(rdot, rdot)))

    def cost(self, p: Float[Array, " P"]) -> Scalar:
        """The minimised function: the weighted effort minus the objective."""
        curve = self.loop(p)
        value = self.value(curve)
        if self.per == "length":
            value = value / self.length_of(curve)
        return self.effort_weight * self.effort_of(curve) - value

    def _around(self, curve, integrand):
        """∮ f(r, ṙ) dt by the trapezoidal rule, of spectral accuracy on a smooth loop."""
        times = curve.period * jnp.arange(self.steps).astype(curve.mean.dtype) / self.steps

        def rates(t):
            return jax.jvp(curve, (t,), (jnp.ones_like(t),))

        return curve.period * jnp.mean(jax.vmap(lambda t: integrand(*rates(t)))(times))


class GaitResult(NamedTuple):
    """The outcome of `optimise_gait`.

    - `curve`: the gait found; `displacement`: g after the problem's cycles; `phase`: log g, `(dim,)`.
    - `value`: the objective, before division by the length; `length`: ∮ |dr|; `effort`: ∮ c dt, both of one cycle.
    - `cost`, `gradient_norm`: the minimised function and the norm of its gradient at the result; `start`: the objective of
      the initial gait.
    - `iterations`, `seconds`; `converged`, `status`: whether the tolerances were met, and the reason for the end.
    - `costs`: the minimised function after each iteration.
    """

    problem: GaitProblem
    curve: FourierSeries
    displacement: Configuration
    phase: Float[Array, " n"]
    value: float
    length: float
    effort: float
    cost: float
    gradient_norm: float
    start: float
    iterations: int
    seconds: float
    converged: bool
    status: str
    costs: Float[np.ndarray, " i"]

    def __str__(self) -> str:
        phase = ", ".join(f"{x:.5g}" for x in np.asarray(self.phase))
        why = [] if self.converged else [("status", self.status)]
        rows = [
            *why,
            ("objective", f"{self.value:.8g}   (at the start {self.start:.5g})"),
            ("cost", f"{self.cost:.8g}   (gradient norm {self.gradient_norm:.2g})"),
            (f"log g, {self.problem.cycles} cycle(s)", f"({phase})"),
            ("length of the loop", f"{self.length:.6g}"),
            ("effort", f"{self.effort:.6g}"),
            ("iterations", f"{self.iterations} in {self.seconds:.1f} s"),
        ]
        head = "converged" if self.converged else "NOT converged"
        lines = [f"  {name:<22} {text}" for name, text in rows]
        return "\n".join([f"Gait on {type(self.problem.space).__name__}: {head}", *lines])


def optimise_gait(
    problem: GaitProblem,
    *,
    rtol: float = 1e-8,
    atol: float = 1e-8,
    iterations: int = 150,
    progress: Callable[..., Any] | None = None,
) -> GaitResult:
    """Finds the best gait near the given one, by gradients of its exact displacement (BFGS).

    **Arguments:**

    - `problem`: the problem to solve.
    - `rtol`, `atol`: tolerances; the search has converged when neither gait nor cost changes by more in a step, or when the
      gradient is below 100 `atol`.
    - `iterations`: the largest number of iterations.
    - `progress`: called with a `Progress` about five times a second.

    Without momentum or effort the cost does not depend on the speed along the loop, so that minimisers are not isolated;
    this does not slow down convergence.

    **Returns:** a `GaitResult`; `print` it. If the search does not converge, or after Ctrl-C, it has the best gait so far,
    and `converged` and `status` report this; no error is raised.
    """
    _checks.check_outside("problem", problem)
    for name, value in (("rtol", rtol), ("atol", atol), ("iterations", iterations)):
        _checks.check_positive(name, value, "Give a number larger than zero.")
    _checks.check_progress(progress)
    tolerances = tuple(jnp.asarray(x, problem.curve.mean.dtype) for x in (rtol, atol))
    search = Stepwise(_Gait(problem, tolerances), iterations)
    ending = search.run(progress)
    found, numbers = search.end[1]
    numbers: dict[str, Any] = {name: float(x) for name, x in numbers.items()}
    flat = numbers["gradient_norm"] < 100 * atol
    but = ", the gradient below its tolerance" if flat and not ending.converged else ""
    return GaitResult(
        problem=problem,
        **found,
        **numbers,
        iterations=len(search.rows),
        seconds=search.elapsed(),
        converged=ending.converged or flat,
        status=ending.status + but,
        costs=search.history["cost"],
    )


class _Gait(AbstractTask):
    """The search for the free parameters of a gait with the least cost, by BFGS."""

    problem: GaitProblem
    tolerances: tuple[Scalar, ...]

    def starting_point(self) -> Float[Array, " P"]:
        return free_parameters(self.problem.curve)[0]

    def solver(self) -> tuple[Any, dict[str, Any]]:
        mode = "fwd" if self.starting_point().shape[0] <= _FORWARD else "bwd"
        return optx.BFGS(*self.tolerances), {"autodiff_mode": mode}  # pyright: ignore[reportArgumentType]

    def function(self, y: Float[Array, " P"]) -> tuple[Scalar, Scalar]:
        cost = self.problem.cost(y)
        return cost, cost

    def report(self, y: Float[Array, " P"], state: Any):
        """Returns (the gait found with its displacement, its numbers and the objective of the initial gait)."""
        problem = self.problem
        curves = jax.tree.map(
            lambda *x: jnp.stack(x), *[problem.loop(p) for p in (self.starting_point(), y)]
        )
        g, value = jax.lax.map(problem.reached, curves)
        curve, g_end = jax.tree.map(lambda x: x[1], (curves, g))
        length, effort = problem.length_of(curve), problem.effort_of(curve)
        share = length if problem.per == "length" else jnp.ones_like(length)
        numbers = {
            "value": value[1],
            "length": length,
            "effort": effort,
            "cost": problem.effort_weight * effort - value[1] / share,
            "gradient_norm": _norm(state.f_info.grad),
            "start": value[0],
        }
        return {"curve": curve, "displacement": g_end, "phase": problem.space.log(g_end)}, numbers


# Up to this number of parameters, gradients are computed in forward mode, which compiles faster but runs more slowly. For a
# snakeboard with 10 parameters it compiles in 6.0 s instead of 9.7 s; a gradient takes 2.4 ms instead of 1.3 ms.
_FORWARD = 32


def _norm(x: Float[Array, " m"]) -> Scalar:
    """|x|, with gradient zero at zero."""
    squared = jnp.dot(x, x)
    moving = squared > 0
    return jnp.where(moving, jnp.sqrt(jnp.where(moving, squared, 1.0)), 0.0)
