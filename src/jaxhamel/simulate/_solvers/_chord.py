"""Roots of small systems by Newton's method with one Jacobian (chords), differentiated by the implicit function theorem."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxhamel._typing import Scalar
from jaxhamel.mechanics._small_solve import inverse

_MAX_ITERATIONS = 50


def root(
    function: Callable[[Float[Array, " n"]], Float[Array, " n"]], guess: Float[Array, " n"]
) -> tuple[Float[Array, " n"], Bool[Array, ""]]:
    """x with f(x) = 0, to rounding, and whether it was found.

    The derivatives of x with respect to whatever f closes over, of every order and in both modes, are those of the implicit
    function theorem, dx = −(∂f/∂x)⁻¹ df: the iterations are not differentiated.

    **Arguments:** `function` f; `guess`, `(n,)`, close enough for the Jacobian there to contract.

    **Returns:** x `(n,)` and a flag. The iteration has converged when the step is below √eps max(1, |x|) in SI units and no
    longer shrinks: it continues down to rounding, so that long runs gather no bias from a tolerance (Hairer, Lubich and
    Wanner VIII.6).
    """
    if guess.shape[0] == 0:
        return guess, jnp.array(True)
    x, found = jax.lax.custom_root(function, guess, _chord, _solve_linear, has_aux=True)
    return x, found > 0


class _Iterate(NamedTuple):
    x: Float[Array, " n"]
    change: Scalar
    count: Array
    done: Bool[Array, ""]


def _chord(function, guess):
    jacobian = _matrix(lambda dx: jax.jvp(function, (guess,), (dx,))[1], guess)
    into_change = inverse(jacobian)
    eps = jnp.finfo(guess.dtype).eps

    def step(s):
        dx = into_change @ function(s.x)
        x, change = s.x - dx, jnp.max(jnp.abs(dx))
        size = jnp.max(jnp.abs(x))
        stalls = (change >= s.change) & (change <= jnp.sqrt(eps) * jnp.maximum(1, size))
        return _Iterate(x, change, s.count + 1, (change <= eps * size) | stalls)

    def goes_on(s):
        return ~s.done & (s.count < _MAX_ITERATIONS) & jnp.all(jnp.isfinite(s.x))

    infinite = jnp.array(jnp.inf, guess.dtype)
    start = _Iterate(guess, infinite, jnp.array(0), jnp.array(False))
    end = jax.lax.while_loop(goes_on, step, start)
    found = end.done & jnp.all(jnp.isfinite(end.x))
    return end.x, found.astype(
        guess.dtype
    )  # as a number, since custom_root gives its tangent this dtype


def _solve_linear(linear, rhs):
    return inverse(_matrix(linear, rhs)) @ rhs


def _matrix(linear, like):
    """The matrix of a linear function."""
    return jax.vmap(linear, out_axes=1)(jnp.eye(like.shape[0], dtype=like.dtype))
