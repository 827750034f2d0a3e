"""Quasi-velocities and velocities, and derivatives along the motion.

All derivatives with respect to the configuration are taken along v in the coordinates in which q is stored, q̇ = rate(q, v).
They equal the derivatives d/dε f(q·exp(ε v)) at ε = 0, but need no exponential: the two curves agree to first order, and
equations of motion contain only first derivatives (From 2012, eq. 54, 57).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time, Velocity
from jaxhamel.mechanics._controls._control import as_control, at_state
from jaxhamel.mechanics._small_solve import inverse, known_inverse
from jaxhamel.mechanics._system import System, dtype_of, has_valid, overrides


class InverseFrame(eqx.Module):
    """The function B(t, q) = A(t, q)⁻¹ for use at one (t, q), where A is inverted only once, also if B is differentiated
    several times.

    The frame is not inverted if it is the identity, or if the system has an `inverse_frame` that is up to date.
    """

    system: System
    value: Float[Array, "n n"] | None

    @classmethod
    def at(cls, system: System, t: Time, q: Configuration) -> "InverseFrame":
        """The function B for use at (t, q)."""
        known = not overrides(system, "frame") or has_valid(system, "inverse_frame")
        return cls(system, None if known else inverse(system.frame(t, q)))

    def __call__(self, t: Time, q: Configuration) -> Float[Array, "n n"]:
        """The inverse frame B(t, q), `(n, n)`."""
        if self.value is not None:
            return known_inverse(self.system.frame(t, q), self.value)
        if not overrides(self.system, "frame"):
            return jnp.eye(self.system.space.dim, dtype=dtype_of(q))
        known = self.system.inverse_frame(t, q)
        return inverse(self.system.frame(t, q)) if known is None else known

    def velocity(self, t: Time, q: Configuration, u: Float[Array, " n"]) -> Velocity:
        """The velocity v = B (u − a) of all n quasi-velocities u, those of the constraints included."""
        if overrides(self.system, "drift"):
            u = u - self.system.drift(t, q)
        return self(t, q) @ u if overrides(self.system, "frame") else u

    def independent(self, t: Time, q: Configuration) -> Float[Array, "n k"]:
        """The columns B^r_i with independent i: the directions in which the constraints let the system move."""
        return self(t, q)[:, self.system.n_constraints :]


def with_constraints(system: System, u: QuasiVelocity) -> Float[Array, " n"]:
    """All n quasi-velocities (0, u): the constrained ones vanish."""
    return jnp.concatenate([jnp.zeros(system.n_constraints, dtype=u.dtype), u])


def velocity_of(system: System, t: Time, q: Configuration, u: QuasiVelocity) -> Velocity:
    """The velocity v = B ((0, u) − a) of the independent quasi-velocities u; the arguments are not checked."""
    return InverseFrame.at(system, t, q).velocity(t, q, with_constraints(system, u))


def quasi_velocity_of(system: System, t: Time, q: Configuration, v: Velocity) -> QuasiVelocity:
    """The independent quasi-velocities of v, the last k rows of A v + a."""
    u = system.frame(t, q) @ v if overrides(system, "frame") else v
    if overrides(system, "drift"):
        u = u + system.drift(t, q)
    return u[system.n_constraints :]


def lagrangian(system: System, t: Time, q: Configuration, v: Velocity, control: Control) -> Scalar:
    """The Lagrangian L(t, q, v); a system with prescribed motion gets the control, too."""
    if system.prescribed_motion:
        return system.lagrangian(t, q, v, control)  # pyright: ignore[reportCallIssue]
    return system.lagrangian(t, q, v)


def applied_force(
    system: System, t: Time, q: Configuration, v: Velocity, control: Control
) -> Float[Array, " n"]:
    """The force Q(t, q, v, control). The system gets the value of the control at t, or, with prescribed motion, the control
    itself.
    """
    if control is None or system.prescribed_motion:
        return system.force(t, q, v, control)
    return system.force(t, q, v, control(t))


def along_motion(
    system: System,
    function: Callable[[Scalar, Configuration], Any],
    t: Scalar,
    q: Configuration,
    v: Velocity,
) -> tuple[Any, Any]:
    """The value f(t, q) and the total time derivative ∂f/∂t + v(f), by one jvp."""
    return jax.jvp(function, (t, q), (jnp.ones_like(t), system.space.rate(q, v)))


def derivatives(
    system: System,
    function: Callable[[Scalar, Configuration, Array], Any],
    t: Scalar,
    q: Configuration,
    v: Velocity,
    x: Float[Array, " n"],
    directions: Float[Array, "k n"],
) -> tuple[Any, Any, Any]:
    """The value f(t, q, x), its rate ∂f/∂t + v(f) at fixed x, and ∂f/∂x along each of the `directions`, by one batched jvp.

    One batched jvp evaluates f once for all k + 1 tangents. Separate calls would evaluate f repeatedly, and every later
    transformation would work on all copies.
    """

    def rows(first: Array) -> Array:
        none = jnp.zeros((directions.shape[0], *first.shape), first.dtype)
        return jnp.concatenate([first[None], none])

    along = (rows(jnp.ones_like(t)), jax.tree.map(rows, system.space.rate(q, v)))
    along_x = jnp.concatenate([jnp.zeros_like(x)[None], directions])

    def push(*tangent):
        return jax.jvp(function, (t, q, x), tangent)

    value, tangents = jax.vmap(push, out_axes=(None, 0))(*along, along_x)
    rate = jax.tree.map(lambda d: d[0], tangents)
    return value, rate, jax.tree.map(lambda d: d[1:], tangents)


def covector(system: System, q: Configuration, gradient: Configuration) -> Float[Array, " n"]:
    """The covector dual to v of a gradient ∂f/∂q in the stored coordinates: (∂f/∂q)·rate(q, e_r) for each direction r."""
    zero = jnp.zeros(system.space.dim, dtype=dtype_of(q))
    _, pull_back = jax.vjp(lambda v: system.space.rate(q, v), zero)
    return pull_back(gradient)[0]


def prepare(
    q: Configuration,
    *velocities: Array,
    t: Time,
    control: Control,
    names: tuple[str, ...] = ("u",),
    keep_feedback: bool = False,
) -> tuple[Scalar, Configuration, tuple[Array, ...], Control]:
    """The time, the configuration, the velocities and the control of one call, as arrays of one floating dtype.

    A feedback becomes the constant with its value at this state, unless `keep_feedback` is set and if the first of the
    velocities is u. `names`: the names of the velocities.

    **Raises:** `TypeError` or `ValueError` for arguments that are not arrays.
    """
    _checks.check_arguments(t, q, dict(zip(names, velocities, strict=False)))
    leaves = [jnp.asarray(x) for x in (*jax.tree.leaves(q), *velocities)]
    dtype = (
        jnp.result_type(float, *leaves)
        if not any(_is_float(x) for x in leaves)
        else (jnp.result_type(*(x for x in leaves if _is_float(x))))
    )

    def cast(x):
        return jnp.asarray(x, dtype=dtype)

    t, q, found = cast(t), jax.tree.map(cast, q), tuple(map(cast, velocities))
    control = as_control(control)
    if names[:1] == ("u",) and found and not keep_feedback:
        control = at_state(control, t, q, found[0])
    return t, q, found, control


def _is_float(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)
