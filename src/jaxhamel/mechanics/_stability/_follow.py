"""Branches of relative equilibria along a parameter, also past folds, by pseudo-arclength continuation.

    R(x, ζ, p) = 0 ,    ker ∂R = span(τ) + symmetry orbits

A step predicts the next point (x, ζ, p) + h τ along the tangent τ and corrects it by the shortest steps to R = 0. The
parameter p is an unknown like the others, so that the method passes a fold, at which the branch turns back in p.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.mechanics._checks._hypotheses import check_curve_of_solutions
from jaxhamel.mechanics._kinematics import prepare
from jaxhamel.mechanics._stability._relative_equilibrium import (
    EquilibriumProblem,
    RelativeEquilibrium,
    bound_of,
    free_mask,
    jacobian,
    rank_threshold,
    relative_equilibrium,
    solve,
    unknown_after,
)
from jaxhamel.mechanics._stability._symmetry import Symmetry, generator
from jaxhamel.mechanics._system import System

_HALVINGS = 6  # largest number of halvings of a step whose corrector does not converge


class Branch(NamedTuple):
    """A branch of relative equilibria along a parameter.

    `parameters`: the values of p, `(N,)`; `equilibria`: the `RelativeEquilibrium` at each of them, in the order along the
    branch; `complete`: whether all requested steps were made.
    """

    parameters: Float[Array, " N"]
    equilibria: tuple[RelativeEquilibrium, ...]
    complete: bool


class _Family(EquilibriumProblem):
    """The problem R(x, ζ, p) = 0, whose system and conditions depend on p, the last of the unknowns."""

    family: Callable | None = None
    conditions_at: Any = None

    def at(self, parameter: Array) -> EquilibriumProblem:
        """The equilibrium problem with the parameter fixed at a value, `(1,)`."""
        p = parameter[0]
        system = self.system if self.family is None else self.family(p)
        given = self.conditions_at
        conditions = None if given is None else lambda q, u: given(p, q, u)
        return EquilibriumProblem(system, self.t, self.control, self.symmetry, conditions)


def follow_equilibria(
    system: System | Callable[[Array], System],
    parameter: float,
    t: Time,
    q: Configuration,
    u: QuasiVelocity,
    control: Control = None,
    *,
    symmetry: Symmetry | None = None,
    conditions: Callable[[Array, Configuration, QuasiVelocity], Array] | None = None,
    free: Sequence[int] | None = None,
    step: float = 0.1,
    steps: int = 50,
    tolerance: float | None = None,
) -> Branch:
    """Follows the branch of relative equilibria R(x, ζ, p) = 0 from a value of p, by steps of arclength in (x, ζ, p), also
    past folds.

    **Arguments:** as for `relative_equilibrium`, and

    - `system`: a system, or a function of p that gives systems of the same class.
    - `parameter`: p at the start; `q`, `u`: a guess of the state there.
    - `conditions`: a function (p, q, u) → array that must vanish. With these conditions the solutions (p, x, ζ) have to form
      a curve, apart from the symmetry, which moves x.
    - `step`: the arclength of a step, positive towards larger p at the start. It is halved, up to six times, if the
      correction does not converge. `steps`: the number of steps.

    **Returns:** a `Branch`. Its `parameters` turn back at a fold. For an equilibrium e of it, `modes(e.linearisation().A)`
    shows the stability.

    **Raises:** as `relative_equilibrium`; `ValueError` where the solutions are not a curve.

    Source: Keller 1977, for the arclength as parameter; Allgower and Georg 1990, for the shortest correction.
    """
    family = system if callable(system) and not isinstance(system, System) else None
    p = jnp.asarray(parameter, jnp.result_type(u))
    here: System = system if family is None else family(p)  # pyright: ignore[reportAssignmentType]
    at_p = None if conditions is None else lambda q, u: conditions(p, q, u)
    start = relative_equilibrium(
        here, t, q, u, control, symmetry=symmetry, conditions=at_p, free=free, tolerance=tolerance
    )
    t, _, _, control = prepare(start.q, start.u, t=t, control=control, keep_feedback=True)
    problem = _Family(here, t, control, symmetry, None, family, conditions)
    bound = bound_of(tolerance, start.u.dtype) * (1 + jnp.max(jnp.abs(start.rates), initial=0.0))
    mask = free_mask(here, free, start.u.dtype)
    return _branch(problem, start, p, mask, bound, step, steps)


def _branch(problem, start, p, mask, bound, step, steps) -> Branch:
    """The branch from a first equilibrium; it ends early if a step fails."""
    equilibria, parameters = [start], [p]
    unknown = (start.q, start.u), jnp.append(start.rates, p)
    direction = None
    for _ in range(steps):
        direction = _unit_tangent(problem, unknown, mask, direction)
        following = _next_point(problem, unknown, step * direction, mask, bound)
        if following is None:
            break
        found, w = following
        unknown = (found.q, found.u), w
        equilibria.append(found)
        parameters.append(w[-1])
    complete = len(equilibria) == steps + 1
    return Branch(jnp.stack(parameters), tuple(equilibria), complete)


def _next_point(problem, unknown, step, mask, bound):
    """The next equilibrium and its (ζ, p), by a step that is halved until the correction converges; None if it
    never does.
    """
    for halving in range(_HALVINGS + 1):
        predicted = unknown_after(problem, unknown, 0.5**halving * step)
        found, w = solve(problem, predicted, mask, bound, 20)
        if bool(found.converged):
            return found, w
    return None


def _unit_tangent(problem, unknown, mask, previous) -> Array:
    """The unit tangent of the curve: towards larger p at the start, then in the direction of the previous tangent."""
    dimension, tangent = _kernel(problem, unknown, mask)
    check_curve_of_solutions(int(dimension))
    along = tangent[-1] if previous is None else jnp.dot(tangent, previous)
    return tangent * jnp.where(along < 0, -1.0, 1.0).astype(tangent.dtype)


@compiled
def _kernel(problem, unknown, mask):
    """The dimension of the kernel of ∂R without directions of the symmetry and fixed components, and a unit vector in it."""
    x, w = unknown
    J, _ = jacobian(problem, unknown, mask)
    here = problem.at(w[-1:])

    def orbit(e):
        return mask * generator(here.system, problem.symmetry, problem.t, e, x)

    orbits = jnp.stack([*map(orbit, jnp.eye(w.size - 1, dtype=w.dtype)), *jnp.diag(1.0 - mask)])
    left_out = jnp.pad(orbits, ((0, 0), (0, w.size)))
    _, values, rows = jnp.linalg.svd(jnp.concatenate([J, left_out]), full_matrices=False)
    return jnp.sum(values <= rank_threshold(values)), rows[-1]
