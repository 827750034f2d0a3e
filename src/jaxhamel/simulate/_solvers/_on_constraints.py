"""Any method, followed by a projection onto the holonomic constraints at the end of each step."""

from typing import Any

import diffrax
import equinox as eqx

from jaxhamel._typing import Configuration, Control
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics import System
from jaxhamel.mechanics._checks._constraints import check_has_loops
from jaxhamel.mechanics._constraints._holonomic import Metric, closing_step
from jaxhamel.mechanics._controls._moving_parts import has_loops
from jaxhamel.simulate._solvers._wrapped_method import AbstractWrappedMethod, with_scan_kind

_ITERATIONS = 2  # after a step g = O(hᵖ⁺¹); each iteration squares it


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
        """diffrax's own method, which diffrax inspects (one wrapper deep) for the kind of solver."""
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
    """The metric that an argument `project` means; None for no projection."""
    return "mass" if isinstance(project, str) else ("identity" if project else None)


def on_constraints(
    solver: diffrax.AbstractSolver, system: System, layout: Any, metric: Metric
) -> OnConstraints:
    """The solver with a projection after each step.

    **Raises:** `TypeError` for a system without `holonomic`.
    """
    check_has_loops(system, has_loops(system))
    return OnConstraints(solver, system.space, layout=layout, metric=metric)  # pyright: ignore[reportCallIssue]
