"""`loop_stability` against closed forms for a nonholonomic system of the user, and the reason that it names."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import Feedback
from jaxhamel.control import Sampled, loop_stability


class Trolley(jaxhamel.System):
    """A blade q = (angle, x, y) that slides only along its own axis, ẏ_body = 0, driven by a torque and a force."""

    mass: jax.Array
    space = jaxhamel.SE2()
    n_constraints = 1
    n_controls = 2

    def frame(self, t, q):
        return jnp.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], q.dtype)

    def lagrangian(self, t, q, v):
        return 0.5 * self.mass * (v[1] ** 2 + v[2] ** 2) + 0.5 * v[0] ** 2

    def force(self, t, q, v, control):
        return jnp.stack([control[0], control[1], jnp.zeros((), q.dtype)])


class Gains(eqx.Module):
    """The feedback law c = −k (angle, x) − d (turning rate, speed)."""

    k: jax.Array
    d: jax.Array

    def __call__(self, t, q, u):
        return -self.k * q[:2] - self.d * u


TROLLEY, AT_REST = Trolley(jnp.array(1.0)), (jnp.zeros(3), jnp.zeros(2))


def law(k=4.0, d=3.0):
    return Gains(jnp.array(k), jnp.array(d))


@pytest.mark.parametrize("given", [Feedback(law()), law()])
def test_in_continuous_time(given):
    """The loop has two oscillators λ² + d λ + k = 0 and a neutral direction across the blade, which no control affects."""
    found = loop_stability(TROLLEY, *AT_REST, given)
    assert found.stable
    np.testing.assert_allclose(found.rate, -1.5, rtol=1e-9)
    assert str(found) == "stable: the slowest deviation halves in 0.462 s"


def test_gains_of_the_wrong_sign():
    """The growth rate is the positive root of λ² − λ − 8 = 0."""
    found = loop_stability(TROLLEY, *AT_REST, law(-8.0, -1.0))
    np.testing.assert_allclose(found.rate, 0.5 * (1 + 33**0.5), rtol=1e-9)
    assert str(found).startswith(
        "unstable: small deviations double in 0.206 s. The gains are the reason"
    )


def test_an_undamped_loop_is_marginal():
    found = loop_stability(TROLLEY, *AT_REST, law(4.0, 0.0))
    assert (found.stable, found.rate) == (False, 0.0)
    assert str(found) == "marginal: to first order some deviations neither grow nor die away."


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("period", [None, 0.02])
def test_a_velocity_that_nothing_holds_is_not_stable(period, dtype):
    """Gains of the angle alone leave ẍ = 0: the speed stays, and the place grows in proportion to time. With the speed held,
    ẍ = −3 ẋ, the place is neutral and the loop stable."""
    trolley = Trolley(jnp.ones((), dtype))
    rest = jnp.zeros(3, dtype), jnp.zeros(2, dtype)
    drifts, holds = (
        Gains(jnp.array([4.0, 0.0], dtype), jnp.array([3.0, d], dtype)) for d in (0.0, 3.0)
    )
    loops = [law if period is None else Sampled(law, period) for law in (drifts, holds)]
    found, held = (loop_stability(trolley, *rest, loop) for loop in loops)
    assert (found.stable, found.rate) == (False, 0.0)
    assert str(found).startswith(
        "marginal: to first order some deviations grow in proportion to time"
    )
    assert held.stable


@pytest.mark.parametrize(
    ("k", "period", "delay", "words"),
    [
        (4.0, 0.02, 1, "stable: the slowest"),
        (4.0, 0.2, 4, "The delay of 0.8 s is the reason"),
        (4.0, 0.9, 0, "The period of 0.9 s is the reason"),
        (4.0, 0.9, 1, "The period of 0.9 s is the reason"),
        (-4.0, 0.02, 1, "The gains are the reason"),
    ],
)
def test_the_reason_of_a_digital_loop(k, period, delay, words):
    """The rate is that of the exact recursion x_{n+1} = E x_n + F c_{n−d} of a double integrator, and the reason names
    the delay, the period or the gains."""
    found = loop_stability(TROLLEY, *AT_REST, Sampled(law(k), period, delay=delay))
    E, F = np.array([[1, period], [0, 1]]), np.array([0.5 * period**2, period])
    M = np.zeros((2 + delay, 2 + delay))
    M[:2, :2] = E
    K = -np.array([k, 3.0])
    if delay:
        M[:2, 2], M[-1, :2] = F, K
        M[2:-1, 3:] = np.eye(delay - 1)
    else:
        M += np.outer(F, K)
    rate = np.log(np.max(np.abs(np.linalg.eigvals(M)))) / period
    np.testing.assert_allclose(found.rate, rate, rtol=1e-7)
    assert words in str(found)
    assert found.stable == (rate < 0)


@pytest.mark.parametrize("given", ["no law", Gains, 3.0])
def test_what_is_no_law(given):
    with pytest.raises(TypeError, match=r"`law` is .*; it must be a jaxhamel.control.Sampled"):
        loop_stability(TROLLEY, *AT_REST, given)
