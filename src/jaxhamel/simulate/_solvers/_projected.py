"""Any method of diffrax, followed by a projection at the end of each step: quaternions are normalised, or the
configuration is moved back onto the holonomic constraints.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from jaxhamel._typing import Configuration, Control
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics import System
from jaxhamel.mechanics._checks._constraints import check_has_loops
from jaxhamel.mechanics._constraints._holonomic import Metric, closing_step
from jaxhamel.mechanics._controls._moving_parts import has_loops
from jaxhamel.simulate._checks import check_group_state, check_projected
from jaxhamel.simulate._solvers._base_classes import AbstractWrappedMethod, with_scan_kind


class Projected(AbstractWrappedMethod):
    """A method Φ on the stored numbers of q, followed by N, which divides quaternions by their norm:

        (q̃₁, rest₁) = Φ_h(q₀, rest₀) ,   q₁ = N(q̃₁) .

    The projection moves q̃₁ by no more than the method's error, so the order, the error estimate and the interpolant (whose
    values are projected too) are those of the method. Stages are not projected: their quaternions have unit norm
    up to terms in h.

    ```python
    solver = jaxhamel.Projected(diffrax.Tsit5(), jaxhamel.SE3())
    diffrax.diffeqsolve(term, solver, t0, t1, dt0, (q0, u0), args=(system, control), ...)
    ```

    `jaxhamel.simulate` uses it on spaces with quaternions. It is as accurate as `jaxhamel.LieGroup` and about twice as fast,
    because it can step one vector, where `LieGroup` needs q and u separately (docs/performance.md#equations-of-motion).
    Implicit methods (`diffrax.Kvaerno5()`) work, too.

    Source: Hairer, Lubich and Wanner, Geometric Numerical Integration, IV.4 (standard projection).
    """

    solver: diffrax.AbstractSolver[Any]
    space: AbstractSpace
    scan_kind: str | None = None
    layout: Any = None  # the layout of a state (q, rest) stored as one vector, as in `simulate`

    def __init__(
        self,
        solver: Any = None,
        space: Any = None,
        scan_kind: str | None = None,
        layout: Any = None,
    ):
        """**Arguments:**

        - `solver`: a method of diffrax, explicit or implicit, default `Tsit5()`.
        - `space`: the configuration space of q, stored in unit quaternions and independent coordinates.

        **Raises:** `TypeError` if `solver` is no solver or `space` no space; `ValueError` for a space whose configurations
        cannot be projected (`MatrixGroup`: take `LieGroup`).
        """
        solver = diffrax.Tsit5() if solver is None else solver
        check_projected(solver, space)
        self.solver, self.space, self.scan_kind = solver, space, scan_kind
        self.layout = layout

    @property
    def interpolation_cls(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return _InterpolationFactory(self.solver.interpolation_cls, self.layout)

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        vector = self.layout is not None and isinstance(y0, jax.Array)
        state = self.layout.parts(y0) if vector else y0  # pyright: ignore[reportOptionalMemberAccess]
        check_group_state("Projected", self.space, state)
        return self.inner.init(terms, t0, t1, y0, args)

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any
    ) -> Any:
        y1, error, inside, state, result = self.inner.step(
            terms, t0, t1, y0, args, solver_state, made_jump
        )
        info = {"space": jax.tree.map(jnp.asarray, self.space), "inside": inside}
        return _projected(y1, self.space, self.layout), error, info, state, result


def _projected(y, space: AbstractSpace, layout):
    q, rest = y if layout is None else layout.parts(y)
    y = space.normalise(q), rest
    return y if layout is None else layout.vector(y)


class _Interpolation(diffrax.AbstractLocalInterpolation):
    """The method's interpolant, projected."""

    t0: Any
    t1: Any
    space: AbstractSpace
    inside: diffrax.AbstractLocalInterpolation
    layout: Any

    def evaluate(self, t0, t1=None, left=True):
        if t1 is not None:
            ends = self.evaluate(t1, left=left), self.evaluate(t0, left=left)
            return jax.tree.map(jnp.subtract, *ends)
        return _projected(self.inside.evaluate(t0, left=left), self.space, self.layout)


@dataclass(frozen=True)
class _InterpolationFactory:
    """Builds the interpolation of one step; two factories with equal inner methods are equal, which avoids recompilation."""

    inside_cls: Callable[..., Any]
    layout: Any

    def __call__(self, *, t0, t1, space, inside):
        return _Interpolation(t0, t1, space, self.inside_cls(t0=t0, t1=t1, **inside), self.layout)


_ITERATIONS = 2  # after a step of order p, g = O(hᵖ⁺¹); each iteration squares g


class OnConstraints(AbstractWrappedMethod):
    """A method Φ on (q, u), followed by Gauss–Newton steps onto g(t, q) = 0:

        (q̃₁, u₁) = Φ_h(q₀, u₀) ,   q₁ = q̃₁·exp(−W⁻¹Gᵀ (G W⁻¹ Gᵀ)⁻¹ g) .

    The projection moves q̃₁ by no more than the method's error, so that its order and its error estimate stay. u needs no
    correction: v = B(t, q) ((0, u) − a) satisfies the one-forms at any q. As `args` of diffrax: (system, control).

    Source: Hairer, Lubich and Wanner, Geometric Numerical Integration, IV.4 (standard projection).
    """

    method: Any  # a method of diffrax, or a wrapped one
    space: AbstractSpace
    scan_kind: str | None = None
    layout: Any = None
    metric: Metric = eqx.field(static=True, default="identity")

    @property
    def solver(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        """The method of diffrax, also inside a wrapper: diffrax looks one wrapper deep to find the kind of a solver."""
        is_wrapped = isinstance(self.method, AbstractWrappedMethod)
        return self.method.solver if is_wrapped else self.method

    @property
    def inner(self) -> Any:
        return (
            self.method if self.scan_kind is None else with_scan_kind(self.method, self.scan_kind)
        )

    @property
    def interpolation_cls(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.method.interpolation_cls

    def init(self, terms, t0, t1, y0, args):
        return self.inner.init(terms, t0, t1, y0, args)

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        y1, *rest = self.inner.step(terms, t0, t1, y0, args, solver_state, made_jump)
        q, u = y1 if self.layout is None else self.layout.parts(y1)
        y1 = closed(args[0], t1, q, self.metric, args[1]), u
        return (y1 if self.layout is None else self.layout.vector(y1), *rest)


def closed(
    system: System, t: Any, q: Configuration, metric: Metric, control: Control
) -> Configuration:
    """q after the projection at the end of a step."""
    for _ in range(_ITERATIONS):
        q = closing_step(system, t, q, metric, control)
    return q


def metric_of(project: Any) -> Metric | None:
    """The metric for the argument `project` of `simulate`; None for no projection."""
    return "mass" if isinstance(project, str) else ("identity" if project else None)


def on_constraints(
    solver: diffrax.AbstractSolver, system: System, layout: Any, metric: Metric
) -> OnConstraints:
    """The solver with a projection after each step.

    **Raises:** `TypeError` for a system without `holonomic`.
    """
    check_has_loops(system, has_loops(system))
    return OnConstraints(solver, system.space, layout=layout, metric=metric)  # pyright: ignore[reportCallIssue]


def unprojected(solver: Any) -> Any:
    """The method inside a `Projected` method; any other method itself."""
    return solver.solver if isinstance(solver, Projected) else solver
