"""The built-in figure eight: its stored solution, and its first seconds solved again."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import control
from jaxhamel.control._figure_eight import stored_text
from jaxhamel.control._problem._costs import rate
from jaxhamel.control._result import measure


def test_stored_solution_rolls_the_figure_eight():
    problem, curve = control.figure_eight_solution()
    motion = control.replay(problem, curve)
    numbers = {name: x or 0.0 for name, x in measure(problem, motion, curve).items()}
    assert bool(motion.succeeded)
    assert 0 < numbers["tracking_rms"] < 1e-3
    assert numbers["tracking_rms"] <= 1e-3 * numbers["path_size"]
    assert numbers["path_length"] > 10 * float(problem.system.radius)
    assert numbers["min_normal_force"] > 0
    assert 0 < numbers["friction_needed"] < 0.2
    # The motion starts at rest, in equilibrium.
    np.testing.assert_allclose(rate(curve, 0.0), 0.0, atol=1e-9)
    force = problem.system.contact_force(0.0, problem.q0, problem.u0, curve(0.0))
    np.testing.assert_allclose(force, [0, 0, 2.5 * 9.81], atol=1e-6)


def test_looser_tolerances_find_the_same_motion():
    problem, curve = control.figure_eight_solution()
    motion = control.replay(problem, curve, rtol=1e-8, atol=1e-10)
    assert 0 < (measure(problem, motion, curve)["tracking_rms"] or 0) < 1e-3


def test_first_seconds_are_solved_anew():
    problem = control.figure_eight(duration=3.0)
    method = control.figure_eight_method(goal=1e-3)
    result = control.solve(problem, method)
    assert result.converged, result
    numbers = {
        k: getattr(result, k) or 0.0
        for k in ("tracking_rms", "min_normal_force", "friction_needed")
    }
    assert 0 < numbers["tracking_rms"] < 1.01e-3
    # One continuous simulation has the tracking error that multiple shooting reported.
    np.testing.assert_allclose(result.history["tracking_rms"][-1], result.tracking_rms, rtol=1e-2)
    assert result.history["defect"][-1] < 1e-10
    assert numbers["min_normal_force"] > 20
    assert 0 < numbers["friction_needed"] < 0.2
    text = str(result)
    assert "converged" in text and "% of the path's size" in text and "N" in text  # noqa: PT018
    assert result.to_dict()["tracking_rms"] == result.tracking_rms
    assert '"coefficients"' in stored_text({}, result)


def test_guess_rolls_along_the_path():
    problem = control.figure_eight()
    q, u = problem.guess
    path = problem.tracking.path
    np.testing.assert_allclose(q[1], jax.vmap(path)(problem.ts), atol=1e-14)
    velocity = jax.vmap(lambda t: rate(path, t))(problem.ts)
    centre = jax.vmap(lambda q, u: problem.system.inverse_frame(0.0, q)[3:, 2:] @ u)(q, u)
    np.testing.assert_allclose(centre, velocity, atol=1e-12)


def test_contact_limits_cost_only_what_is_beyond_them():
    problem, curve = control.figure_eight_solution()
    state = (jnp.asarray(1.0), problem.q0, problem.u0, curve)
    normal, friction = problem.system.contact(*state)
    value = lambda **limits: control.ContactLimits(**limits).running(problem.system, *state)
    np.testing.assert_array_equal(value(), [0.0, 0.0])
    np.testing.assert_array_equal(value(normal=normal - 1, friction=friction + 0.1), [0.0, 0.0])
    np.testing.assert_allclose(value(normal=normal + 2.0, weight=9.0), [6.0, 0.0], rtol=1e-9)
    np.testing.assert_allclose(value(friction=0.0), [0.0, normal * friction], rtol=1e-9)
    gradient = jax.grad(
        lambda x: jnp.sum(control.ContactLimits(normal=x).running(problem.system, *state))
    )
    assert np.isfinite(gradient(jnp.asarray(30.0)))


@pytest.mark.parametrize("name", ["figure_eight", "figure_eight_method", "solve", "Spline"])
def test_public_names_are_documented(name):
    assert getattr(control, name).__doc__


class Pressed(eqx.Module):
    """A body whose contact force (N) is the control."""

    def contact_force(self, t, q, u, control):
        return control(t)


class OnGround(eqx.Module):
    system: Pressed = Pressed()
    tracking: None = None


@pytest.mark.parametrize(("ascent", "needed"), [(4.0, 1.5), (5.0, np.inf), (6.0, np.inf)])
def test_no_friction_is_enough_for_a_motion_that_leaves_the_ground(ascent, needed):
    """|f| = 1.5 N while N falls from 5 N to 5 N − ascent. If N reaches zero, the needed coefficient is infinite,
    neither negative nor that of the other times."""
    ts = jnp.arange(3.0)
    motion = SimpleNamespace(ts=ts, q=jnp.zeros((3, 1)), u=jnp.zeros((3, 1)))
    force = lambda t: jnp.stack([0 * t, 0 * t + 1.5, 5.0 - ascent * t / 2])
    numbers = measure(OnGround(), motion, force)
    np.testing.assert_allclose(numbers["friction_needed"], needed)
    np.testing.assert_allclose(numbers["min_normal_force"], 5.0 - ascent)
