"""Single shooting: one simulation over the whole time, for problems that are short or stable."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._search._stepwise import AbstractTask, Stepwise
from jaxhamel.control._checks._curve_methods import check_for_curves, check_least_squares
from jaxhamel.control._methods._method import AbstractControlSearch, AbstractMethod
from jaxhamel.control._methods._shooting import quadrature
from jaxhamel.control._problem._costs import constraint_residual, final_residual, running_residual
from jaxhamel.control._problem._curves import free_parameters
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.simulate import simulate


def residual(
    problem: ControlProblem,
    p: Float[Array, " P"],
    *,
    samples: int = 6,
    penalty: float = 1e4,
    options: dict[str, Any] | None = None,
) -> Float[Array, " r"]:
    """The residual r(p) of a problem solved by one simulation, with J = ½|r|²:

        r = (costs at `samples` quadrature points in each interval, √penalty · constraints) .

    It is differentiable in both modes, through `jaxhamel.simulate`, by p and by every leaf of the problem.

    **Arguments:** `problem`; `p`: free parameters of its curve, `(P,)`, see `free_parameters`; `samples`: an even number of
    parts of each interval; `penalty`: weight of the constraints; `options`: for `simulate`.

    **Returns:** r, `(r,)`. **Raises:** `ValueError` for a p of another shape.
    """
    check_for_curves(problem, "control.residual")
    count = free_parameters(problem.curve)[0].shape
    _checks.check_shape("p", p, count, "One entry for each free parameter of the curve.")
    control = free_parameters(problem.curve)[1](p)
    share = jnp.linspace(0.0, 1.0, samples + 1, dtype=problem.ts.dtype)
    lengths = jnp.diff(problem.ts)
    grid = problem.ts[:-1, None] + lengths[:, None] * share[None, :]
    ts = jnp.append(grid[:, :-1].ravel(), problem.ts[-1])
    motion = simulate(problem.system, problem.q0, problem.u0, ts, control, **(options or {}))
    running = jax.vmap(
        lambda t, q, u: running_residual(problem.costs, problem.system, t, q, u, control)
    )(ts, motion.q, motion.u)
    weights = jnp.sqrt(_composite(lengths, samples))
    q, u = jax.tree.map(lambda x: x[-1], (motion.q, motion.u))
    first = (problem.system, ts[0], problem.q0, problem.u0, control)
    last = (problem.system, ts[-1], q, u, control)
    stiff = jnp.sqrt(jnp.asarray(penalty, u.dtype))
    return jnp.concatenate(
        [
            (running * weights[:, None]).ravel(),
            final_residual(problem.costs, *last),
            stiff * constraint_residual(problem.constraints, False, *first),
            stiff * constraint_residual(problem.constraints, True, *last),
        ]
    )


def _composite(lengths: Float[Array, " N"], samples: int) -> Float[Array, " T"]:
    """Quadrature weights over all intervals; where two intervals meet, the weights of both are added."""
    each = lengths[:, None] * jnp.asarray(quadrature(samples), lengths.dtype)[None, :]
    whole = jnp.append(each[:, :-1].ravel(), each[-1, -1])
    return whole.at[samples:-1:samples].add(each[:-1, -1])


class SingleShooting(AbstractMethod):
    r"""Minimises ½|r(p)|² of one simulation by an optimistix least-squares solver.

    It suits few parameters and motions that do not amplify errors; otherwise use `MultipleShooting`.

    **Arguments:**

    - `solver`: an optimistix least-squares solver or minimiser; default `optimistix.LevenbergMarquardt(rtol, atol)`.
    - `max_steps`, `rtol`, `atol`: settings of that solver.
    - `samples`, `penalty`, `options`: see `jaxhamel.control.residual`.

    In single precision the penalty is at most 1e4, and a fixed step, `options={"dt": …}`, makes the residual smoother: the
    error of adaptive steps is noise, which √penalty amplifies.
    """

    solver: Any = None
    max_steps: int = 100
    rtol: float = 1e-10
    atol: float = 1e-10
    samples: int = eqx.field(static=True, default=6)
    penalty: float = 1e8
    options: dict[str, Any] = eqx.field(default_factory=dict)

    def __check_init__(self) -> None:
        check_least_squares(self)

    def search(self, problem: ControlProblem, p: Float[Array, "*S P"]) -> AbstractControlSearch:
        """Sets up the search from the free parameters p."""
        # `max_steps` is replaced by 0 in the compiled program, so that another value does not recompile.
        method = eqx.tree_at(lambda m: m.max_steps, self, 0)
        return _Search(_LeastSquares(method, problem, p), self.max_steps)


class _Search(Stepwise, AbstractControlSearch):
    """The search by the least-squares solver, which gives the gradient only at its end."""

    def found(self) -> tuple[Float[Array, " P"], float, float]:
        p, (cost, gradient_norm) = self.end
        return p, float(cost), float(gradient_norm)

    @property
    def history(self) -> dict[str, np.ndarray]:
        gradients = np.full(len(self.rows), np.nan)
        gradients[-1] = self.found()[2]
        return super().history | {"gradient_norm": gradients}


class _LeastSquares(AbstractTask):
    """The search for p with the least ½|r(p)|².

    optimistix' minimisers are given this number, its least-squares solvers r.
    """

    method: SingleShooting
    problem: ControlProblem
    p: Float[Array, " P"]

    def starting_point(self) -> Float[Array, " P"]:
        return self.p

    def solver(self) -> tuple[Any, dict[str, Any]]:
        method = self.method
        return method.solver or optx.LevenbergMarquardt(method.rtol, method.atol), {}

    def function(self, y: Float[Array, " P"]):
        r = self._residual(y)
        cost = jnp.dot(r, r) / 2
        return (cost if isinstance(self.method.solver, optx.AbstractMinimiser) else r), cost

    def report(self, y: Float[Array, " P"], state: Any):
        """The pair of the cost and the norm of its gradient."""
        r, pull = jax.vjp(self._residual, y)
        return jnp.dot(r, r) / 2, jnp.linalg.norm(pull(r)[0])

    def _residual(self, p: Float[Array, " P"]) -> Float[Array, " r"]:
        method = self.method
        # In single precision the search for the cart of the tests ends 37 % above the optimum with 1e8, 1.5 % with 1e4.
        most = method.penalty if p.dtype == jnp.float64 else min(method.penalty, 1e4)
        given = {"samples": method.samples, "penalty": most, "options": method.options}
        return residual(self.problem, p, **given)
