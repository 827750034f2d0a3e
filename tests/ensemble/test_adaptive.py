"""Adaptive steps in lanes: each trajectory takes the steps that diffrax takes, independent of its neighbours."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import RESULTS, ensemble, simulate
from jaxhamel._lanes._xla_cpu._one_loop import one_loop_works
from jaxhamel.ensemble._adaptive_steps import _step_form
from jaxhamel.ensemble._adaptive_steps._step_form import StepForm
from jaxhamel.ensemble._integrate import ordinary_equation
from jaxhamel.ensemble._members._members import Members
from jaxhamel.ensemble._methods._embedded_pairs import embedded_pair
from jaxhamel.ensemble._simulate_lanes import takes_adaptive_steps
from jaxhamel.systems import FreeRigidBody

RNG = np.random.default_rng(7)
TS = np.linspace(0.0, 0.4, 6)
METHODS = [diffrax.Tsit5(), diffrax.Dopri5(), diffrax.Dopri8(), diffrax.Bosh3(), diffrax.Heun()]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_a_pair_is_that_of_diffrax(method):
    """The weights satisfy the conditions of order 2, the error weights sum to 0, and the interpolant equals diffrax's."""
    pair, (b, e, c) = embedded_pair(method), (np.zeros(1),) * 3
    b, e, c = map(np.array, (pair.b, pair.error, pair.c))
    for power in range(2):
        assert b @ c**power == pytest.approx(1 / (power + 1))
    assert e.sum() == pytest.approx(0.0, abs=1e-15)
    slopes = RNG.normal(size=(len(b), 3))
    y0, theta = jnp.zeros(3), 0.3
    of = method.interpolation_cls(
        t0=jnp.array(0.0),
        t1=jnp.array(1.0),
        y0=y0,
        y1=jnp.asarray(b @ slopes),
        k=jnp.asarray(slopes),
    )
    inside = np.array(pair.inside)
    weights = inside @ theta ** np.arange(1, inside.shape[1] + 1)
    np.testing.assert_allclose(weights @ slopes, of.evaluate(jnp.array(theta)), atol=1e-11)


def bodies(size):
    """Initial rotations and angular velocities of free rigid bodies; every seventh body rotates thirty times as fast."""
    omega = RNG.normal(size=(size, 3))
    omega[::7] *= 30
    return np.tile([1.0, 0, 0, 0], (size, 1)), omega


def turned(q0, u0, **options):
    body = FreeRigidBody(jnp.array([1.0, 2.0, 2.5], u0.dtype))
    return ensemble.simulate(body, q0, u0, TS, in_axes=(None, 0, 0, None), **options)


def test_a_trajectory_does_not_depend_on_its_neighbours(monkeypatch):
    """A trajectory stays the same in another order, in a queue, and when its lanes are narrowed.

    The results are equal to the last bit if all lanes run in one loop; otherwise XLA may round two programs
    differently.
    """
    q0, u0 = bodies(70)
    options = {"rtol": 1e-7, "atol": 1e-9}
    together = turned(q0, u0, **options)  # 72 lanes
    monkeypatch.setattr(StepForm, "widths_for", lambda self, size: ((40, 36), (32, 0)))
    order = RNG.permutation(70)
    queued = turned(q0[order], u0[order], **options, max_steps=60_000)  # another program
    names = ("q", "u", "t_end", "q_end", "u_end", "valid")
    for a, b in zip(
        *(jax.tree.leaves([getattr(x, n) for n in names]) for x in (together, queued)), strict=True
    ):
        tolerance = 0 if one_loop_works() else 1e-12
        np.testing.assert_allclose(np.asarray(a)[order], b, rtol=0, atol=tolerance)
    steps = np.asarray(together.stats["num_steps"])
    np.testing.assert_array_equal(steps[order], queued.stats["num_steps"])
    assert steps[::7].mean() > 10 * steps[1::7].mean()
    assert np.all(together.result == RESULTS.successful)


@pytest.mark.parametrize("solver", [None, diffrax.Heun()])
def test_steps_are_those_of_diffrax(solver, monkeypatch):
    """Each trajectory tries, accepts and rejects as many steps as under diffrax, and has the same states, also between
    steps. Heun's method, which reuses no slope, is a loop over the stages."""
    q0, u0 = bodies(35)
    options = {"rtol": 1e-6, "atol": 1e-8, "solver": solver}
    if solver is not None:
        monkeypatch.setattr(_step_form, "LONGEST", 0)
        options |= {"rtol": 1e-3, "atol": 1e-4}
    found = turned(q0, u0, **options)
    one = lambda q, u: simulate(FreeRigidBody([1.0, 2.0, 2.5]), q, u, TS, **options)
    wanted = jax.vmap(one)(q0, u0)
    for name in ("num_steps", "num_accepted_steps", "num_rejected_steps"):
        np.testing.assert_array_equal(found.stats[name], wanted.stats[name])
    np.testing.assert_allclose(found.q, wanted.q, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.u, wanted.u, rtol=0, atol=1e-9)


def test_lanes_for_many_and_for_few():
    for size in (1, 30, 127, 128, 512, 1920, 10**6):
        widths = StepForm([], False, 100).widths_for(size)
        assert widths[-1][1] == 0
        assert all(width % 8 == 0 and width % 512 for width, _ in widths)
        assert all(width > fewer for width, fewer in widths)
        assert min(size, 1920) <= widths[0][0] <= 1920 + 8
        for form in (StepForm([], False, 10**4), StepForm([], True, 100)):
            assert form.widths_for(size)[1:] == ()  # a long program is compiled once


