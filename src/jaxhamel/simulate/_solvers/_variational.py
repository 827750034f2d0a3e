"""The variational integrator for constrained systems on groups, as a diffrax solver."""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.simulate._checks import (
    check_group_solver_state,
    check_solver_space,
    check_variational_args,
    check_variational_order,
)
from jaxhamel.simulate._solvers._base_classes import AbstractGroupSolver, traced
from jaxhamel.simulate._solvers._discrete_hamel import discrete_hamel, node, state_of

_SUZUKI = 1 / (4 - 4 ** (1 / 3))
_SUBSTEPS = {2: (1.0,), 4: (_SUZUKI, _SUZUKI, 1 - 4 * _SUZUKI, _SUZUKI, _SUZUKI)}


class Variational(AbstractGroupSolver):
    """Discrete Hamel integrator: the discrete Lagrange–d'Alembert principle at the midpoint, implicit, symmetric, order 2.

        q_{k+1} = q_k·exp(h ξ) ,   A_α ξ + a_α = 0 at q_m = q_k·exp(h ξ/2) ,
        B_iᵀ(q_k) P⁻ = π_i(k) ,    B_iᵀ(q_{k+1}) P⁺ = π_i(k+1) ,    P^∓ = dexp⁻ᵀ_{±hξ} (p ∓ h/2 dexpᵀ_{±hξ/2} f) ,

    p = ∂L/∂v and f = ∂L/∂q + Q at (t_m, q_m, ξ). The state (q, u) lives at the nodes; u follows from the momenta
    π_i = ∂ℓ/∂u^i there. It integrates the system itself, not its vector field: it needs `args = (system, control)`, as
    `jaxhamel.simulate` gives them, and no route to the equations of motion. Drift (affine constraints), forces, controls,
    prescribed motion and explicit time are evaluated at the midpoint.

    It preserves, for any step size:

    - the constraints at every midpoint, to rounding: a velocity constraint that is the rate of a quadratic function of q in
      R^n (a rod's length) preserves that function;
    - the momentum of every symmetry that the constraints allow: of the free rigid body, R I Ω;
    - time reversal: a step of −h undoes a step of h;
    - without constraints and forces, the symplectic form: on R^n it is the implicit midpoint rule.

    Nothing is claimed about the energy of constrained systems; see docs/integrators.md.

    **Arguments:**

    - `order`: 2, or 4 by Suzuki's composition of five steps, the middle one of which goes backward in time.
    - `space`: the configuration space; `jaxhamel.simulate` takes the system's.

    Fixed steps only (`simulate(..., dt=...)`). The equations for ξ are solved to rounding by Newton's method with one
    Jacobian for each step; if they have no solution nearby, the trajectory's result is `nonlinear_divergence`, which means
    that the step is too long. Derivatives in both modes use the implicit function theorem. Dense output: q by cubic Hermite,
    u linearly.

    **Raises:** `ValueError` for another order, a state that is not (q, u), or `args` without system; `TypeError` if
    `space` is no space.

    Source: Cortés and Martínez 2001, Nonlinearity 14, 1365 (the principle); Bobenko and Suris 1999, Lett. Math. Phys. 49, 79
    (groups); Marsden and West 2001, Acta Numerica 10, 357 (midpoint); Zenkov, Leok and Bloch 2012, CDC, and Ball and Zenkov
    2015 (discrete Hamel equations: there the variation of ξ has Hamel's bracket at a point between the nodes, here it is
    the exact one of the group, dexp⁻¹); McLachlan and Perlmutter 2006, J. Nonlinear Sci. 16, 283 (time reversal); Suzuki
    1990, Phys. Lett. A 146, 319.
    """

    order_: int = eqx.field(static=True)
    space: Any

    def __init__(self, order: int = 2, space: Any = None):
        check_variational_order(order, tuple(_SUBSTEPS))
        check_solver_space(space, type(self).__name__)
        self.order_, self.space = order, space

    def order(self, terms: Any) -> Any:
        return self.order_

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        check_group_solver_state(self, y0)
        check_variational_args(args)

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any
    ) -> Any:
        (q0, u0), (system, control) = y0, args
        h, t = terms.contr(t0, t1), getattr(terms, "direction", 1) * t0
        start = node(system, jnp.asarray(t, u0.dtype), q0, u0, control)
        end = self._substeps(system, start, jnp.asarray(h, u0.dtype), control)
        u1, v1, found = state_of(system, end, u0, control)
        result = diffrax.RESULTS.where(
            end.solved & found,
            diffrax.RESULTS.successful,
            diffrax.RESULTS.nonlinear_divergence,  # pyright: ignore[reportArgumentType]
        )
        info = self._dense_info(system, terms.contr(t0, t1), start, end, (u0, u1), v1)
        return (end.q, u1), None, info, None, result

    def _substeps(self, system, start, h, control):
        fractions = _SUBSTEPS[self.order_]
        if len(fractions) == 1:
            return discrete_hamel(system, start, h, control)

        def substep(at, fraction):
            return discrete_hamel(system, at, fraction * h, control), None

        return jax.lax.scan(substep, start, jnp.asarray(np.array(fractions), h.dtype))[0]

    def _dense_info(self, system, h, start, end, u, v1):
        h, (u0, u1) = jnp.asarray(h, v1.dtype), u
        ends = {"q0": start.q, "q1": end.q, "dq0": h * start.guess, "dq1": h * v1}
        line = {"rest0": u0, "rest1": u1, "drest0": u1 - u0, "drest1": u1 - u0}
        return {"space": traced(system.space), **ends, **line}
