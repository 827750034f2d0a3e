"""The compiled step of multiple shooting, for one start or for many, in the sizes of unknowns and equations."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel._lanes._xla_cpu._jit import MANY_RUNS, compiled_with
from jaxhamel.control._methods._levenberg_marquardt import (
    Iterate,
    first_iterate,
    next_iterate,
    stationarity,
)
from jaxhamel.control._methods._shooting import (
    Grid,
    Point,
    QuadraticModel,
    Shooting,
    conditions,
    move,
)
from jaxhamel.control._methods._shooting_sizes import ShootingSizes, in_sizes
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.mechanics._tangent import tangent_size


@compiled_with(MANY_RUNS)
def after_steps(
    shooting: Shooting,
    problem: ControlProblem,
    grid: Grid,
    sizes: ShootingSizes,
    iterate: Iterate,
    penalty,
    switch,
) -> tuple[Iterate, dict[str, Array]]:
    """Returns (the iterate after a Levenberg–Marquardt step, the numbers to report), for one start or for many."""

    def one(iterate):
        return _after_step(shooting, problem, grid, sizes, iterate, penalty, switch)

    return one(iterate) if iterate.damping.ndim == 0 else jax.vmap(one)(iterate)


def _after_step(shooting, problem, grid, sizes, iterate: Iterate, penalty, switch):
    iterate = next_iterate(
        iterate,
        evaluate=lambda point: in_sizes(sizes, shooting.model(problem, grid, point)),
        conditions=lambda point: shooting.defects(problem, grid, point) / sizes.conditions,
        move=lambda point, z: move(problem, point, sizes.unknowns * z),
        penalty=penalty,
        switch=switch,
    )
    span = problem.ts[-1] - problem.ts[0]
    gaps = tangent_size(problem.system) * (problem.ts.shape[0] - 1)
    numbers = {
        "cost": sizes.cost * iterate.model.cost,
        "tracking_rms": _tracking_rms(problem, iterate.model.tracking / span),
        "defect": jnp.max(jnp.abs(iterate.model.d)),
        "missed": jnp.max(jnp.abs(iterate.model.d[gaps:]), initial=0.0),
        "gradient_norm": stationarity(iterate.model, iterate.y),
        "damping": iterate.damping,
        "accepted": iterate.accepted,
    }
    return iterate, numbers


def _tracking_rms(problem, mean_square):
    """The tracking error (RMS); NaN without a tracking cost."""
    tracked = problem.tracking is not None
    return jnp.sqrt(mean_square) if tracked else jnp.full_like(mean_square, jnp.nan)


def iterate_of(problem: ControlProblem, damping, p) -> Iterate:
    """The iterate before the first evaluation, with the states of the problem's guess and the parameters p."""
    q, u = problem.guess

    def given(rows, first):
        return rows.at[0].set(first)

    point = Point(jax.tree.map(given, q, problem.q0), given(u, problem.u0), p)
    return first_iterate(point, _blank(problem, point), damping)


def _blank(problem, point: Point) -> QuadraticModel:
    """A quadratic model of zeros, with the shapes of the problem's model."""
    n, N = tangent_size(problem.system), point.u.shape[0] - 1
    last = jax.tree.map(lambda a: a[-1], (point.q, point.u))
    ends = eqx.filter_eval_shape(conditions, problem, last, point.p).shape[0]

    def zeros(*shape):
        return jnp.zeros(shape, point.u.dtype)

    z, c = n * N + point.p.shape[0], n * N + ends
    return QuadraticModel(zeros(), zeros(z), zeros(z, z), zeros(c), zeros(c, z), zeros())
