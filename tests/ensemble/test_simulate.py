"""An ensemble equals its trajectories, simulated one by one; invalid input is refused with its index."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import ensemble
from jaxhamel.ensemble import _simulate
from jaxhamel.systems import FreeRigidBody, HeavyTop
from tests.systems.ball import two_mass_ball
from tests.systems.motion import unit_quaternions

RNG = np.random.default_rng(3)
B = 4
Q = unit_quaternions(RNG, B)
U = RNG.normal(size=(B, 3))
TS = np.linspace(0.0, 0.5, 6)
BODY = FreeRigidBody([1.0, 2.0, 2.5])


class Swing(eqx.Module):
    amplitude: jax.Array

    def __call__(self, t):
        return self.amplitude * jnp.sin(2.0 * t) - jnp.pi / 2


def entry(tree, index):
    return jax.tree.map(lambda x: x[index], tree)


@pytest.mark.parametrize("options", [{}, {"dt": 0.05}])
def test_each_trajectory_is_that_of_simulate(options):
    """Each trajectory has its own system, state and control, with adaptive and with fixed steps."""
    masses = jnp.asarray(RNG.uniform(0.5, 1.5, (B, 2)))
    balls = jax.vmap(lambda m: two_mass_ball(masses=m))(masses)
    q0, control = (Q, RNG.normal(size=(B, 2))), Swing(jnp.asarray(RNG.uniform(0.1, 0.5, (B, 2))))
    many = ensemble.simulate(balls, q0, U, TS, control, **options)
    assert many.q[0].shape == (B, len(TS), 4)
    assert np.all(many.result == jaxhamel.RESULTS.successful)
    for i in range(B):
        one = jaxhamel.simulate(
            entry(balls, i), entry(q0, i), U[i], TS, entry(control, i), **options
        )
        found = jax.tree.leaves((entry(many.q, i), many.u[i], many.stats["num_steps"][i]))
        wanted = jax.tree.leaves((one.q, one.u, one.stats["num_steps"]))
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-11)


def test_equal_steps_are_taken_in_lanes_and_nothing_else_changes(monkeypatch):
    """Lanes give the same `Trajectory` as `vmap` up to rounding, except for the states that a trajectory which
    overflows has reached."""
    u = np.array(U)
    u[1] *= 1e200
    run = lambda: ensemble.simulate(BODY, Q, u, TS, in_axes=(None, 0, 0, None), dt=0.05)
    found = run()
    monkeypatch.setattr(_simulate, "takes_equal_steps", lambda *_: False)
    wanted = run()
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    assert found.t_end[1] == 0.0  # the last time of TS before the overflow
    np.testing.assert_array_equal(found.succeeded, wanted.succeeded)
    good = np.array([0, 2, 3])
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(np.asarray(a)[good], np.asarray(b)[good], rtol=0, atol=1e-13)


def test_one_system_from_many_states():
    many = ensemble.simulate(BODY, Q, U, TS, in_axes=(None, 0, 0, None), dt=0.05)
    same = ensemble.simulate(BODY, Q, U.T, TS, in_axes=(None, 0, 1, None), dt=0.05)
    np.testing.assert_array_equal(many.u, same.u)
    one = jaxhamel.simulate(BODY, Q[2], U[2], TS, dt=0.05)
    np.testing.assert_allclose(many.u[2], one.u, atol=1e-12)


def test_lists_and_a_function_as_control():
    top = HeavyTop(15.0, [15.2, 0.47, 15.2], [0, 1, 0], 9.81)
    many = ensemble.simulate(
        top,
        [1.0, 0, 0, 0],
        [[0.0, 1, 2], [0.0, 2, 1]],
        [0.0, 0.1],
        lambda t: t,
        in_axes=(None, None, 0, 0),
    )
    assert many.u.shape == (2, 2, 3)


def test_one_that_breaks_down_leaves_the_others_alone():
    u = np.array(U)
    u[1] *= 1e200  # overflows
    many = ensemble.simulate(BODY, Q, u, TS, in_axes=(None, 0, 0, None))
    np.testing.assert_array_equal(many.succeeded, [True, False, True, True])
    np.testing.assert_allclose(many.u[2], jaxhamel.simulate(BODY, Q[2], U[2], TS).u, atol=1e-12)


def test_gradient_is_the_sum_of_gradients():
    ts, options = TS[:2], {"dt": 0.05}

    def total(u):
        many = ensemble.simulate(BODY, Q, u, ts, in_axes=(None, 0, 0, None), **options)
        return jnp.sum(many.u[:, -1] ** 2)

    one = lambda u: jnp.sum(jaxhamel.simulate(BODY, Q[1], u, ts, **options).u[-1] ** 2)
    np.testing.assert_allclose(jax.grad(total)(U)[1], jax.grad(one)(jnp.asarray(U[1])), rtol=1e-9)


FRAMES = []


class Pushed(jaxhamel.System):
    """A point of 2 kg on a line, whose control is the force on it."""

    space = jaxhamel.Euclidean(1)

    def lagrangian(self, t, q, v):
        return v[0] ** 2

    def frame(self, t, q):
        FRAMES.append(t)
        return jnp.ones((1, 1)) if q.dtype == float else jnp.ones((1, 2))

    def force(self, t, q, v, control):
        return control


PATHS = [
    lambda *given, **options: ensemble.simulate(Pushed(), *given, **options).q,
    lambda *given, **options: ensemble.rollout(Pushed(), *given, **options)[0],
]


@pytest.mark.parametrize("axis", [0, None])
@pytest.mark.parametrize("path", PATHS, ids=["simulate", "rollout"])
def test_constant_controls_in_lanes(path, axis):
    """The position is x = F t²/4. A second call traces neither the motion nor its checks."""
    start, forces = np.zeros((3, 1)), np.array([[1.0], [2.0], [-3.0]])
    control = forces if axis == 0 else forces[0]
    options = {"in_axes": (None, 0, 0, axis), "dt": 0.1}
    wanted = np.broadcast_to(control, (3, 1))[:, None] * TS[:, None] ** 2 / 4
    np.testing.assert_allclose(path(start, start, TS, control, **options), wanted, atol=1e-15)
    traced = len(FRAMES)
    path(start + 1, start, TS, control, **options)
    assert len(FRAMES) == traced


def test_what_all_share_is_looked_at():
    """Shared controls are checked by value, and methods of the system by shape."""
    start, narrow = np.zeros((2, 1)), np.zeros((2, 1), np.float32)
    for options in ({"dt": 0.1}, {}):
        with pytest.raises(ValueError, match=r"`control` is not finite at t = 0: \[nan\]"):
            ensemble.simulate(Pushed(), start, start, TS, [np.nan], in_axes=SHARED, **options)
        with pytest.raises(ValueError, match=r"`frame\(t, q\)` has shape \(1, 2\)"):
            ensemble.simulate(Pushed(), narrow, narrow, TS, [1.0], in_axes=SHARED, **options)


def test_a_frame_that_all_share_is_regular():
    class Flat(Pushed):
        def frame(self, t, q):
            return jnp.zeros((1, 1))

    given, axes = (np.zeros(1), np.zeros((2, 1)), TS, [1.0]), (None, None, 0, None)
    for run in (ensemble.rollout, ensemble.simulate):
        with pytest.raises(ValueError, match=r"`frame\(t, q\)` is singular at t = 0.0"):
            run(Flat(), *given, in_axes=axes, dt=0.1)


def test_a_list_of_systems_is_refused_with_advice():
    with pytest.raises(
        TypeError, match=r"one system whose numbers have a leading batch axis.*jax.vmap\(make"
    ):
        ensemble.simulate([BODY, BODY], Q, U, TS, in_axes=0)


SHARED = (None, 0, 0, None)


@pytest.mark.parametrize(
    ("q0", "u0", "in_axes", "message"),
    [
        (
            Q,
            U[:3],
            SHARED,
            "sizes differ: `q0` of .* has 4 along axis 0, `u0` of .* has 3 along axis 0",
        ),
        (Q, U, 0, r"sizes differ: `system.inertia` of shape \(3,\) has 3 along axis 0, `q0`"),
        (Q[:0], U[:0], SHARED, "zero trajectories"),
        (Q[0], U[0], None, "maps no array"),
        (
            Q,
            U,
            (None, 0, 0),
            r"length 3; .* one entry for each of \(system, q0, u0, control\)\. Give 0",
        ),
        (
            Q,
            U,
            (None, 0, (0, 0), None),
            "for `u0`, which is an array of .* built like `u0` with an",
        ),
        (Q * np.array([[1.0], [1.0], [2.0], [1.0]]), U, SHARED, "q0 of trajectory 2"),
        (Q, np.where(U[1, 1] == U, np.nan, U), SHARED, "`u0` is"),
        (Q, U[:, :2], SHARED, "`u0` has shape \\(2,\\)"),
        (Q[:, :3], U, SHARED, "q0 of trajectory 0"),
        ((Q, Q[:, :2]), U, SHARED, "`q0 of one trajectory` is .* an array of shape \\(4,\\)"),
    ],
)
def test_what_cannot_be(q0, u0, in_axes, message):
    kind = TypeError if isinstance(q0, tuple) else ValueError
    with pytest.raises(kind, match=message):
        ensemble.simulate(BODY, q0, u0, TS, in_axes=in_axes)
    with pytest.raises(kind, match=message):
        ensemble.rollout(BODY, q0, u0, TS, dt=0.1, in_axes=in_axes)
