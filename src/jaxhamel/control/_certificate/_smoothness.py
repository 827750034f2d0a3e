"""Names the costs, constraints and equations of motion whose derivatives are not finite, or jump, where a search stands.

Newton's method needs two continuous derivatives of each function. A jump of a derivative at a kink, such as that of |x| at
0, stays the same on a shorter step across the kink, while the change of a smooth derivative falls with the step:

    |f′(w + δ e; e) − f′(w − δ e; e)|   at δ and δ/10 ,

f′(·; e) being the derivative in the direction e.
"""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._derivatives import Residuals, evaluate
from jaxhamel.control._problem._limits import PathLimit
from jaxhamel.control._scaling._sizes import size_of

STEP = 1e-2  # δ, as a share of the sizes of the unknowns
SAME = 0.5  # a change counts as a jump if a tenth of the step leaves this share of it
LARGE = 0.01  # the least jump, as a share of the largest derivative

PointUnknowns = tuple[Array, ...]  # (nodes, stages, controls, parameters)


def terms(transcription: Transcription) -> Iterator[tuple[str, Transcription, str]]:
    """For each cost, limit and other constraint, and for the equations of motion: (name, transcription with this term alone,
    its part of the values)."""

    def alone(**kept: tuple[Any, ...]) -> Transcription:
        given = [kept.get(name, ()) for name in ("costs", "constraints", "limits")]
        return eqx.tree_at(lambda t: (t.costs, t.constraints, t.limits), transcription, given)

    for cost in transcription.costs:
        yield f"the cost `{type(cost).__name__}`", alone(costs=(cost,)), "cost"
    yield "the equations of motion", alone(), "stages"
    for limit in transcription.limits:
        yield f"`{limit.label}`", alone(limits=(limit,)), "limits"
    for term in transcription.constraints:
        if not isinstance(term, PathLimit):
            name = getattr(term, "name", type(term).__name__)
            yield f"`{name}`", alone(constraints=(term,)), "conditions"


def not_smooth(
    transcription: Transcription, w: CollocationPoint, test: Callable[..., bool]
) -> list[str]:
    """The names of the terms for which `test(transcription with the term alone, its part, unknowns, w)` is true."""
    w = w._replace(slack=jnp.zeros((), w.slack.dtype))
    unknowns = w.x, w.X, w.c, w.p
    found = [name for name, *term in terms(transcription) if test(*term, unknowns, w)]
    return list(dict.fromkeys(found))


def has_infinite_derivative(
    transcription: Transcription, part: str, at: PointUnknowns, w: CollocationPoint
) -> bool:
    """Whether a first or second derivative of a term is not finite."""
    ones = tuple(jnp.ones_like(x) for x in at)
    both = _slope_and_curvature(transcription, at, ones, w)
    return not all(np.all(np.isfinite(_part(x, part))) for x in both)


def has_jump(
    transcription: Transcription, part: str, at: PointUnknowns, w: CollocationPoint
) -> bool:
    """Whether a derivative of a term jumps within a thousandth of the sizes of the unknowns."""
    rng = np.random.default_rng(0)
    way = tuple(
        jnp.asarray(
            np.asarray(size_of(transcription.sizes, name)) * rng.uniform(0.5, 1.0, x.shape), x.dtype
        )
        for name, x in zip(("x", "x", "c", "p"), at, strict=True)
    )

    def slopes(length: float) -> np.ndarray:
        moved = [jax.tree.map(lambda x, d, by=by: x + by * d, at, way) for by in (length, -length)]
        return np.stack([_part(_slope(transcription, x, way, w), part) for x in moved])

    far, near = slopes(STEP), slopes(STEP / 10)
    large = LARGE * np.max(np.abs(near), initial=0.0)
    change, longer = (np.abs(x[0] - x[1]) for x in (near, far))
    return bool(np.any((change > SAME * longer) & (change > large)))


def _part(values: tuple[Scalar, Residuals], part: str) -> np.ndarray:
    """The cost, or one part of the residuals."""
    cost, residuals = values
    return np.asarray(cost if part == "cost" else getattr(residuals, part))


@compiled_with(QUICK)
def _slope(
    transcription: Transcription, at: PointUnknowns, way: PointUnknowns, w: CollocationPoint
) -> tuple[Scalar, Residuals]:
    """The derivatives of cost and residuals in the direction `way`.

    In forward mode an infinite derivative stays in the results of its own term.
    """

    def values(at: PointUnknowns) -> tuple[Scalar, Residuals]:
        x, X, c, p = at
        return evaluate(transcription, w._replace(x=x, X=X, c=c, p=p))

    return jax.jvp(values, (at,), (way,))[1]


@compiled_with(QUICK)
def _slope_and_curvature(
    transcription: Transcription, at: PointUnknowns, way: PointUnknowns, w: CollocationPoint
) -> tuple[tuple[Scalar, Residuals], tuple[Scalar, Residuals]]:
    """The first and second derivatives of cost and residuals in the direction `way`."""
    return jax.jvp(lambda at: _slope(transcription, at, way, w), (at,), (way,))
