"""Any method of diffrax on the stored numbers of q, with quaternions normalised at the end of each step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import diffrax
import jax
import jax.numpy as jnp

from jaxhamel.geometry import AbstractSpace
from jaxhamel.simulate._checks import check_group_state, check_projected
from jaxhamel.simulate._solvers._wrapped_method import AbstractWrappedMethod


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
