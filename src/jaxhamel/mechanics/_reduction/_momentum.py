"""The momentum of a system on G × R^m in space and about its centre of mass, and the motion of its base for a given
momentum.

    Π = ∂L/∂ξ = L ξ + K ṙ = L Ω ,    μ = Ad_g⁻ᵀ Π    constant for an unbroken symmetry      (Müller 2023, eq. 6.1)
    ġ = g (L⁻¹ Ad_gᵀ μ − A ṙ)      (eq. 6.5)

For a loop r(t), the second term gives the geometric phase, the first one the dynamic phase.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time, Velocity
from jaxhamel.geometry import SE2, SE3, AbstractSpace, group_motion, hat, quaternion_conjugate
from jaxhamel.mechanics._checks._symmetric import check_rigid_inertia, check_rigid_motions
from jaxhamel.mechanics._checks._system import check_state
from jaxhamel.mechanics._equations._euler_lagrange import mass_matrix
from jaxhamel.mechanics._examination._boundary import check_shapes
from jaxhamel.mechanics._examination._hypotheses import require
from jaxhamel.mechanics._kinematics import lagrangian, prepare, velocity_of
from jaxhamel.mechanics._reduction._lagrange_poincare import velocity_of_momentum
from jaxhamel.mechanics._reduction._mechanical_connection import (
    FibreVelocity,
    ShapeCoordinates,
    mechanical_connection,
    structure_group,
)
from jaxhamel.mechanics._small_solve import symmetric_solve
from jaxhamel.mechanics._system import System


def spatial_momentum(
    system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control = None
) -> FibreVelocity:
    """The momentum μ = Ad_g⁻ᵀ ∂L/∂ξ of the whole system in space, dual to ġg⁻¹, `(f,)`.

    On SE(3) it is (angular momentum about the origin of space, linear momentum) [N m s, N s]. It is constant if L is
    invariant under the group and no force acts along the group.

    **Arguments:** `system`: a system on `Product(G, Euclidean(m))`; `t`, `q`, `u`, `control`: as for `acceleration`.

    **Raises:** `TypeError` on another space, `ValueError` for wrong shapes.

    Müller 2023, eq. (6.1), transformed to space.
    """
    structure_group(system)
    t, q, (u,), control = prepare(q, u, t=t, control=control)
    check_state(system, q, u)
    check_shapes(system, t, q, control)
    return _spatial_momentum(system, t, q, u, control)


@compiled
def _spatial_momentum(system, t, q, u, control):
    group = structure_group(system)
    v = velocity_of(system, t, q, u)
    body = jax.grad(lambda v: lagrangian(system, t, q, v, control))(v)[: group.dim]
    return group.Ad(group.inverse(q[0])).T @ body


def reconstruct_with_momentum(
    system: System,
    path: Callable[[Scalar], ShapeCoordinates],
    times: Float[Array, " t"],
    momentum: FibreVelocity,
    start: Configuration | None = None,
    control: Control = None,
) -> Configuration:
    """The motion g(t) by ġ = g (L(r)⁻¹ Ad_gᵀ μ − A(r) ṙ) along the shapes r(t), with one step of order 4 from each time to
    the next.

    **Arguments:**

    - `system`: as for `mechanical_connection`; potentials and forces must not break the symmetry.
    - `path`: the function t → r `(m,)`, smooth between the times.
    - `times`: the times in order [s], `(t,)`. With a momentum the motion depends on the speed along the path.
    - `momentum`: μ in space, `(f,)`. With zero the result is `jaxhamel.geometry.reconstruct` of the mechanical connection.
    - `start`: g at the first time, by default the identity.
    - `control`: needed only by systems with prescribed motion.

    **Returns:** g at each time, a configuration of G with a leading axis of length t.

    **Raises:** `TypeError` on another space or for a path that is no function; `ValueError` if the momentum is not
    conserved or the kinetic energy not quadratic, at states near the first.

    Let h(t) be the motion at μ = 0 from the identity. Then g = k h with k̇ = k Ad_h (L⁻¹ Ad_gᵀ μ): the total phase g(T) is
    the dynamic phase k(T) times the geometric phase h(T). Figure 3 of the paper shows another motion as the dynamic phase:
    that with joints at rest, which a constant `path` gives.

    Müller 2023, eq. (6.5).
    """
    _checks.check_callable("path", path, "t -> r(t)")
    group = structure_group(system)
    _checks.check_shape(
        "momentum", momentum, (group.dim,), "One entry for each direction of the group."
    )

    _check_conserved(system, path, times, start, control)

    def velocity(t: Scalar, g: Configuration) -> Velocity:
        r, rdot = jax.jvp(path, (t,), (jnp.ones_like(t),))
        Omega = velocity_of_momentum(system, t, (g, r), momentum, control)
        return Omega - mechanical_connection(system, t, control)(r) @ rdot

    return group_motion(velocity, times, group, start)


def _check_conserved(system, path, times, start, control) -> None:
    """Checks that μ is conserved: L does not depend on g, and no force acts along the group."""
    if _checks.any_tracer((system, times, start, control)):
        return
    g = structure_group(system).identity(times.dtype) if start is None else start
    t, q, (), control = prepare((g, path(times[0])), t=times[0], control=control)
    check_shapes(system, t, q, control)
    equations = "The momentum in space is constant only if nothing breaks the symmetry."
    instead = "Use `jaxhamel.simulate` for the motion."
    hypotheses = ("quadratic", "invariant", "free")
    v = jnp.zeros(system.space.dim, times.dtype)
    require(system, t, q, v, control, hypotheses, equations, instead)


class Centroidal(NamedTuple):
    """The momentum Π_G = M_G V_G about the centre of mass, in axes of space, with M_G = diag(Θ_G, m 1).

    - `com`: the centre of mass in the base frame [m].
    - `inertia`: M_G; `momentum`: Π_G = (Θ_G ω_ave, m ẋ_c); `average_velocity`: V_G = (ω_ave, ẋ_c).

    Müller 2023, section 5(e).
    """

    com: Float[Array, " d"]
    inertia: Float[Array, "f f"]
    momentum: Float[Array, " f"]
    average_velocity: Float[Array, " f"]


def centroidal(
    system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control = None
) -> Centroidal:
    """The momentum, average velocity and inertia of a system about its centre of mass:

        Π_G = Adᵀ Π ,    V_G = Ad⁻¹ Ω ,    M_G = Adᵀ L Ad ,

    where Ad is that of g_bG, the pose, relative to the base, of the frame at the centre of mass with axes parallel to space.

    **Arguments:** `system`: a system on `Product(SE3(), Euclidean(m))` or `Product(SE2(), Euclidean(m))`, whose base is a
    frame that moves with one of its bodies; `t`, `q`, `u`, `control`: as for `acceleration`.

    **Returns:** a `Centroidal`. No frame has the velocity V_G unless the curvature vanishes (remark 5.1).

    **Raises:** `TypeError` on other spaces; `ValueError` for wrong shapes, or for a locked inertia that is not that of rigid
    bodies (the added mass of a fluid, for example, differs between directions).

    Müller 2023, section 5(e); Orin and Goswami (2008).
    """
    group = structure_group(system)
    check_rigid_motions(system, isinstance(group, SE2 | SE3))
    t, q, (u,), control = prepare(q, u, t=t, control=control)
    check_state(system, q, u)
    check_shapes(system, t, q, control)
    if not _checks.any_tracer((system, t, q, control)):
        check_rigid_inertia(system, *_rigid_inertia(system, t, q, control))
    return _centroidal(system, t, q, u, control)


@compiled
def _rigid_inertia(system, t, q, control):
    """The columns of the locked inertia L for the linear velocity, and [m d̂; m 1], to which they are equal for rigid
    bodies.
    """
    group = structure_group(system)
    f, turns = group.dim, 1 if isinstance(group, SE2) else 3
    L = mass_matrix(system, t, q, control)[:f, :f]
    m = L[-1, -1]
    com, _ = _centre_frame(group, q[0], L)
    lever = hat(com) if turns == 3 else jnp.stack([-com[1], com[0]])[None]
    wanted = jnp.concatenate([m * lever, m * jnp.eye(f - turns, dtype=L.dtype)])
    return L[:, turns:], wanted


@compiled
def _centroidal(system, t, q, u, control):
    group = structure_group(system)
    f = group.dim
    L = mass_matrix(system, t, q, control)[:f, :f]
    com, frame = _centre_frame(group, q[0], L)
    Ad = group.Ad(frame)
    v = velocity_of(system, t, q, u)
    Pi = jax.grad(lambda v: lagrangian(system, t, q, v, control))(v)[:f]
    return Centroidal(
        com, Ad.T @ L @ Ad, Ad.T @ Pi, group.Ad(group.inverse(frame)) @ symmetric_solve(L, Pi)
    )


def _centre_frame(group: AbstractSpace, g: Array, L: Array) -> tuple[Array, Array]:
    """The centre of mass in the base frame, from L = [[Θ, m d̂], [−m d̂, m 1]], and g_bG = (Rᵀ, d)."""
    mass = L[-1, -1]
    if isinstance(group, SE2):
        com = jnp.stack([L[0, 2], -L[0, 1]]) / mass
        return com, jnp.concatenate([-g[:1], com])
    com = jnp.stack([L[2, 4], L[0, 5], L[1, 3]]) / mass
    return com, jnp.concatenate([quaternion_conjugate(g[:4]), com])