@pytest.mark.parametrize("method", [diffrax.Tsit5(), diffrax.Heun()])
def test_a_loop_over_the_stages_has_the_derivatives_of_a_step_written_out(method, monkeypatch):
    """Values between steps and gradients of a damped pendulum on a turning frame, to rounding, with and without reuse of
    the last slope."""
    y0, ts = jnp.asarray(RNG.normal(size=(33, 2))), np.linspace(0.0, 2.0, 5)

    def rate(t, y, given):
        return jnp.stack([y[1], given[1][0] * jnp.sin(y[0] - t) - given[0] * y[1] ** 3])

    def run(damping, most):
        given = [damping, jnp.array([-1.0])]  # arrays of different shapes remain a list
        options = {"in_axes": (0, None), "rtol": 1e-4, "method": method, "max_steps": most}
        return jnp.sum(ensemble.integrate(rate, y0, ts, given, **options) ** 2)

    of = jax.jit(jax.value_and_grad(run), static_argnums=1)
    found = [of(0.3, 10_000)]
    monkeypatch.setattr(_step_form, "LONGEST", 0)
    found.append(of(0.3, 10_001))
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(*found, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_states_are_those_of_a_much_smaller_tolerance(dtype):
    """Errors are within the tolerance's size, also for states interpolated between steps, and the dtype is kept."""
    q0, u0 = bodies(35)
    given = [x.astype(dtype) for x in (q0, u0)]
    found = turned(*given, rtol=1e-5, atol=1e-6)
    exact = turned(q0, u0, dt=1e-3)
    assert found.u.dtype == dtype
    size = np.abs(u0).max(axis=1)[:, None, None]
    assert np.all(np.abs(found.u - np.asarray(exact.u, dtype)) < 1e-3 * size)
    assert np.max(np.abs(found.u - np.asarray(exact.u, dtype))) > 1e-8
    assert np.all(np.asarray(found.stats["num_steps"])[1:7] < len(TS) * 4)


def test_ends_that_are_no_ends():
    """Trajectories that exceed `max_steps` or overflow get their own result; the others are unaffected."""
    q0, u0 = bodies(35)
    u0[3] *= 1e200
    found = turned(q0, u0, max_steps=20)
    ended = {0: RESULTS.max_steps_reached, 3: RESULTS.nonfinite_state, 5: RESULTS.successful}
    for i, result in ended.items():
        assert (found.result == result)[i]
    assert 0 < found.t_end[0] < TS[-1]
    assert found.stats["num_steps"][0] == 20
    np.testing.assert_array_equal(found.valid[0], found.t_end[0] >= TS)
    np.testing.assert_array_equal(np.isfinite(found.u[0, :, 0]), found.valid[0])
    assert found.t_end[3] == 0.0
    np.testing.assert_array_equal(found.u_end[3], u0[3])


def test_what_lanes_cannot_give_is_left_to_diffrax():
    members = Members.of(FreeRigidBody([1, 2, 3]), *bodies(40), None, (None, 0, 0, None))
    assert takes_adaptive_steps(members, TS, {"rtol": 1e-3, "solver": diffrax.Dopri8()})
    for options in ({"dense": True}, {"solver": diffrax.Kvaerno5()}, {"dt": 0.1}, {"event": len}):
        assert not takes_adaptive_steps(members, TS, options)
    assert not takes_adaptive_steps(members, TS[:1], {})


def test_integrate_by_tolerance():
    """Solutions equal exp(−k t); a trajectory that needs more than `max_steps` ends in NaN with a warning."""
    rates, ts = jnp.append(jnp.linspace(0.5, 1.0, 34), 40.0), jnp.array([0.0, 0.7, 1.0])
    decay = lambda t, y, k: -k * y

    def solved(rates, **options):
        return ensemble.integrate(decay, jnp.ones(1), ts, rates, in_axes=(None, 0), **options)

    options = {"rtol": 1e-9, "atol": 1e-12}
    wanted = np.exp(-np.outer(rates, ts))
    np.testing.assert_allclose(solved(rates, **options)[..., 0], wanted, rtol=1e-7, atol=1e-10)
    with pytest.warns(
        UserWarning, match="1 of 35 trajectories did not reach the last .*`max_steps` = 30"
    ):
        short = solved(rates, rtol=1e-9, atol=1e-12, max_steps=30)
    np.testing.assert_array_equal(np.isfinite(short[:, -1, 0]), rates < 40)


def test_times_take_the_dtype_of_the_state():
    """Times have the dtype of the state and not that of the arguments, since 0.7 is rounded in single precision."""
    y = jnp.ones(3)
    assert ordinary_equation().first((y, jnp.ones(2, jnp.float32), None)) is y


def test_bad_input():
    q0, u0 = bodies(2)
    body, axes = FreeRigidBody([1.0, 2.0, 2.5]), (None, 0, 0, None)
    cases = [
        ({"rtol": -1.0}, ValueError, "`rtol`"),
        ({"dt": 0.1, "rtol": 1e-3}, ValueError, "`dt` is given together"),
        ({"method": "rk4"}, TypeError, "steps by tolerance need"),
        ({"max_steps": 0}, ValueError, "`max_steps` is 0"),
    ]
    for options, kind, match in cases:
        with pytest.raises(kind, match=match):
            ensemble.rollout(body, q0, u0, TS, in_axes=axes, **options)
