"""The Lagrange–d'Alembert–Poincaré equations, for dim G constraints that are invariant under the group G.

    u^α = ξ^α + A^α_I(r) ṙ^I = 0 ,    ξ = g⁻¹ġ  (left)  or  ġg⁻¹  (right)      (Müller 2023, eq. 4.1)
    d/dt ∂ℓ/∂ṙ^I − E_I(ℓ) = −∂ℓ/∂u^β B^β_IJ ṙ^J + Q_I − A^α_I Q_α      (eq. 4.9)

with ℓ(g, r, u^α, ṙ) = L(g, r, u − A ṙ, ṙ), u set to zero after differentiation, B the curvature (4.3) or (4.7) of the
kinematic connection A, and E_I = ∂/∂r^I − A^α_I e_α. If L is invariant, too (the "principal kinematic case"), E_I(ℓ) is
∂ℓ/∂r^I as in the paper. Eq. (4.9) as printed has +∂ℓ/∂u B, which contradicts (1.2) for Ω = 0; see docs/ERRATA.md.
`jaxhamel.geometry.reconstruct` gives the motion g of the base.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, Time
from jaxhamel.geometry import AbstractSpace, curvature
from jaxhamel.geometry._checks import check_frame_matrix
from jaxhamel.mechanics._checks._symmetric import check_invariant_constraints
from jaxhamel.mechanics._checks._system import check_constraint_count, check_state
from jaxhamel.mechanics._examination._boundary import KINEMATIC, check_shapes
from jaxhamel.mechanics._examination._hypotheses import steps_around
from jaxhamel.mechanics._kinematics import covector, derivatives, lagrangian, prepare
from jaxhamel.mechanics._reduction._lagrange_poincare import force_on, linear_model
from jaxhamel.mechanics._reduction._mechanical_connection import (
    ConnectionMatrix,
    ShapeCoordinates,
    structure_group,
)
from jaxhamel.mechanics._small_solve import inverse, symmetric_solve
from jaxhamel.mechanics._system import System, dtype_of, overrides


def lagrange_dalembert_poincare(
    system: System,
    t: Time,
    q: Configuration,
    rdot: ShapeCoordinates,
    control: Control = None,
    *,
    right: bool = False,
) -> ShapeCoordinates:
    """The accelerations r̈ from the Lagrange–d'Alembert–Poincaré equations

        d/dt ∂ℓ/∂ṙ^I − E_I(ℓ) = −∂ℓ/∂u^β B^β_IJ ṙ^J + Q_I − A^α_I Q_α .

    **Arguments:**

    - `system`: a system on `Product(G, Euclidean(m))` with dim G constraints. Their one-forms [A_1 A_2] give A = A_1⁻¹ A_2,
      which depends on r only (left), or on g by A = Ad_g⁻¹ A(r) (right). The other rows of its frame are not used.
    - `t`: time [s]; `q` = (g, r); `rdot`: ṙ `(m,)`; `control`: a callable of t, or a constant.
    - `right`: whether the constraints are right-invariant, as those of a ball rolling on a plane are.

    **Returns:** r̈ `(m,)`. If the last rows of the frame are (0, 1), it equals `acceleration`.

    **Raises:** `TypeError` on another space; `ValueError` for another number of constraints, a drift, wrong shapes,
    constraints that determine no ξ, or that are not invariant.

    Müller 2023, eq. (4.9), with the sign that follows from (2.10) and (4.3): minus.
    """
    t, q, (rdot,), control = prepare(q, rdot, t=t, control=control, names=("rdot",))
    _check_arguments(system, t, q, rdot, control, right)
    return _accelerate(system, t, q, rdot, control, right)


def principal_connection(system: System, t: Time, q: Configuration) -> ConnectionMatrix:
    """The connection A = A_1⁻¹ A_2 `(f, m)` of the constraint rows [A_1 A_2] at q, with which ξ = g⁻¹ġ = −A ṙ.

    **Arguments:** `system`: a system on `Product(G, Euclidean(m))` with f = dim G constraints; `t`: time [s]; `q` = (g, r).

    **Raises:** `TypeError` on another space; `ValueError` for another number of constraints. Müller 2023, eq. (4.1).
    """
    f = structure_group(system).dim
    check_constraint_count(system, f, _WHOLE_GROUP)
    t, q, (), _ = prepare(q, t=t, control=None)
    check_shapes(system, t, q, only=KINEMATIC)
    return _connection(system, t, q)


def _connection(system, t, q):
    f = structure_group(system).dim
    rows = system.frame(t, q)[:f]
    return inverse(rows[:, :f]) @ rows[:, f:]


@compiled
def _accelerate(system, t, q, rdot, control, right):
    group = structure_group(system)
    f = group.dim

    def at_identity(t, r):
        return _connection(system, t, (group.identity(r.dtype), r))

    connection = linear_model(at_identity, t, q[1])

    def velocity(t, q, x):
        fibre = x[:f] - connection(t, q[1]) @ x[f:]
        return jnp.concatenate([_to_body(group, q[0], right) @ fibre, x[f:]])

    def reduced(t, q, x):
        """The Lagrangian ℓ(t, q, u^α, ṙ)."""
        return lagrangian(system, t, q, velocity(t, q, x), control)

    x = jnp.concatenate([jnp.zeros(f, rdot.dtype), rdot])
    v = velocity(t, q, x)
    gradients = jax.grad(reduced, argnums=(2, 1))
    basis = jnp.eye(x.shape[0], dtype=x.dtype)[f:]
    (p, gradient), (bias, _), (inertia, _) = derivatives(system, gradients, t, q, v, x, basis)
    force = covector(system, q, gradient) + force_on(system, t, q, v, control)
    A, in_time = jax.jvp(lambda t: connection(t, q[1]), (t,), (jnp.ones_like(t),))
    B = curvature(lambda r: connection(t, r), q[1], group, right=right)
    turning = jnp.einsum("b,bij,j->i", p[:f], B, rdot) + p[:f] @ in_time
    along = force[f:] - force[:f] @ (_to_body(group, q[0], right) @ A)
    return symmetric_solve(inertia[:, f:], along - turning - bias[f:])


def _to_body(group: AbstractSpace, g: Configuration, right: bool) -> Float[Array, "f f"]:
    """The matrix from the connection's ξ to the body velocity g⁻¹ġ: the identity for a left, Ad_g⁻¹ for a right
    connection.
    """
    return group.Ad(group.inverse(g)) if right else jnp.eye(group.dim, dtype=dtype_of(g))


def _check_arguments(system, t, q, rdot, control, right: bool) -> None:
    group = structure_group(system)
    name = type(system).__name__
    check_constraint_count(system, group.dim, _WHOLE_GROUP)
    if overrides(system, "drift"):
        raise ValueError(
            f"`system` {name} has a drift; these equations hold for constraints without one. "
            "Use `jaxhamel.acceleration`, which takes affine constraints."
        )
    check_state(system, q, rdot)
    check_shapes(system, t, q, control)
    first = system.frame(t, q)[: group.dim, : group.dim]
    check_frame_matrix("A_1 of frame(t, q)", first, group.dim)
    if not _checks.any_tracer((system, t, q)):
        check_invariant_constraints(system, *_connections_on_group(system, t, q, right), right)


_WHOLE_GROUP = (
    "The constraints must determine the motion along the whole group. "
    "With fewer, use `jaxhamel.mechanics.nonholonomic_momentum_equations`."
)


@compiled
def _connections_on_group(system, t, q, right):
    """A at several elements of the group, that of q first, and A at the identity transported to these elements."""
    group = structure_group(system)
    at_identity = _connection(system, t, (group.identity(q[1].dtype), q[1]))

    def at(step):
        g = group.retract(q[0], step[: group.dim])
        return principal_connection(system, t, (g, q[1])), _to_body(group, g, right) @ at_identity

    return jax.vmap(at)(steps_around(system.space, dtype_of(q))[0])
