r"""The posterior of the parameters by Hamiltonian Monte Carlo (NUTS, blackjax), on the same simulation as the fit.

    log p(w, z | data) = −½ Σ ((h(x(t; w, z)) + o − y)/σ)² − ½ (priors)²

w are the initial states x_0 and offsets o of all runs, z the coordinates of the parameters. h(x(t; w, z)) is the predicted
measurement, y the measured value and σ its noise. The unknowns are sampled in units of the fit's standard errors, in which
the posterior of a well-determined problem is nearly a standard normal distribution. The standard deviations of the samples
check the standard errors from the Fisher information.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._words import counted
from jaxhamel.identify._data._segments import Segments, refined, segments_of
from jaxhamel.identify._estimate import Estimate
from jaxhamel.identify._linearised._losses import Squares
from jaxhamel.identify._linearised._model import Model, Unknowns
from jaxhamel.identify._linearised._rollout import predicted, residual, states, weighed
from jaxhamel.mechanics._tangent import retract, tangent_size


class Posterior(NamedTuple):
    """Samples of the posterior.

    - `samples`: the quantities, `(chains, draws, r)`; `coordinates`: the coordinates z, `(chains, draws, P)`.
    - `names`, `units`, `mean`, `std`: one entry for each quantity; `fisher`: its standard error by the fit, for comparison.
    - `r_hat`: Gelman and Rubin's convergence factor of each quantity, near 1 if the chains have converged; `effective`: its
      effective number of independent samples.
    - `divergent`: number of divergent draws; `acceptance`: acceptance rate, the mean over all draws of all chains.
    """

    samples: Float[np.ndarray, "c s r"]
    coordinates: Float[np.ndarray, "c s P"]
    names: list[str]
    units: list[str]
    mean: np.ndarray
    std: np.ndarray
    fisher: np.ndarray
    r_hat: np.ndarray
    effective: np.ndarray
    divergent: int
    acceptance: float

    def __str__(self) -> str:
        width = max(len(name) for name in self.names)
        chains, draws = self.samples.shape[:2]
        head = f"Posterior: {counted(chains, 'chain')} of {counted(draws, 'draw')}, {self.divergent} divergent"
        titles = (
            f"  {'':<{width}} {'mean':>12} {'std':>10} {'by Fisher':>10} {'r_hat':>6} {'eff.':>6}"
        )
        rows = [
            f"  {name:<{width}} {m:>12.6g} {s:>10.3g} {f:>10.3g} {r:>6.3f} {e:>6.0f}  {unit}"
            for name, m, s, f, r, e, unit in zip(
                self.names, self.mean, self.std, self.fisher, self.r_hat, self.effective, self.units,
                strict=True,
            )
        ]  # fmt: skip
        return "\n".join([head, titles, *rows])


def posterior(
    estimate: Estimate, key: Array, *, draws: int = 500, warmup: int = 200, chains: int = 2
) -> Posterior:
    """Draws samples of the posterior by NUTS, starting around an estimate.

    **Arguments:**

    - `estimate`: a converged result of `fit` with the loss `Squares()`.
    - `key`: a JAX random key.
    - `draws`, `warmup`: numbers of samples and of adaptation steps in each chain.
    - `chains`: number of chains, which run in parallel. Their starting points are scattered around the estimate, each
      unknown by its standard error.

    **Returns:** a `Posterior`.

    **Raises:** `ImportError` without blackjax (`pip install 'jaxhamel[identify]'`); `ValueError` for a robust loss or an
    estimate that leaves parameters undetermined.
    """
    blackjax: Any = import_module("blackjax")
    _checks.check_kind("estimate", estimate, Estimate, "it must be the result of identify.fit.")
    for name, value in (("draws", draws), ("warmup", warmup), ("chains", chains)):
        _checks.check_count(name, value)
    _check_for_posterior(estimate)
    target = _Target.of(estimate)
    start_key, warm_key, run_key = jax.random.split(key, 3)
    starts = jax.random.normal(start_key, (chains, target.size), jnp.result_type(float))
    keys = jax.random.split(warm_key, chains), jax.random.split(run_key, chains)
    with (
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):  # blackjax mixes integers and floats
        y, divergent, acceptance = _chains(target, starts, *keys, warmup, draws)
        draws_of = (np.asarray(y), int(jnp.sum(divergent)), float(jnp.mean(acceptance)))
        return _summarised(estimate, target, *draws_of, blackjax.diagnostics)


@compiled
def _chains(target: "_Target", starts, warm_keys, run_keys, warmup: int, draws: int):
    """Runs all chains. Returns of each draw the unknowns y, whether it is divergent, and its acceptance rate, with leading
    axes of chains and draws.

    Data of equal shapes share one compiled program.
    """
    blackjax: Any = import_module("blackjax")
    density = _log_density(target)

    def one(start, warm_key, run_key):
        adaptation = blackjax.window_adaptation(blackjax.nuts, density)
        (state, tuned), _ = adaptation.run(warm_key, start, num_steps=warmup)
        kernel = blackjax.nuts(density, **tuned)

        def draw(state, key):
            state, info = kernel.step(key, state)
            return state, (state.position, info.is_divergent, info.acceptance_rate)

        return jax.lax.scan(draw, state, jax.random.split(run_key, draws))[1]

    return jax.vmap(one)(starts, warm_keys, run_keys)


class _Target(eqx.Module):
    """The problem as single shooting, with the unknowns y: scale · y are the increments of (initial states, offsets, z) from
    `base`, the estimate.
    """

    model: Model
    groups: tuple[Segments, ...]
    base: Unknowns
    scale: Float[Array, " D"]
    noise: Float[Array, " r"]

    @classmethod
    def of(cls, estimate: Estimate) -> "_Target":
        old = estimate.problem
        whole = segments_of(old.runs, old.measurements, [1] * len(old.runs), old.dt)
        groups = tuple(refined(group, estimate.refinement) for group in whole)
        base = _starts_of_runs(estimate)
        noise = jnp.asarray(estimate.noise, jnp.result_type(float))
        bare = cls(old.model, groups, base, jnp.ones(0, noise.dtype), noise)
        scale = 1.0 / jnp.sqrt(jnp.maximum(_curvature(bare), 1e-12))
        return eqx.tree_at(lambda t: t.scale, bare, scale)

    @property
    def size(self) -> int:
        """The number D of unknowns."""
        return self.scale.shape[0]


def _starts_of_runs(estimate: Estimate) -> Unknowns:
    """The unknowns of the estimate, of whose states only those at the first node of each run are kept."""
    x = estimate.x
    keep = np.flatnonzero(np.concatenate([group.first for group in estimate.problem.groups]))
    q, u = jax.tree.map(lambda a: a[keep], (x.q, x.u))
    return Unknowns(q, u, x.offsets, x.z)


def _all_residuals(target: _Target, increments: Float[Array, " D"]) -> Float[Array, " M"]:
    """All residuals, including those of priors, at increments of (initial states, offsets, z) from `target.base`."""
    model, base = target.model, target.base
    n, R = tangent_size(model.system), base.offsets.shape[0]
    offsets = base.offsets + increments[R * n : R * n + base.offsets.size].reshape(
        base.offsets.shape
    )
    z = base.z + increments[R * n + base.offsets.size :]
    delta, parts, start = increments[: R * n].reshape(R, n), [], 0
    for group in target.groups:
        here = slice(start, start + group.count)
        node = jax.tree.map(lambda a, here=here: a[here], (base.q, base.u))
        initial = jax.vmap(partial(retract, model.system))(node, delta[here])
        r = _residuals_of_group(model, group, initial, offsets[group.run], z, target.noise)
        parts.append(r.ravel())
        start += group.count
    widths = jnp.broadcast_to(model.offset_widths()[None, :], offsets.shape)
    return jnp.concatenate([*parts, model.prior_residual(z), (offsets / widths).ravel()])


def _residuals_of_group(model: Model, group: Segments, nodes, offsets, z, noise):
    """The residuals of the measurements and of the priors on the initial state, one row for each run of the group."""
    arrays, others = eqx.partition(group.control, eqx.is_array)

    def one(ts, values, there, weight, arrays, node, offset):
        control, system = eqx.combine(arrays, others), model.system_at(z)
        motion = states(model, z, control, node, ts, group.counts)
        shown = predicted(model, system, control, motion, ts)
        errors = residual(model, values, there, shown, offset, noise)
        known = model.state_residual(system, ts[0], node, control)
        return jnp.concatenate([weighed(model, errors, weight), known])

    data = (group.ts, group.values, group.there, group.weight)
    return jax.vmap(one)(*data, arrays, nodes, offsets)


@compiled
def _curvature(target: _Target) -> Float[Array, " D"]:
    """The precision 1/σ² of each unknown, with σ² from the diagonal of (JᵀJ)⁻¹, that is with all other unknowns free."""
    D = target.base.u.shape[0] * tangent_size(target.model.system)
    D = D + target.base.offsets.size + target.base.z.shape[0]
    J = jax.jacfwd(lambda y: _all_residuals(target, y))(jnp.zeros(D, target.base.z.dtype))
    F = J.T @ J
    ridge = 1e-10 * jnp.max(jnp.diagonal(F)) * jnp.eye(D, dtype=F.dtype)
    return 1.0 / jnp.diagonal(jnp.linalg.inv(F + ridge))


def _log_density(target: _Target) -> Callable[[Float[Array, " D"]], Array]:
    """The function y ↦ −½|r|² of the scaled unknowns y. Its gradient −Jᵀr is computed in forward mode, since there are few
    unknowns and many residuals.
    """

    def errors(y):
        return _all_residuals(target, target.scale * y)

    @jax.custom_vjp
    def density(y):
        return -0.5 * jnp.sum(errors(y) ** 2)

    def forward(y):
        def push(v):
            return jax.jvp(errors, (y,), (v,))

        r, J = jax.vmap(push, out_axes=(None, 0))(jnp.eye(y.shape[0], dtype=y.dtype))
        return -0.5 * jnp.sum(r**2), -(J @ r)

    density.defvjp(forward, lambda gradient, g: (g * gradient,))
    return density


def _summarised(estimate, target: _Target, y, divergent, acceptance, diagnostics) -> Posterior:
    """The `Posterior` of the drawn unknowns y; a frozen quantity, which does not vary, gets r̂ = 1 and no
    effective sample.
    """
    P = estimate.x.z.shape[0]
    z = np.asarray(estimate.x.z) + y[..., -P:] * np.asarray(target.scale[-P:])
    flat = np.asarray(jax.jit(jax.vmap(jax.vmap(target.model.quantities)))(z))
    moving = np.ptp(flat, axis=(0, 1)) > 0
    convergence = diagnostics.potential_scale_reduction, diagnostics.effective_sample_size
    # as one program: without `jit`, about a hundred operations would each be compiled separately
    found = jax.jit(lambda x: [f(x) for f in convergence])(
        np.where(moving, flat, flat + y[..., :1])
    )
    r_hat, effective = np.where(moving, found[0], 1.0), np.where(moving, found[1], 0.0)
    return Posterior(
        flat, z, estimate.names, estimate.units, flat.mean(axis=(0, 1)), flat.std(axis=(0, 1)),
        estimate.errors, r_hat, effective, divergent, acceptance,
    )  # fmt: skip


def _check_for_posterior(estimate: Estimate) -> None:
    """Checks that the fit took the errors as Gaussian and uncorrelated, and that the data determine all parameters."""
    loss = estimate.problem.model.loss
    if not isinstance(loss, Squares):
        raise ValueError(
            f"the fit's loss is {type(loss).__name__}; a posterior needs a density: fit with Squares()."
        )
    if estimate.correlated:
        raise ValueError(
            "the fit has `correlated=True`, but a posterior takes the residuals as independent: fit without this option."
        )
    if estimate.flat:
        raise ValueError(
            f"the data do not determine all parameters: {estimate.flat[0].words} Freeze some, or give priors."
        )
