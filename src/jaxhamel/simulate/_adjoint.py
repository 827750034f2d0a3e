"""The default adjoint of `simulate`: forward and reverse mode, each by the cheaper method."""

from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import numpy as np

from jaxhamel._compiled import compiled
from jaxhamel._lanes._derivatives._active_inputs import tangent_maps
from jaxhamel._lanes._derivatives._linear_map import (
    LinearProgram,
    linear_map,
    transposed_by_columns,
)
from jaxhamel._lanes._derivatives._own_derivative import own_derivative
from jaxhamel._lanes._fused_turns import LONGEST_TURN, length_of_lanes
from jaxhamel._lanes._written_turn import LARGEST_WRITTEN
from jaxhamel._lanes._xla_cpu._whole_loop import whole_loop
from jaxhamel.simulate._end_time import ForwardMode, in_one_call
from jaxhamel.simulate._solvers._projected import unprojected
from jaxhamel.simulate._step_size import FixedStep
from jaxhamel.simulate._tape._tape_adjoint import TapeAdjoint, can_be_taped

# The most operations of a gradient that is compiled as one kernel: the gradient of 20 links (33,800 operations) takes half
# of the time as a single kernel (docs/performance.md#tape).
LONGEST_REVERSE = 40_000
# The same of a motion: a right-hand side of as many operations as are written out (`SHORT` in `_one_lane`), and its loops
# (docs/performance.md#whole-loop).
LONGEST_MOTION = 14_000
NEVER = 2**31 - 1  # more inputs than any solve has


