"""Commutator-free Lie-group methods: explicit, with several exponentials per stage, without commutators and dexp⁻¹."""

from dataclasses import dataclass
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.simulate._checks import check_group_solver_state, check_solver_space
from jaxhamel.simulate._solvers._base_classes import AbstractGroupSolver, traced


@dataclass(frozen=True)
class _Tableau:
    """The points at which slopes are evaluated, and the weights of slopes; slope 0 is at the start of the step.

    - `nodes`: times of the slopes 1, 2, … as fractions of the step; the last one, 1, is the end of the step, whose slope is
      the first one of the next step.
    - `exponents`: for each of these points, one row of weights for each exponential, the leftmost first: its exponent is h
      times the weighted sum of the slopes.
    - `error`: the weights of the slopes in the error estimate.
    """

    order: int
    nodes: tuple[float, ...]
    exponents: tuple[tuple[tuple[float, ...], ...], ...]
    error: tuple[float, ...]


_MIDPOINT = _Tableau(
    order=2,
    nodes=(1 / 2, 1.0),
    exponents=(((1 / 2, 0.0, 0.0),), ((0.0, 1.0, 0.0),)),
    error=(-1.0, 1.0, 0.0),
)

_NONE = (0.0, 0.0, 0.0, 0.0, 0.0)
_CELLEDONI_MARTHINSEN_OWREN = _Tableau(
    order=4,
    nodes=(1 / 2, 1 / 2, 1.0, 1.0),
    exponents=(
        ((1 / 2, 0.0, 0.0, 0.0, 0.0), _NONE),
        ((0.0, 1 / 2, 0.0, 0.0, 0.0), _NONE),
        ((1 / 2, 0.0, 0.0, 0.0, 0.0), (-1 / 2, 0.0, 1.0, 0.0, 0.0)),
        ((1 / 4, 1 / 6, 1 / 6, -1 / 12, 0.0), (-1 / 12, 1 / 6, 1 / 6, 1 / 4, 0.0)),
    ),
    error=(0.0, 0.0, 0.0, 1 / 6, -1 / 6),
)


class AbstractCommutatorFree(diffrax.AbstractAdaptiveSolver[Any], AbstractGroupSolver):
    """q₁ = q₀·exp(h Σ_l α_1l v_l)·exp(h Σ_l α_2l v_l)…; each v_l is evaluated at a point of the same form."""

    tableau: eqx.AbstractClassVar[_Tableau]

    def order(self, terms: Any) -> Any:
        return self.tableau.order

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        check_group_solver_state(self, y0)
        return self._slope(terms, t0, y0, args)

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any
    ) -> Any:
        def fresh():
            return self._slope(terms, t0, y0, args)

        first = jax.lax.cond(made_jump, fresh, lambda: solver_state)
        h = terms.contr(t0, t1)
        slopes, (q1, rest1) = self._stages(terms, t0, t1, h, y0, args, first)
        error_v, error_rest = _combine(h, np.array(self.tableau.error), slopes)
        last = jax.tree.map(lambda k: k[-1], slopes)
        info = self._dense_info(h, y0, (q1, rest1), first, last)
        error = (self.space.rate(q1, error_v), error_rest)  # pyright: ignore[reportOptionalMemberAccess]
        return (q1, rest1), error, info, last, diffrax.RESULTS.successful

    def _stages(self, terms, t0, t1, h, y0, args, first):
        """All slopes and the state at the end, by a loop, so that the right-hand side is compiled only once."""
        q0, rest0 = y0
        nodes, exponents = np.array(self.tableau.nodes), np.array(self.tableau.exponents)
        slopes = jax.tree.map(lambda k: jnp.zeros((len(nodes) + 1, *k.shape), k.dtype), first)
        slopes = jax.tree.map(lambda ks, k: ks.at[0].set(k), slopes, first)

        def stage(carry, point):
            slopes, _ = carry
            index, node, factors = point
            q = q0
            for weights in factors:
                q = self.space.retract(q, _combine(h, weights, slopes[0]))  # pyright: ignore[reportOptionalMemberAccess]
            change = _combine(h, jnp.sum(factors, axis=0), slopes[1])
            y = (q, jax.tree.map(jnp.add, rest0, change))
            t = jnp.where(node == 1, t1, t0 + jnp.asarray(node, jnp.result_type(t0)) * (t1 - t0))
            slope = self._slope(terms, t, y, args)
            return (jax.tree.map(lambda ks, k: ks.at[index].set(k), slopes, slope), y), None

        points = (jnp.arange(1, len(nodes) + 1), jnp.asarray(nodes), jnp.asarray(exponents))
        (slopes, (q1, rest1)), _ = jax.lax.scan(stage, (slopes, y0), points)
        return slopes, (self.space.normalise(q1), rest1)  # pyright: ignore[reportOptionalMemberAccess]

    def _slope(self, terms, t, y, args):
        """The slope (v, d(rest)/dt) of a state."""
        q_dot, rest_dot = terms.vf(t, y, args)
        return self.space.velocity(y[0], q_dot), rest_dot  # pyright: ignore[reportOptionalMemberAccess]

    def _dense_info(self, h, y0, y1, first, last):
        (dq0, drest0), (dq1, drest1) = (
            jax.tree.map(lambda k: jnp.asarray(h, k.dtype) * k, slope) for slope in (first, last)
        )
        ends = {"q0": y0[0], "q1": y1[0], "rest0": y0[1], "rest1": y1[1]}
        slopes = {"dq0": dq0, "dq1": dq1, "drest0": drest0, "drest1": drest1}
        return {"space": traced(self.space), **ends, **slopes}


