"""Checks that different descriptions of a system agree: bodies with the Lagrangian, `inverse_frame` with the frame.

Their values are compared at the given state and at others near it, since an error may have no effect at one state: that of a
drag at rest, of a slack spring, or of a wrong inverse where the frame is the identity. Bodies and Lagrangian are compared at
states with other quasi-velocities on a motion from the given state, so that holonomic constraints still hold there.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._lanes._xla_cpu._jit import QUICK, is_outermost, known_here
from jaxhamel._shapes import Seen
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar
from jaxhamel.mechanics._checks._system import check_bodies, check_inverse, check_leaves
from jaxhamel.mechanics._controls._kinematic import inner
from jaxhamel.mechanics._equations._gauss import Normal, of_bodies, of_lagrangian
from jaxhamel.mechanics._kinematics import velocity_of
from jaxhamel.mechanics._system import System, has_valid, is_ours, overrides

_AGREED = Seen()


def check_agreement(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> None:
    """Checks that a user's class has no NaN among its parameters and that its different forms describe one system.

    This is done once for each set of parameters; the package's own classes do it in their constructors.

    **Raises:** `ValueError` that names the field or the method.
    """
    system = inner(system)
    if is_ours(system) or _checks.any_tracer((system, t, q, u, control)):
        return
    kind, values = (system, t, q, u, control), eqx.filter(system, eqx.is_array)
    with _AGREED.once(*kind, values=values) as is_new:
        if is_new:
            check_leaves(system)
            check_inverse(system, t, *inverse_error(system, t, q))
            check_bodies(system, t, disagreement(system, t, q, u, control))


def run_quickly(f: Callable[..., Any], *arguments):
    """The value of f at concrete arguments, also inside of another transform, by a program that compiles quickly."""
    if is_outermost(arguments):
        return _compiled(f)(*arguments)
    with jax.ensure_compile_time_eval():
        return f(*arguments)


@cache
def _compiled(f: Callable[..., Any]) -> Callable[..., Any]:
    return compiled(f, compiler_options=known_here(QUICK))


def inverse_error(system: System, t: Scalar, q: Configuration) -> tuple[float, float]:
    """The error max |B A − 1| and a bound of its rounding error, at the worse of two states; zeros for a system without
    `inverse_frame`.
    """
    if not (overrides(system, "frame") and has_valid(system, "inverse_frame")):
        return 0.0, 0.0
    found = run_quickly(_inverse_errors, system, t, q)
    if found is None:
        return 0.0, 0.0
    error, size = map(np.asarray, found)
    known = np.isfinite(error)
    if not known.any():
        return 0.0, 0.0
    worst = int(np.argmax(np.where(known, error / size, -1.0)))
    return float(error[worst]), 1e4 * float(np.finfo(error.dtype).eps) * float(size[worst])


def _inverse_errors(system, t, q):
    """The errors of B A at q and at a configuration near it, and the sizes of its terms; None if B is not known."""
    if system.inverse_frame(t, q) is None:
        return None

    def at(q):
        frame, inverse = system.frame(t, q), system.inverse_frame(t, q)
        size = jnp.max(jnp.abs(inverse) @ jnp.abs(frame))
        return jnp.max(jnp.abs(inverse @ frame - jnp.eye(len(frame), dtype=frame.dtype))), size

    n = system.space.dim
    near = system.space.retract(
        q, 0.3 * _pseudo_random_numbers(n, 1.0, jax.tree.leaves(q)[0].dtype)
    )
    return jax.tree.map(lambda *x: jnp.stack(x), at(q), at(near))


class Disagreement(NamedTuple):
    """The relative differences of mass matrix and force between bodies and Lagrangian, at the worst of several states.

    `u`: the quasi-velocities of this state; `of_bodies`, `of_lagrangian`: u̇ at this state by the two descriptions.
    """

    mass_matrix: float
    force: float
    u: Float[np.ndarray, " k"]
    of_bodies: Float[np.ndarray, " k"]
    of_lagrangian: Float[np.ndarray, " k"]


def disagreement(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> Disagreement | None:
    """The disagreement of bodies and Lagrangian at the worst of three states; None if the system has only one form."""
    has_both = has_valid(system, "bodies") and overrides(system, "lagrangian")
    found = run_quickly(_both_forms, system, t, q, u, control) if has_both and len(u) else None
    if found is None:
        return None
    us, bodies, lagrangian = jax.tree.map(lambda x: np.asarray(x, np.float64), found)
    mass, force = _relative_differences(us, bodies, lagrangian)
    known = np.isfinite(mass + force)
    if not known.any():
        return None
    worst = int(np.argmax(np.where(known, np.maximum(mass, force), -1.0)))
    solved = [
        np.linalg.lstsq(form.mass_matrix[worst], form.force[worst])[0]
        for form in (bodies, lagrangian)
    ]
    return Disagreement(float(mass[worst]), float(force[worst]), us[worst], *solved)


def _relative_differences(us, bodies: Normal, lagrangian: Normal):
    """The relative differences of the mass matrices and of the forces of two normal equations at each state, scaled so that
    M has a unit diagonal.
    """
    diagonal = np.abs(np.einsum("sii->si", lagrangian.mass_matrix))
    unit = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    masses = (bodies.mass_matrix - lagrangian.mass_matrix) / (unit[:, :, None] * unit[:, None, :])
    forces = (bodies.force - lagrangian.force) / unit
    speed = np.max(np.abs(us), axis=1)
    size = np.max(np.abs(lagrangian.force) / unit, axis=1) + np.max(unit, axis=1) * speed**2
    difference = np.max(np.abs(forces), axis=1)
    return np.max(np.abs(masses), axis=(1, 2)), difference / np.where(size > 0, size, 1.0)


def _both_forms(system, t, q, u, control) -> tuple[Array, Normal, Normal] | None:
    """The quasi-velocities u, and the normal equations M u̇ = f from bodies and from the Lagrangian, at three states: the
    given one, one with other quasi-velocities, and one to which these move q. None if the system gives no bodies.
    """
    if system.bodies(t, q, velocity_of(system, t, q, u), control) is None:
        return None
    size = jnp.maximum(1.0, jnp.max(jnp.abs(u)))
    other = u + size * _pseudo_random_numbers(len(u), 2.0, u.dtype)
    far = _after_time(system, t, q, other, 0.3 / size)
    states = jax.tree.map(lambda *x: jnp.stack(x), (q, u), (q, other), (far, other))
    forms = [
        jax.vmap(lambda q, u, form=form: form(system, t, q, u, control))(*states)
        for form in (of_bodies, of_lagrangian)
    ]
    return states[1], *forms


def _after_time(system, t, q, u, time, steps: int = 8):
    """The configuration after a time of motion with constant quasi-velocities u, by the midpoint rule."""
    h = time / steps

    def step(q, _):
        middle = system.space.retract(q, 0.5 * h * velocity_of(system, t, q, u))
        return system.space.retract(q, h * velocity_of(system, t, middle, u)), None

    return jax.lax.scan(step, q, length=steps)[0]


def _pseudo_random_numbers(count: int, seed: float, dtype) -> Float[Array, " k"]:
    """Fixed pseudo-random numbers between −1 and 1."""
    return jnp.asarray(np.sin(seed + 2.4 * np.arange(count) ** 1.3), dtype)
