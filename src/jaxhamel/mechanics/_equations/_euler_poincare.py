"""Euler–Poincaré equations with advected parameters, on any Lie group.

    d/dt ∂ℓ/∂ξ − ad*_ξ ∂ℓ/∂ξ = ∂ℓ/∂a ⋄ a + f ,      ȧ = −ξ a            (left: ξ = g⁻¹ġ, a = g⁻¹ a_0)
    d/dt ∂ℓ/∂ξ + ad*_ξ ∂ℓ/∂ξ = −∂ℓ/∂a ⋄ a + f ,     ȧ = +ξ a            (right: ξ = ġg⁻¹, a = g a_0)

for a reduced Lagrangian ℓ(ξ, a), with ⟨ad*_ξ μ, η⟩ = ⟨μ, [ξ, η]⟩ and the diamond ⟨w ⋄ a, η⟩ = −⟨w, η a⟩. ξ a is the
infinitesimal action of the group on the parameter; it is linear in both, and a may be any pytree. (Putkaradze and Rogers
2018, eq. (A.17) to (A.31); they give the sign of ad* for right invariance, the signs of ⋄ and ȧ follow in the same way.)
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Scalar, Time, Velocity
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics._checks._system import check_same_structure
from jaxhamel.mechanics._small_solve import symmetric_solve
from jaxhamel.mechanics._system import System

if TYPE_CHECKING:  # type checkers know no pytrees
    Parameter = Any
else:
    Parameter = PyTree[Array]
Action = Callable[[Velocity, Parameter], Parameter]
Representation = Callable[[Configuration, Parameter], Parameter]
ReducedLagrangian = Callable[[Velocity, Parameter], Scalar]


def infinitesimal_action(representation: Representation, space: AbstractSpace) -> Action:
    """The infinitesimal action ξ a = d/dε exp(εξ)·a at ε = 0, from the group's action g·a, by one forward derivative.

    **Arguments:** `representation`: the function (g, a) → g·a, linear in a; `space`: the group, of which g is a
    configuration.

    **Returns:** the function (ξ, a) → ξ a, whose values have the structure of a.

    **Raises:** `TypeError` if `representation` is no function.
    """
    _checks.check_callable("representation", representation, "(g, a) -> g·a")

    def action(xi: Velocity, a: Parameter) -> Parameter:
        identity = space.identity(xi.dtype)
        along = space.rate(identity, xi)
        return jax.jvp(lambda g: representation(g, a), (identity,), (along,))[1]

    return action


def diamond(action: Action, w: Parameter, a: Parameter, dim: int) -> Float[Array, " n"]:
    """The diamond w ⋄ a in the dual of the Lie algebra, for which ⟨w ⋄ a, ξ⟩ = −⟨w, ξ a⟩ for all ξ.

    **Arguments:** `action`: the infinitesimal action (ξ, a) → ξ a; `w`: an element of the dual of the parameters' space,
    with the structure of `a`; `dim`: the dimension of the group. **Returns:** w ⋄ a, `(dim,)`.

    **Raises:** `ValueError` if w and a differ in structure or shapes.

    Putkaradze and Rogers 2018, eq. (A.28), (A.29).
    """
    check_same_structure("w", w, a)
    zero = jnp.zeros(dim, jnp.result_type(*jax.tree.leaves(a)))
    _, pull_back = jax.vjp(lambda xi: action(xi, a), zero)
    return -pull_back(w)[0]


def coadjoint(space: AbstractSpace, xi: Velocity, mu: Float[Array, " n"]) -> Float[Array, " n"]:
    """The coadjoint ad*_ξ μ, for which ⟨ad*_ξ μ, η⟩ = ⟨μ, [ξ, η]⟩ for all η, `(dim,)`.

    **Raises:** `ValueError` for a ξ or μ of the wrong shape. Putkaradze and Rogers 2018, eq. (A.22).
    """
    for name, vector in (("xi", xi), ("mu", mu)):
        _checks.check_shape(name, vector, (space.dim,), "One entry for each dimension of `space`.")
    return space.ad(xi).T @ mu


def euler_poincare(
    lagrangian: ReducedLagrangian,
    space: AbstractSpace,
    xi: Velocity,
    a: Parameter = (),
    *,
    action: Action | None = None,
    force: Float[Array, " n"] | None = None,
    right: bool = False,
) -> tuple[Float[Array, " n"], Parameter]:
    """The rates (ξ̇, ȧ) by the Euler–Poincaré equations with an advected parameter a,

        d/dt ∂ℓ/∂ξ − ad*_ξ ∂ℓ/∂ξ = ∂ℓ/∂a ⋄ a + f ,     ȧ = −ξ a .

    **Arguments:**

    - `lagrangian`: ℓ(ξ, a), with ∂²ℓ/∂ξ² regular; it need not be quadratic.
    - `space`: the group G.
    - `xi`: ξ `(dim,)`. `a`: the parameter, a pytree; `()` for none, which gives (A.25).
    - `action`: the infinitesimal action (ξ, a) → ξ a; `infinitesimal_action` makes it from a representation of G.
    - `force`: f, dual to ξ, `(dim,)`; None for no force.
    - `right`: whether the Lagrangian is right-invariant: ξ = ġg⁻¹, a = g a_0. The signs of ad*, ⋄ and ȧ are then opposite.

    **Returns:** ξ̇ `(dim,)` and ȧ, with the structure of a: a right-hand side for any solver, after which g follows from
    ġ = gξ (or ξg).

    **Raises:** `TypeError` for parameters without an action; `ValueError` for a ξ, force, Lagrangian or action of the
    wrong shape.

    Putkaradze and Rogers 2018, eq. (A.31).
    """
    if action is None and jax.tree.leaves(a):
        _checks.check_callable("action", action, "(xi, a) -> ξ a, the rate at which ξ changes `a`")
    _check_shapes(lagrangian, space, xi, a, action, force)
    sign = -1.0 if right else 1.0
    momentum = jax.grad(lagrangian, argnums=0)
    mu, w = jax.grad(lagrangian, argnums=(0, 1))(xi, a)
    change = () if action is None else action(xi, a)
    a_dot = jax.tree.map(lambda x: -sign * x, change)
    turning = coadjoint(space, xi, mu)
    if action is not None:
        turning = turning + diamond(action, w, a, space.dim)
    mu_dot = sign * turning if force is None else sign * turning + force
    _, by_parameter = jax.jvp(lambda a: momentum(xi, a), (a,), (a_dot,))
    mass_matrix = jax.jacfwd(momentum)(xi, a)
    return symmetric_solve(mass_matrix, mu_dot - by_parameter), a_dot


def _check_shapes(lagrangian, space, xi, a, action, force) -> None:
    """Checks the shapes of ξ and f, and those of the values of ℓ and the action, by tracing."""
    _checks.check_shape("xi", xi, (space.dim,), "One entry for each dimension of `space`.")
    if force is not None:
        _checks.check_shape("force", force, (space.dim,), "It is dual to ξ; zeros are written out.")
    energy = jax.eval_shape(lagrangian, xi, a)
    _checks.check_shape("lagrangian(xi, a)", energy, (), "It must be one number [J].")
    if action is not None:
        check_same_structure("action(xi, a)", jax.eval_shape(action, xi, a), a)


class EulerPoincareSystem(System):
    """The system on a group G with the Lagrangian L(g, v) = ℓ(v, g⁻¹ a_0), v = g⁻¹ġ, for `simulate` and all other functions
    that take a system.

    Its `acceleration` equals ξ̇ of `euler_poincare` at a = g⁻¹ a_0.

    **Arguments:**

    - `space`: the group G.
    - `reduced_lagrangian`: ℓ(ξ, a), a callable pytree.
    - `representation`: the group's action (g, a) → g·a, a callable pytree.
    - `a0`: the constant parameter a_0 in the space frame, a pytree.

    Putkaradze and Rogers 2018, eq. (A.27).
    """

    space: AbstractSpace  # pyright: ignore[reportIncompatibleVariableOverride]
    reduced_lagrangian: ReducedLagrangian
    representation: Representation
    a0: Any

    def advected(self, q: Configuration) -> Parameter:
        """The advected parameter a = g⁻¹ a_0 at the configuration q = g."""
        return self.representation(self.space.inverse(q), self.a0)

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        return self.reduced_lagrangian(v, self.advected(q))