def _combine(h, weights, slopes):
    """h Σ_l w_l k_l."""

    def total(k):
        scaled = jnp.asarray(h, k.dtype) * jnp.asarray(weights, k.dtype)
        return jnp.tensordot(scaled, k, axes=1, precision=jax.lax.Precision.HIGHEST)

    return jax.tree.map(total, slopes)


class CommutatorFree2(AbstractCommutatorFree):
    """The Lie midpoint method, order 2: two evaluations, each followed by one exponential.

        V = v(t₀ + h/2, q₀·exp(h/2 v₀)) ,   q₁ = q₀·exp(h V)

    On vector spaces it is the explicit midpoint rule. The error estimate, of Euler's method, is h (V − v₀).

    **Arguments:** as for `CommutatorFree4`.
    """

    space: Any = None

    tableau: ClassVar[_Tableau] = _MIDPOINT

    def __check_init__(self) -> None:
        check_solver_space(self.space, type(self).__name__)


class CommutatorFree4(AbstractCommutatorFree):
    """The commutator-free method of Celledoni, Marthinsen and Owren, order 4: four evaluations, no commutator, no dexp⁻¹.

        v₁ at q₀ ,   v₂ at q₀·exp(h/2 v₁) ,   v₃ at q₀·exp(h/2 v₂) ,   v₄ at q₀·exp(h/2 v₁)·exp(h (v₃ − ½ v₁)) ,
        q₁ = q₀·exp(h/12 (3 v₁ + 2 v₂ + 2 v₃ − v₄))·exp(h/12 (−v₁ + 2 v₂ + 2 v₃ + 3 v₄)) .

    On vector spaces, and for the quasi-velocities, it is the classical Runge–Kutta method. The first evaluation of a step
    is the last one of the step before. For adaptive steps the error estimate is h/6 (v₄ − v(q₁)): the classical weights
    (1, 2, 2, 0, 1)/6 with the slope at the end make a method of order 3. Dense output: cubic Hermite in exponential
    coordinates, error O(h⁴). Forward and reverse mode, events, `vmap`.

    ```python
    jaxhamel.simulate(system, q0, u0, ts, dt=0.01, solver=jaxhamel.CommutatorFree4())
    diffrax.diffeqsolve(term, jaxhamel.CommutatorFree4(jaxhamel.SE3()), t0, t1, dt0, (q0, u0), args=(system, control))
    ```

    **Arguments:**

    - `space`: the configuration space of q; `jaxhamel.simulate` takes the system's.

    **Raises:** `TypeError` if `space` is no space; `ValueError` for a state that is not (q, rest).

    Source: Celledoni, Marthinsen and Owren 2003, Future Generation Computer Systems 19, 341, there for the
    action from the left, where the factors stand in the opposite order; Owren 2006, J. Phys. A 39, 5585 (order theory).
    """

    space: Any = None

    tableau: ClassVar[_Tableau] = _CELLEDONI_MARTHINSEN_OWREN

    def __check_init__(self) -> None:
        check_solver_space(self.space, type(self).__name__)
