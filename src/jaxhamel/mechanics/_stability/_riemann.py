"""Riemannian geometry of the kinetic energy: equations of motion D v/dt = F, and the distance of neighbouring motions.

    D v/dt = F ,    F = M⁻¹ (Q − dV)      (Müller 2023, eq. 7.1)
    D²x/dt² + R(x, v) v − ∇_x F = Φ       (eq. 7.2)

in the left-invariant frame e_a of the configuration space, [e_a, e_b] = c^c_ab e_c, with the metric g = M(q). The
connection is Levi-Civita's, by Koszul's formula

    2 g(∇_a e_b, e_c) = e_a g_bc + e_b g_ac − e_c g_ab + c_{c,ab} − c_{b,ac} − c_{a,bc} ,    c_{d,ab} = g_de c^e_ab ,

and R(x, y) z = ∇_x ∇_y z − ∇_y ∇_x z − ∇_[x,y] z, so that a sphere has positive curvature. On R^n these are Christoffel's
symbols and the tensor of (7.2); on a group with an invariant metric, Arnold's formulas, without coordinates.

All this holds for L = ½ v·M(q) v − V(t, q) without constraints, and (7.2) for forces Q(t, q); both are checked near the
given state. `linearise` needs no such assumption.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, Scalar, Time, Velocity
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics._checks._hypotheses import check_no_prescribed_motion
from jaxhamel.mechanics._checks._system import check_constraint_count, check_state
from jaxhamel.mechanics._equations._euler_lagrange import mass_matrix
from jaxhamel.mechanics._examination._boundary import check_shapes
from jaxhamel.mechanics._examination._hypotheses import require
from jaxhamel.mechanics._kinematics import applied_force, covector, lagrangian, prepare
from jaxhamel.mechanics._small_solve import symmetric_solve
from jaxhamel.mechanics._system import System, dtype_of, overrides

Christoffel = Float[Array, "n n n"]
Riemann = Float[Array, "n n n n"]


def levi_civita(system: System, t: Time, q: Configuration) -> Christoffel:
    """The Levi-Civita connection Γ^c_ab of the metric M(q), with ∇_{e_a} e_b = Γ^c_ab e_c.

    With it the equations of motion (7.1) are v̇^c + Γ^c_ab v^a v^b = F^c.

    **Arguments:** `system`: a system with L = ½ v·M(q) v − V(t, q), without constraints and with any forces; its frame is
    not used. `t`: time [s]; `q`: configuration.

    **Returns:** Γ `(n, n, n)`, index order `[c, a, b]`; Γ^c_ab − Γ^c_ba = c^c_ab, which is zero on R^n.

    **Raises:** `ValueError` for another Lagrangian, with constraints or prescribed motion.

    Müller 2023, below (7.1).
    """
    t, q = _prepare_metric(system, t, q)
    return _levi_civita(system, t, q)


@compiled
def _levi_civita(system, t, q):
    def metric(q):
        return mass_matrix(system, t, q, None)

    g, slope = metric(q), _along_frame(metric, system.space, q)  # slope[b, c, a] = e_a g_bc
    c = jnp.einsum("de,eab->dab", g, system.space.structure_constants(g.dtype))
    lowered = (  # [c, a, b], each term written as in Koszul's formula
        jnp.einsum("bca->cab", slope)
        + jnp.einsum("acb->cab", slope)
        - jnp.einsum("abc->cab", slope)
        + c
        - jnp.einsum("bac->cab", c)
        - jnp.einsum("abc->cab", c)
    )
    n = g.shape[0]
    return symmetric_solve(g, lowered.reshape(n, n * n) / 2).reshape(n, n, n)


def riemann_curvature(system: System, t: Time, q: Configuration) -> Riemann:
    """The curvature R^d_cab of the metric M(q), with R(e_a, e_b) e_c = R^d_cab e_d:

        R^d_cab = e_a Γ^d_bc − e_b Γ^d_ac + Γ^d_ae Γ^e_bc − Γ^d_be Γ^e_ac − c^e_ab Γ^d_ec

    **Arguments, Raises:** as for `levi_civita`. **Returns:** `(n, n, n, n)`, index order `[d, c, a, b]`, antisymmetric in
    the last two.

    Müller 2023, (7.2), whose R_cbda v^c v^d x^b is g(R(x, v) v, e_a).
    """
    t, q = _prepare_metric(system, t, q)
    return _riemann(system, t, q)


@compiled
def _riemann(system, t, q):
    def connection(q):
        return _levi_civita(system, t, q)

    G, slope = connection(q), _along_frame(connection, system.space, q)  # [d, b, c, a] = e_a Γ^d_bc
    c = system.space.structure_constants(G.dtype)
    half = jnp.einsum("dbca->dcab", slope) + jnp.einsum("dae,ebc->dcab", G, G)
    return half - jnp.swapaxes(half, 2, 3) - jnp.einsum("eab,dec->dcab", c, G)


def sectional_curvature(
    system: System, t: Time, q: Configuration, x: Velocity, y: Velocity
) -> Scalar:
    """The sectional curvature g(R(x, y) y, x) / (g(x, x) g(y, y) − g(x, y)²), which is Gauss' curvature of the surface of
    the geodesics with directions in the plane of x and y.

    If it is negative, free motions in this plane diverge exponentially; if it is positive, they approach each other.

    **Arguments, Raises:** as for `levi_civita`; `x`, `y`: linearly independent velocities, `(n,)`.
    """
    t, q, (x, y), _ = prepare(q, x, y, t=t, control=None, names=("x", "y"))
    _check_metric(system, t, q)
    g, R = mass_matrix(system, t, q, None), _riemann(system, t, q)
    turned = jnp.einsum("dcab,c,a,b->d", R, y, x, y)
    return (turned @ g @ x) / ((x @ g @ x) * (y @ g @ y) - (x @ g @ y) ** 2)


def stability_matrix(
    system: System, t: Time, q: Configuration, v: Velocity, control: Control = None
) -> Float[Array, "n n"]:
    """The matrix K with K x = R(x, v) v − ∇_x F, by which the linearised motion is D²x/dt² = −K x + Φ.

    If K is positive, the motion is stable in this sense.

    **Arguments:** `system`: a system with L = ½ v·M(q) v − V(t, q) and forces that depend only on q and t, without
    constraints; its frame is not used. `t`: time [s]; `q`: configuration; `v`: velocity `(n,)`; `control`: as for
    `acceleration`.

    **Returns:** K `(n, n)`, self-adjoint in the metric if the force has a potential.

    **Raises:** `ValueError` for another Lagrangian (terms linear in v, a metric that depends on t), damping or gyroscopic
    forces, constraints, prescribed motion, or wrong shapes. `linearise` takes all of these.

    Müller 2023, eq. (7.2): a measure of stability.
    """
    t, q, (v,), control = prepare(q, v, t=t, control=control, names=("v",))
    _check_motion(system, t, q, v, control)
    return _stability(system, t, q, v, control)


@compiled
def _stability(system, t, q, v, control):
    def force(q):
        return contravariant_force(system, t, q, control)

    G = _levi_civita(system, t, q)
    covariant = _along_frame(force, system.space, q) + jnp.einsum("dac,c->da", G, force(q))
    turned = jnp.einsum("dcab,c,b->da", _riemann(system, t, q), v, v)
    return turned - covariant


def neighbouring_motion(
    system: System,
    t: Time,
    q: Configuration,
    v: Velocity,
    x: Velocity,
    y: Velocity,
    control: Control = None,
) -> tuple[Velocity, Velocity]:
    """The rates (ẋ, ẏ) of the distance x to a neighbouring motion and of its covariant rate y = D x/dt, eq. (7.2):

        ẋ = y − Γ(v, x) ,    ẏ = −K x − Γ(v, y) .

    **Arguments:** as for `stability_matrix`, and `x`, `y`, `(n,)` each. The neighbour is at q exp(ε x), with the velocity
    v + ε (ẋ + ad_v x).

    **Returns:** ẋ and ẏ, `(n,)` each, to be integrated together with the motion.

    **Raises:** as for `stability_matrix`.

    Müller 2023, eq. (7.2), without the perturbing force Φ, which would be added to ẏ.
    """
    t, q, (v, x, y), control = prepare(q, v, x, y, t=t, control=control, names=("v", "x", "y"))
    _check_motion(system, t, q, v, control)
    return _neighbouring(system, t, q, v, x, y, control)


@compiled
def _neighbouring(system, t, q, v, x, y, control):
    turn = jnp.einsum("cab,a->cb", _levi_civita(system, t, q), v)
    return y - turn @ x, -_stability(system, t, q, v, control) @ x - turn @ y


def contravariant_force(system: System, t: Scalar, q: Configuration, control: Control) -> Velocity:
    """The force F = M⁻¹ (Q − dV) at v = 0; the arguments are not checked."""
    at_rest = jnp.zeros(system.space.dim, dtype=dtype_of(q))
    gradient = jax.grad(lambda q: lagrangian(system, t, q, at_rest, control))(q)
    force = covector(system, q, gradient)
    if overrides(system, "force"):
        force = force + applied_force(system, t, q, at_rest, control)
    return symmetric_solve(mass_matrix(system, t, q, control), force)


_EQUATIONS = "The Riemannian form of the equations holds for L = ½ v·M(q) v − V(t, q)"
_INSTEAD = "Use `jaxhamel.mechanics.linearise`, which linearises the full equations of motion."


def _prepare_metric(system, t, q) -> tuple[Scalar, Configuration]:
    t, q, (), _ = prepare(q, t=t, control=None)
    _check_metric(system, t, q)
    return t, q


def _check_metric(system, t, q) -> None:
    """Checks that L = ½ v·M(q) v − V(t, q) near q, and that the system has no constraints."""
    _check_free(system)
    check_shapes(system, t, q, only=_LAGRANGIAN)
    v, instead = jnp.zeros(system.space.dim, dtype_of(q)), "For the motion use `acceleration`."
    require(system, t, q, v, None, _METRIC, _EQUATIONS + ".", f"{_INSTEAD} {instead}")


def _check_motion(system, t, q, v, control) -> None:
    """Checks the same as `_check_metric`, near the state (q, v), and that the force is Q(t, q)."""
    _check_free(system)
    check_state(system, q, v)
    check_shapes(system, t, q, control)
    equations = _EQUATIONS + " with a force Q(t, q)."
    require(system, t, q, v, control, (*_METRIC, "place"), equations, _INSTEAD)


def _check_free(system) -> None:
    """Checks that the system has neither constraints nor prescribed motion."""
    why = f"The metric must be that of the whole space. {_INSTEAD}"
    check_constraint_count(system, 0, why)
    check_no_prescribed_motion(system, _EQUATIONS + ".", _INSTEAD)


_LAGRANGIAN = ("lagrangian",)
_METRIC = ("quadratic", "homogeneous", "steady")


def _along_frame(
    function: Callable[[Configuration], Array], space: AbstractSpace, q: Configuration
) -> Array:
    """The derivatives e_a f of f along the left-invariant frame; the last axis is that of a."""
    zero = jnp.zeros(space.dim, dtype=dtype_of(q))
    return jax.jacfwd(lambda delta: function(space.retract(q, delta)))(zero)
