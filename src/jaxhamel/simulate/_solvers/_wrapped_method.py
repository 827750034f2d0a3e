"""Base class of solvers that wrap a method of diffrax and step states (q, rest) on a group."""

from typing import Any, ClassVar

import diffrax
import equinox as eqx

from jaxhamel.geometry import AbstractSpace


class AbstractWrappedMethod(diffrax.AbstractWrappedSolver[Any]):
    """A method of diffrax, and the space of q."""

    solver: eqx.AbstractVar[Any]
    space: eqx.AbstractVar[AbstractSpace]
    # diffrax's ForwardMode and DirectAdjoint set this field on anything that is a Runge–Kutta method (see `inner`).
    scan_kind: eqx.AbstractVar[str | None]

    term_structure: ClassVar[type] = diffrax.AbstractTerm

    def order(self, terms: Any) -> Any:
        return self.solver.order(terms)

    def error_order(self, terms: Any) -> Any:
        return self.solver.error_order(terms)

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return self.solver.func(terms, t0, y0, args)

    @property
    def root_finder(self) -> Any:
        """The root finder of an implicit method; diffrax sets its tolerances."""
        return self.solver.root_finder

    @property
    def root_find_max_steps(self) -> Any:
        return self.solver.root_find_max_steps

    @property
    def inner(self) -> Any:
        """The inner method, with the kind of loop over stages that the adjoint requires.

        Forward and direct adjoints set `scan_kind` on the solver that they receive, which is this wrapper; the loop itself
        is in the inner method.
        """
        if self.scan_kind is None:
            return self.solver
        return with_scan_kind(self.solver, self.scan_kind)


def with_scan_kind(solver, scan_kind):
    """The method (or the wrapped one) with this kind of loop over its stages."""
    if isinstance(solver, diffrax.HalfSolver):
        return diffrax.HalfSolver(with_scan_kind(solver.solver, scan_kind))
    if getattr(solver, "scan_kind", "none of its own") is not None:
        return solver
    return eqx.tree_at(lambda s: s.scan_kind, solver, scan_kind, is_leaf=lambda x: x is None)
