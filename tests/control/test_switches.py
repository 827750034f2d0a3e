"""Controls that switch between their bounds, against the closed form of the double integrator in least time.

From (x, v), x > 0 large enough, the force is −1 until t₁ = v + r and then 1 until T = v + 2 r, r = √(v²/2 + x). The costates
at the first time are the derivatives of T: (1/r, 1 + v/r).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import control
from jaxhamel.control._mesh._switches import with_nodes_at

PLACE, SPEED = 1.0, 0.5
ROOT = np.sqrt(SPEED**2 / 2 + PLACE)
SWITCH, END = SPEED + ROOT, SPEED + 2 * ROOT


def accelerated(t, y, c):
    return jnp.stack([y[1], c[0]])


def end_time(t, q, u, control):
    return t


def force(t, q, u, control):
    return control(t)


def no_force(t):
    return jnp.zeros(1)


def in_least_time(times):
    """From (x, v) to rest at 0 in the least time, |force| ≤ 1; `times`: of the guess."""
    constraints = (
        control.StateAtEnd(q=jnp.zeros(2)), control.FreeEndTime(0.1, 10.0),
        control.PathLimit(force, -1.0, 1.0, name="force"),
    )  # fmt: skip
    return control.ControlProblem(
        jaxhamel.ODE(accelerated, 2), jnp.array([PLACE, SPEED]), jnp.zeros(0), jnp.asarray(times), no_force,
        (control.FinalCost(end_time),), constraints,
    )  # fmt: skip


@pytest.fixture(scope="module")
def least_time():
    return control.solve(in_least_time(np.linspace(0.0, 2.0, 11)), control.Collocation(10))


@pytest.fixture(scope="module")
def on_given_mesh():
    """The solution on equal intervals, which are the times of the problem and stay."""
    return control.solve(in_least_time(np.linspace(0.0, 2.0, 11)), control.Collocation(None))


def test_a_node_is_at_the_switch(least_time):
    """End time and time of the switch agree with the closed form, and the certificate holds."""
    assert least_time.certificate.holds, least_time.certificate.words
    np.testing.assert_allclose(least_time.cost, END, rtol=1e-8)
    np.testing.assert_allclose(np.min(np.abs(np.asarray(least_time.ts) - SWITCH)), 0.0, atol=1e-7)
    for t, value in ((0.01, -1.0), (SWITCH - 0.01, -1.0), (SWITCH + 0.01, 1.0), (END - 0.01, 1.0)):
        np.testing.assert_allclose(least_time.control(jnp.asarray(t)), [value], atol=1e-6)


def test_costates_are_those_of_the_best_switch(least_time):
    """The costates are the derivatives of T; with the node fixed they would be determined to some per cent only."""
    assert least_time.certificate.multipliers_unique
    np.testing.assert_allclose(least_time.costates[0], [1 / ROOT, 1 + SPEED / ROOT], rtol=1e-6)
    by_bound = control.sensitivity(least_time).constraints[2].upper
    # T for |force| ≤ F in the second arc: (v + r₁)/1 + r₁/F with r₁² (1 + 1/F) = v² + 2 x
    square = SPEED**2 + 2 * PLACE
    end = lambda F: SPEED + jnp.sqrt(square / (1 + 1 / F)) * (1 + 1 / F)
    np.testing.assert_allclose(by_bound, jax.grad(end)(1.0), rtol=1e-6)


def test_the_switch_moves_with_the_start(least_time):
    """dt₁/dx = 1/(2 r) of the neighbouring optimum."""
    number = int(np.argmin(np.abs(np.asarray(least_time.ts) - SWITCH)))

    def switch(place):
        moved = eqx.tree_at(
            lambda p: p.q0, least_time.problem, jnp.stack([place, jnp.asarray(SPEED)])
        )
        return control.neighbouring(moved, least_time).ts[number]

    slope = jax.jit(jax.grad(switch))(jnp.asarray(PLACE))
    np.testing.assert_allclose(slope, 1 / (2 * ROOT), rtol=1e-6)


def test_a_switch_within_an_interval_is_told(on_given_mesh):
    """The certificate does not hold, names the limit, and estimates the cost above the optimum, here by its first order."""
    certificate = on_given_mesh.certificate
    assert not certificate.holds
    line = next(x for x in certificate.words.split("\n") if "`force`" in x)
    estimate = float(line.split(":")[1].split("(")[0]) * (1 + on_given_mesh.cost)
    assert 0.5 < estimate / (on_given_mesh.cost - END) < 2.0


def test_meshes_with_nodes_at_given_times():
    """The nearest nodes move, two switches get two nodes, and the mesh stays increasing."""
    mesh = np.linspace(0.0, 1.0, 6)
    np.testing.assert_allclose(
        with_nodes_at(mesh, [0.45]), [0, 0.225, 0.45, 0.45 + 0.55 / 3, 0.45 + 1.1 / 3, 1]
    )
    for times in ([0.41, 0.42], [0.97, 0.98, 0.99], [0.01, 0.02], []):
        found = with_nodes_at(mesh, times)
        assert found is not None
        assert np.all(np.diff(found) > 0)
        assert all(np.min(np.abs(found - t)) < 1e-12 for t in times)
    assert with_nodes_at(mesh, [0.1, 0.2, 0.3, 0.4, 0.5]) is None
