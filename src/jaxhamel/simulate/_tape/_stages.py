"""A step of an explicit Runge–Kutta method of diffrax repeated from stored results, and its stages, whose slopes are known,
with their transpose.

    k_i = h f(t_i, Y_i) ,   Y_i = y_0 + Σ_j a_ij k_j ,   y_1 = y_0 + Σ_i b_i k_i .

The backward pass evaluates only f′ᵀ, at Y_i:

    f̄_i = h k̄_i ,   Ȳ_i = f′(t_i, Y_i)ᵀ f̄_i ,   ȳ_0 += Ȳ_i ,   k̄_j += a_ij Ȳ_i   for i = s, …, 1 .

If the last slope of a step is also the first one of the next step, the cotangent of a first slope is passed to the step
before, and stage 1 is not transposed. A bar denotes a cotangent; the slopes k_i here include the factor h.
"""

from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxhamel._lanes._derivatives._active_inputs import with_entries
from jaxhamel.simulate._solvers._base_classes import with_scan_kind
from jaxhamel.simulate._solvers._runge_kutta import numbers_of
from jaxhamel.simulate._stops import AttemptedStep, StepControl
from jaxhamel.simulate._tape._loop_program import Flags, dense

_NOTHING = object()  # the entry of an array whose cotangent is not needed, in lists of cotangents


class KnownStep(NamedTuple):
    """A step from y_0 at t_0 to t_1 with known slopes.

    - `arrays`: the arrays among the terms and their arguments.
    - `first`: a flag, whether this step evaluated its first slope, and the rate f that it used otherwise, the last one of
      the step before; None if every step evaluates its first slope.
    - `slopes`: k_i, along a leading axis.
    """

    t0: Any
    t1: Any
    y0: Any
    arrays: Any
    first: Any
    slopes: Any


def stages(solver: diffrax.AbstractERK, others: Any, known: KnownStep) -> tuple[Any, Any, Any]:
    """y_1, the slopes, and the last rate f, with the derivatives described above.

    `others`: the parts of the terms and of their arguments that are not arrays.
    """
    dtype = jax.tree.leaves(known.y0)[0].dtype
    numbers = tuple(np.asarray(x, dtype) for x in numbers_of(solver.tableau))
    leaves, structure = jax.tree.flatten(
        known
    )  # a `jax.custom_vjp` function must capture no arrays
    like = known.y0, known.slopes, known.y0
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), like)

    def values(*leaves):
        step: KnownStep = jax.tree.unflatten(structure, leaves)
        h, b = eqx.combine(step.arrays, others)[0].contr(step.t0, step.t1), jnp.asarray(numbers[1])
        y1 = jax.tree.map(lambda y, k: y + weighted(b, k), step.y0, step.slopes)
        return y1, step.slopes, jax.tree.map(lambda k: k[-1] / h, step.slopes)

    def forward(*given):
        kept = [jnp.asarray(x.value) for x in given]
        return values(*kept), (kept, Flags(tuple(x.perturbed for x in given)))

    def backward(kept, bars):
        step = jax.tree.unflatten(structure, [jnp.asarray(x) for x in kept[0]])
        moves = jax.tree.unflatten(structure, kept[1].moving)
        found = _Transposed(numbers, others, step, moves).cotangents(*map(dense, bars, shapes))
        return tuple(None if x is _NOTHING else x for x in jax.tree.leaves(found))

    step = jax.custom_vjp(values)
    step.defvjp(forward, backward, symbolic_zeros=True)
    return step(*leaves)


def weighted(weights, slopes):
    """Σ_i w_i k_i, by operations that a kernel can contain."""
    return jnp.sum(weights.reshape(-1, *[1] * (slopes.ndim - 1)) * slopes, axis=0)


class _Cotangents(NamedTuple):
    """The stage to transpose next, and the cotangents so far."""

    stage: Any
    slopes: Any
    y0: Any
    t0: Any
    t1: Any
    arrays: list[Any]