class AutoAdjoint(diffrax.AbstractAdjoint):
    """Differentiates a solve in forward *and* in reverse mode; the number of differentiated inputs decides on the method.

    diffrax's own adjoints are efficient in one mode only: `ForwardMode` has no reverse mode, `RecursiveCheckpointAdjoint` no
    forward mode, and `DirectAdjoint` has both at several times the cost. This adjoint runs a plain loop for the solution
    y = F(x), and computes derivatives by separate programs:

    | requested                              | computed by                                                  |
    |----------------------------------------|--------------------------------------------------------------|
    | nothing                                | the plain loop; the adjoint costs nothing                    |
    | F′ẋ (`jvp`, `jacfwd`)                  | `ForwardMode`                                                |
    | F′ᵀȳ (`grad`, `jacrev`), few inputs    | the columns of F′, by one vmapped `ForwardMode`; then F′ᵀȳ  |
    | … two to ten, one ȳ (`grad`)           | a tape of the states, where the method can be taped          |
    | F′ᵀȳ, many inputs                      | a tape of the states, or `RecursiveCheckpointAdjoint`        |
    | second derivatives, forward over either| `ForwardMode` twice; over many inputs' reverse `DirectAdjoint` |
    | … reverse over either, few inputs      | the columns again, by `ForwardMode` twice                    |
    | … reverse over either, many inputs     | `DirectAdjoint` (its cost grows with `max_steps`)            |

    "Inputs" are the floating-point numbers that carry a tangent (q0, u0, parameters, control coefficients), counted
    one by one. The number of outputs matters less: the columns of F′ serve all outputs at once, and a vmapped backward pass
    has a single forward pass. Still, a Jacobian of many outputs with few inputs is cheapest by `jacfwd`.

    With up to about ten inputs, columns take half the time of checkpoints and two thirds of their compile time
    (docs/performance.md#adjoints). A tape takes 2 to 4 times as long as the motion, for any number of inputs, and compiles
    about 1 s longer than columns; columns take 2 to 23 times as long as the motion. So a single gradient takes one
    `ForwardMode` for one input and a tape for more; batches of gradients and second derivatives use columns
    (docs/performance.md#tape).

    It works in `diffrax.diffeqsolve(..., adjoint=AutoAdjoint())` as well.

    **Arguments:**

    - `forward_up_to`: the largest number of inputs for which reverse mode uses columns.
    - `tape_from`: the smallest number of inputs for which a single gradient uses the tape of the default `reverse`.
    - `reverse`: the adjoint for more inputs; the default keeps the states on a tape for explicit Runge–Kutta methods and is
      `diffrax.RecursiveCheckpointAdjoint()` for others.
    """

    forward_up_to: int = eqx.field(static=True, default=10)
    reverse: diffrax.AbstractAdjoint = TapeAdjoint()
    tape_from: int = eqx.field(static=True, default=2)

    def loop(self, *, terms: Any, args: Any, init_state: Any, t0: Any, **kwargs: Any) -> Any:
        terms = _without_closures(terms, t0, init_state.y, args)
        kwargs["saveat"] = _saving_without_closures(kwargs["saveat"], init_state, args)
        inputs = dict(kwargs, terms=terms, args=args, init_state=init_state, t0=t0)
        tape_from = self.tape_from if self._has_tape(inputs) else NEVER
        inputs = self.taken_apart(inputs)
        x, static = eqx.partition(inputs, eqx.is_array)
        leaves, structure = jax.tree.flatten(x)

        def solve_by(adjoint, prepared=lambda inputs: inputs):
            def solve(leaves):
                filled = eqx.combine(jax.tree.unflatten(structure, leaves), static)
                return adjoint.loop(**prepared(self.put_together(filled)))

            # traced only once, even if it is differentiated repeatedly
            return jax.jit(in_one_call(solve))

        solves = [solve_by(a) for a in (ForwardMode(), self.reverse, diffrax.DirectAdjoint())]
        plain = solve_by(ForwardMode(), with_first_slope)
        bounds, fuse_turns = (self.forward_up_to, tape_from), _may_be_fused(**kwargs)
        return _differentiable(plain, *solves, bounds=bounds, fuse_turns=fuse_turns)(leaves)

    def _has_tape(self, inputs: dict[str, Any]) -> bool:
        return isinstance(self.reverse, TapeAdjoint) and can_be_taped(inputs)

    def taken_apart(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The inputs of the loop, as a pytree whose leaves this adjoint counts to find the numbers that carry a tangent."""
        return inputs

    def put_together(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The inputs of the loop in the form that diffrax takes: the inverse of `taken_apart`."""
        return inputs


def _may_be_fused(*, stepsize_controller: Any, **_: Any) -> bool:
    """Whether a step may be compiled as one fusion.

    A step may not become a fusion if it reads its times from a short array, which would be written out with the step.
    """
    known = isinstance(stepsize_controller, FixedStep)
    return not known or stepsize_controller.ts.size > LARGEST_WRITTEN


def _without_closures(terms, t0, y0, args):
    """The terms with a vector field whose closed-over values are explicit inputs, so that their tangents are counted."""
    if not isinstance(getattr(terms, "term", None), diffrax.ODETerm):
        return terms
    field = eqx.filter_closure_convert(terms.term.vector_field, t0 * terms.direction, y0, args)
    return eqx.tree_at(lambda t: t.term.vector_field, terms, _TracedOnce(field))


def _saving_without_closures(saveat, state, args):
    """`SaveAt(fn=…)` with the values over which fn closes as explicit inputs; diffrax' direction of time is one of them."""

    def converted(sub):
        if not isinstance(sub, diffrax.SubSaveAt) or getattr(sub.fn, "__closure__", None) is None:
            return sub
        fn = eqx.filter_closure_convert(sub.fn, state.tprev, state.y, args)
        return eqx.tree_at(lambda s: s.fn, sub, fn)

    def is_sub(x):
        return isinstance(x, diffrax.SubSaveAt)

    subs = jax.tree.map(converted, saveat.subs, is_leaf=is_sub)
    return eqx.tree_at(lambda s: s.subs, saveat, subs)


class _TracedOnce(eqx.Module):
    """A vector field as a jitted program inside of the loop's program.

    JAX differentiates a loop repeatedly until it is known which of its values carry a tangent. It keeps the derivative of a
    jitted program, but differentiates inlined operations again each time (docs/performance.md#adjoints).
    """

    field: Any

    def __call__(self, t, y, args):
        return _evaluate(self.field, t, y, args)


@compiled
def _evaluate(field, t, y, args):
    return field(t, y, args)


def _differentiable(
    plain: Callable[..., Any],
    forward: Callable[..., Any],
    reverse: Callable[..., Any],
    direct: Callable[..., Any],
    *,
    bounds: tuple[int, int],
    fuse_turns: bool,
) -> Callable[..., Any]:
    """F as a function of a list of arrays, with the derivative rules described in `AutoAdjoint`.

    **Arguments:** `plain`, `forward`, `reverse`, `direct`: F by the plain loop and by three adjoints; `bounds`:
    `forward_up_to` and `tape_from`; `fuse_turns`: see `whole_loop`.
    """

    def solve(leaves):
        shapes, structure = jax.tree.flatten(jax.eval_shape(plain, leaves))
        compiled_whole = whole_loop(plain, most=LONGEST_MOTION, fuse_turns=fuse_turns)

        def run(*leaves):
            return jax.tree.leaves(compiled_whole(list(leaves)))

        def rule(leaves, tangents):
            out = own_derivative(run, rule, leaves, shapes)
            moving = [i for i, t in enumerate(tangents) if t is not None]
            maps = _tangent_maps(forward, reverse, direct, moving, leaves, bounds)
            inexact = [y for y in out if eqx.is_inexact_array(y)]
            rates = iter(linear_map(*maps, leaves, [tangents[i] for i in moving], inexact))
            return out, [next(rates) if eqx.is_inexact_array(y) else None for y in out]

        return jax.tree.unflatten(structure, own_derivative(run, rule, leaves, shapes))

    return solve


def _tangent_maps(
    forward, reverse, direct, moving, leaves, bounds: tuple[int, int]
) -> tuple[LinearProgram, LinearProgram]:
    """F′ and F′ᵀ with respect to the leaves that carry a tangent."""
    jvp, _ = tangent_maps(_float_results(forward), moving)
    jvp_direct, vjp_direct = tangent_maps(_float_results(direct), moving)
    _, vjp = tangent_maps(_float_results(reverse), moving)
    size = sum(leaves[i].size for i in moving)
    forward_up_to, tape_from = bounds
    by_tape = whole_loop(vjp, most=LONGEST_REVERSE)
    if size <= forward_up_to:
        by_columns = _by_columns(jvp, moving)
        quick = _by_columns(whole_loop(jvp), moving)
        run = by_tape if size >= tape_from else quick
        transpose = LinearProgram(run, by_columns, vjp_direct, forward_up_to, quick)
    else:
        transpose = LinearProgram(by_tape, vjp_direct, vjp_direct)
    return LinearProgram(whole_loop(jvp), jvp, jvp_direct, forward_up_to), transpose


def _float_results(solve: Callable[..., Any]) -> Callable[..., list]:
    """The floating-point results of F, as a function of its leaves."""

    def results(*leaves):
        return [y for y in jax.tree.leaves(solve(list(leaves))) if eqx.is_inexact_array(y)]

    return results


def _by_columns(jvp, moving):
    """x̄ = F′ᵀȳ from all columns of F′. The columns do not depend on ȳ, so that a vmap over ȳ computes them once."""

    def vjp(leaves, y_bar):
        return transposed_by_columns(lambda e: jvp(leaves, e), [leaves[i] for i in moving], y_bar)

    return vjp


def with_first_slope(inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs of an adjoint's loop with the first slope, or unchanged.

    The slope is added if the method reuses its last one and if a step has few enough operations for one fusion.
    """
    state, terms, args = inputs["init_state"], inputs["terms"], inputs["args"]
    if not _keeps_last(inputs["solver"]) or inputs["passed_solver_state"]:
        return inputs
    rate = jax.make_jaxpr(lambda: terms.vf(state.tprev, state.y, args))()
    if not 0 < _stages(inputs["solver"]) * length_of_lanes(rate.jaxpr) <= LONGEST_TURN:
        return inputs
    slope = terms.vf(state.tprev, state.y, args)
    known = eqx.tree_at(lambda s: s.solver_state, state, (np.False_, slope))
    return inputs | {"init_state": known}


def _keeps_last(solver: Any) -> bool:
    """Whether the state of a solver, or of the method that it projects, is (first step, slope)."""
    tableau = getattr(unprojected(solver), "tableau", None)
    is_explicit = isinstance(unprojected(solver), diffrax.AbstractERK)
    return is_explicit and isinstance(tableau, diffrax.ButcherTableau) and tableau.fsal


def _stages(solver: Any) -> int:
    return unprojected(solver).tableau.num_stages
