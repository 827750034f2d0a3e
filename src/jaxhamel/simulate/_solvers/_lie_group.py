"""Runge–Kutta–Munthe-Kaas: any explicit Runge–Kutta method of diffrax, on a Lie group."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
from diffrax import AbstractLocalInterpolation

from jaxhamel._typing import Configuration, Velocity
from jaxhamel.geometry import AbstractSpace
from jaxhamel.simulate._checks import check_group_state, check_lie_group
from jaxhamel.simulate._solvers._base_classes import AbstractWrappedMethod, apply, retracted


class LieGroup(AbstractWrappedMethod):
    """A Runge–Kutta method in exponential coordinates φ around the base point q₀ of each step:

        q(t) = q₀·exp(φ(t)) ,   φ̇ = dexp⁻¹_{−φ} v(t, q₀·exp(φ), …) ,   φ(t₀) = 0 ,   q₁ = q₀·exp(φ₁) .

    v is the left-trivialised velocity; dexp is the usual, right-trivialised one, and −φ makes it the left one. The inner
    method sees an ordinary differential equation on a vector space and keeps its order, its error estimate and its
    interpolant; configurations stay on their group. Works wherever diffrax takes a solver, for states y = (q, rest):

    ```python
    solver = jaxhamel.LieGroup(diffrax.Tsit5(), jaxhamel.SE3())
    diffrax.diffeqsolve(term, solver, t0, t1, dt0, (q0, u0), args=(system, control), ...)
    ```

    The vector field gives q̇ in storage coordinates, as for any diffrax solver. Adaptive steps, dense output, events and
    `RecursiveCheckpointAdjoint`, `DirectAdjoint`, `ForwardMode` work; `BacksolveAdjoint` does not, because its backward
    state is no configuration (an error says so).

    `jaxhamel.Projected`, which `simulate` uses if q consists of unit quaternions and plain coordinates, is as accurate and
    takes half the time; `LieGroup` works on any group, including matrix groups.

    At the end of each step quaternions are divided by their norm. Without that, rounding errors of the norm accumulate
    (in double precision ||q| − 1| up to 3e-14 in 10⁵ steps); with it, ||q| − 1| stays below 3e-16. Inside of a step nothing
    is renormalised.

    Source: Munthe-Kaas 1999, algorithm RKMK, there for the action from the left (dexp⁻¹ of +φ); Hairer, Lubich and
    Wanner, Geometric Numerical Integration, IV.8.
    """

    solver: diffrax.AbstractERK | diffrax.Euler
    space: AbstractSpace
    scan_kind: str | None = None

    def __init__(self, solver: Any = None, space: Any = None, scan_kind: str | None = None):
        """**Arguments:**

        - `solver`: an explicit Runge–Kutta method: `diffrax.Euler()`, `Heun()`, `Bosh3()`, `Tsit5()`, `Dopri8()`, …;
          default `Tsit5()`.
        - `space`: the configuration space of q.

        **Raises:** `TypeError` for a method that is not an explicit Runge–Kutta method, or a missing space.
        """
        solver = diffrax.Tsit5() if solver is None else solver
        check_lie_group(solver, space)
        self.solver, self.space, self.scan_kind = solver, space, scan_kind

    @property
    def interpolation_cls(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return _InterpolationFactory(self.solver.interpolation_cls)

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        check_group_state("LieGroup", self.space, y0)
        q0, rest0 = y0
        terms, local_y0 = _LocalTerm(terms, self.space, q0), (_origin(self.space, q0), rest0)
        return self.inner.init(terms, t0, t1, local_y0, args)

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any
    ) -> Any:
        q0, rest0 = y0
        local_y0 = (_origin(self.space, q0), rest0)
        (phi1, rest1), local_error, local_info, state, result = self.inner.step(
            _LocalTerm(terms, self.space, q0), t0, t1, local_y0, args, solver_state, made_jump
        )
        q1 = retracted(self.space, q0, phi1)
        error = (
            None if local_error is None else (self.space.rate(q1, local_error[0]), local_error[1])
        )
        # The space is part of the data, so that its parameters (such as a helix' pitch) can be differentiated.
        info = {"space": jax.tree.map(jnp.asarray, self.space), "q0": q0, "local": local_info}
        return (q1, rest1), error, info, _move_to_new_base(self.space, phi1, state), result


def _origin(space: AbstractSpace, q0: Configuration) -> Velocity:
    return jnp.zeros(space.dim, dtype=jnp.result_type(*jax.tree.leaves(q0)))


def _move_to_new_base(space: AbstractSpace, phi1: Velocity, state):
    """The solver's state in coordinates around q₁: the last slope φ̇₁ becomes dexp_{−φ₁} φ̇₁, if the next step reuses it."""
    if state is None:
        return None
    first_step, (phi_dot, rest_dot) = state
    return first_step, (apply("dexp", space, -phi1, phi_dot), rest_dot)


class _LocalTerm(diffrax.AbstractTerm):
    """A term in exponential coordinates around q₀."""

    term: diffrax.AbstractTerm
    space: AbstractSpace
    q0: Configuration

    def vf(self, t, y, args):
        phi, rest = y
        q = self.space.retract(self.q0, phi)
        q_dot, rest_dot = self.term.vf(t, (q, rest), args)
        v = self.space.velocity(q, q_dot)
        return apply("dexpinv", self.space, -phi, v), rest_dot

    def contr(self, t0, t1, **kwargs):
        return self.term.contr(t0, t1, **kwargs)

    def prod(self, vf, control):
        return self.term.prod(vf, control)


class _Interpolation(AbstractLocalInterpolation):
    """q(t) = q₀·exp(φ(t)), φ(t) the inner method's interpolant."""

    t0: Any
    t1: Any
    space: AbstractSpace
    q0: Configuration
    local: AbstractLocalInterpolation

    def evaluate(self, t0, t1=None, left=True):
        if t1 is not None:
            return jax.tree.map(
                jnp.subtract, self.evaluate(t1, left=left), self.evaluate(t0, left=left)
            )
        phi, rest = self.local.evaluate(t0, left=left)
        return retracted(self.space, self.q0, phi), rest


@dataclass(frozen=True)
class _InterpolationFactory:
    """Builds the interpolation of one step; two factories with equal inner methods are equal, which avoids recompilation."""

    local_cls: Callable[..., Any]

    def __call__(self, *, t0, t1, space, q0, local):
        return _Interpolation(t0, t1, space, q0, self.local_cls(t0=t0, t1=t1, **local))