class _Transposed:
    """The backward pass of one step."""

    def __init__(self, numbers, others, step: KnownStep, moves: KnownStep):
        self.a, self.b, self.c = map(jnp.asarray, numbers)
        self.others, self.step = others, step
        self.h, self.of_h = jax.vjp(eqx.combine(step.arrays, others)[0].contr, step.t0, step.t1)
        self.each, self.structure = jax.tree.flatten(step.arrays)
        moving = jax.tree.leaves(moves.arrays)
        self.active = [i for i, moves in enumerate(moving) if moves]

    def cotangents(self, of_y1, of_slopes, of_last) -> KnownStep:
        """The cotangents of all parts of the step, from those of y_1, of the slopes and of the last rate."""
        zero = jnp.zeros_like(self.step.t0)
        of_arrays = [jnp.zeros_like(self.each[i]) for i in self.active]
        of_slopes = _plus_weighted(self.b, of_slopes, of_y1)
        start = _Cotangents(len(self.b) - 1, of_slopes, of_y1, zero, zero, of_arrays)
        is_first = jnp.array(True) if self.step.first is None else self.step.first[0]
        lowest = jnp.where(is_first, 0, 1)

        def stage(bars):
            return self._stage(bars, of_last)

        return self._of_all(
            is_first, lax.while_loop(lambda bars: bars.stage >= lowest, stage, start)
        )

    def _stage(self, bars: _Cotangents, of_last) -> _Cotangents:
        """Transposes stage `bars.stage`: Ȳ_i = f′(t_i, Y_i)ᵀ h k̄_i, added to the other cotangents."""
        i, step = bars.stage, self.step
        y = jax.tree.map(lambda y, k: y + weighted(self.a[i], k), step.y0, step.slopes)
        t = jnp.where(self.c[i] == 1, step.t1, step.t0 + self.c[i] * (step.t1 - step.t0))
        only_last = jax.tree.map(
            lambda x: jnp.where(i == len(self.b) - 1, x, jnp.zeros_like(x)), of_last
        )
        of_rate = jax.tree.map(lambda k, x: self.h * k[i] + x, bars.slopes, only_last)
        values = [self.each[j] for j in self.active]
        of_t, of_y, more = jax.vjp(self._rate, t, y, values)[1](of_rate)
        return _Cotangents(
            i - 1,
            _plus_weighted(self.a[i], bars.slopes, of_y),
            jax.tree.map(jnp.add, bars.y0, of_y),
            bars.t0 + (1 - self.c[i]) * of_t,
            bars.t1 + self.c[i] * of_t,
            [x + y for x, y in zip(bars.arrays, more, strict=True)],
        )

    def _rate(self, t, y, values):
        filled = jax.tree.unflatten(self.structure, with_entries(self.each, self.active, values))
        terms, args = eqx.combine(filled, self.others)
        return terms.vf(t, y, args)

    def _of_all(self, is_first, bars: _Cotangents) -> KnownStep:
        products = jax.tree.map(lambda k, bar: jnp.sum(k * bar), self.step.slopes, bars.slopes)
        of_t0, of_t1 = self.of_h(sum(jax.tree.leaves(products)) / self.h)
        handed = jax.tree.map(
            lambda k: jnp.where(is_first, jnp.zeros_like(k[0]), self.h * k[0]), bars.slopes
        )
        arrays = with_entries([_NOTHING] * len(self.each), self.active, bars.arrays)
        return KnownStep(
            bars.t0 + of_t0,
            bars.t1 + of_t1,
            bars.y0,
            jax.tree.unflatten(self.structure, arrays),
            None if self.step.first is None else (_NOTHING, handed),
            jax.tree.map(lambda _: _NOTHING, self.step.slopes),
        )


def _plus_weighted(weights, slopes, y):
    """k_i + w_i y for all stages i."""

    def column(y):
        return weights.reshape(-1, *[1] * y.ndim) * y[None]

    return jax.tree.map(lambda k, y: k + column(y), slopes, y)


class StateAndResult(NamedTuple):
    """The state of a solver, with the slopes of its latest step as `result`; or that of a controller, with (y_1, error)."""

    state: Any
    result: Any


class Repeat(NamedTuple):
    """The state of a solver or controller before a step that is to be repeated, with the stored `result` of this step."""

    state: Any
    result: Any


class RepeatedDecision(StepControl):
    """A step size controller that stores (y_1, error) of each step, and decides by these if its state is a `Repeat`."""

    controller: Any

    def decide(self, attempt: AttemptedStep, state: Any) -> Any:
        found = state.result if isinstance(state, Repeat) else (attempt.y1, attempt.error)
        attempt = attempt._replace(y1=found[0], error=found[1])
        *decision, inner, result = self.controller.adapt_step_size(*attempt, state.state)
        return *decision, type(state)(inner, found), result


class RepeatedStep(eqx.Module):
    """An explicit method whose state is `StateAndResult` or, where a step is repeated, `Repeat`."""

    solver: Any

    def __init__(self, solver: diffrax.AbstractERK):
        self.solver = with_scan_kind(solver, "lax")

    @property
    def interpolation_cls(self) -> Any:
        return self.solver.interpolation_cls

    def error_order(self, terms: Any) -> Any:
        return self.solver.error_order(terms)

    def initial_state(self, state: Any, y: Any) -> StateAndResult:
        count = self.solver.tableau.num_stages
        return StateAndResult(
            state, jax.tree.map(lambda x: jnp.zeros((count, *x.shape), x.dtype), y)
        )

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any
    ) -> Any:
        if isinstance(solver_state, Repeat):
            return self._again(terms, t0, t1, y0, args, _after(solver_state, made_jump))
        y1, error, info, state, result = self.solver.step(
            terms, t0, t1, y0, args, solver_state.state, made_jump
        )
        return y1, error, info, StateAndResult(state, info["k"]), result

    def _again(self, terms, t0, t1, y0, args, known: Repeat):
        arrays, others = eqx.partition((terms, args), eqx.is_array)
        step = KnownStep(t0, t1, y0, arrays, known.state, known.result)
        y1, slopes, last = stages(self.solver, others, step)
        weights = jnp.asarray(self.solver.tableau.b_error, t0.dtype)
        error = jax.tree.map(lambda k: weighted(weights, k), slopes)
        state = None if known.state is None else (jnp.array(False), last)
        info = {"y0": y0, "y1": y1, "k": slopes}
        return y1, error, info, Repeat(state, slopes), diffrax.RESULTS.successful


def _after(known: Repeat, made_jump) -> Repeat:
    """The state before a repeated step; after a jump the step's first slope is not the last one of the step before it."""
    if known.state is None:
        return known
    is_first, last = known.state
    return Repeat((is_first | made_jump, last), known.result)
