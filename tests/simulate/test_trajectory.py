"""`simulate`: accuracy at the output times, compilations, endings of simulations, printed summaries."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ellipk

from jaxhamel.simulate import RESULTS, LieGroup, Projected, simulate
from jaxhamel.simulate._simulate import most_steps
from tests.simulate.small_systems import Body, Pendulum, Rolling, Runaway, Sines

PENDULUM = Pendulum(jnp.asarray(2.0))
TS = np.array([0.0, 0.3, 1.0, 1.01, 2.0])


def reference(a, ts):
    """Solution by SciPy's DOP853 of the equation written by hand."""

    def field(t, y):
        control = sum(ak * np.sin((k + 1) * t) for k, ak in enumerate(a))
        return [y[1], -2.0 * np.sin(y[0]) + control]

    return solve_ivp(field, (ts[0], ts[-1]), [0.5, 0.1], "DOP853", ts, rtol=1e-13, atol=1e-14).y


def run(a=(0.3, -0.2), ts=TS, **options):
    return simulate(PENDULUM, [0.5], [0.1], ts, Sines(jnp.asarray(a)), **options)


def test_adaptive_and_fixed_steps_reach_the_reference():
    expected = reference((0.3, -0.2), TS)
    for options, bound in [
        ({}, 1e-8),
        ({"dt": 0.02}, 1e-10),
        ({"rtol": 1e-12, "atol": 1e-13}, 1e-11),
    ]:
        path = run(**options)
        assert path.result == RESULTS.successful
        assert path.result == diffrax.RESULTS.successful
        assert bool(path.succeeded)
        assert path.valid.all()
        np.testing.assert_array_equal(path.ts, TS)
        np.testing.assert_allclose(path.q[:, 0], expected[0], rtol=0, atol=bound)
        np.testing.assert_allclose(path.u[:, 0], expected[1], rtol=0, atol=bound)
        np.testing.assert_array_equal(path.q_end, path.q[-1])


def test_fixed_steps_have_the_order_of_the_method_at_every_time():
    """The order holds also at times that are no multiples of dt, where diffrax would interpolate."""
    expected = reference((0.3, -0.2), TS)[0]
    errors = [np.abs(run(dt=dt).q[:, 0] - expected)[[1, 3]] for dt in (0.1, 0.05)]
    slopes = np.log2(errors[0] / errors[1])
    assert np.all(slopes > 4.4)


def test_number_of_fixed_steps():
    assert int(run(dt=0.1).stats["num_steps"]) == 3 + 7 + 1 + 10
    tenths = np.linspace(0.0, 1.0, 11)  # 0.1 / 0.02 is rounded to both sides of 5
    for first in (0, 4, 6):
        assert int(run(ts=tenths[first : first + 5], dt=0.02).stats["num_steps"]) == 20
    assert int(run(ts=[0.0, 1.0, 2.0, 3.0, 4.0], dt=5.0).stats["num_steps"]) == 4


def test_other_values_compile_nothing_again():
    """Other parameters (also a Python float), states, times, tolerances and steps cause no new trace of the right-hand
    side."""
    traces = []

    class Counted(Pendulum):
        def lagrangian(self, t, q, v):
            traces.append(None)
            return super().lagrangian(t, q, v)

    def go(k, q, a, ts, **options):
        simulate(Counted(k), [q], [0.1], ts, Sines(jnp.asarray(a)), **options)
        return len(traces)

    first = go(2.0, 0.5, [0.3, 0.1], [0.0, 1.0, 2.0])
    assert go(3.0, 0.4, [0.2, 0.1], [0.5, 0.6, 7.0]) == first
    by_tolerance = go(3.0, 0.4, [0.2, 0.1], [0.5, 0.6, 7.0], rtol=1e-4, atol=1e-4)
    assert by_tolerance == first
    with_step = go(3.0, 0.4, [0.2, 0.1], [0.5, 0.6, 7.0], dt=0.01)
    assert go(1.0, 0.1, [0.2, 0.3], [0.0, 0.2, 0.4], dt=0.003) == with_step


def test_group_solvers_are_chosen_and_given_ones_kept():
    body = Body(jnp.array([1.0, 2.0, 2.5]))
    q0, u0, ts = [1.0, 0.0, 0.0, 0.0], [0.3, 1.0, 0.2], [0.0, 1.0, 10.0]
    wrapped = simulate(body, q0, u0, ts, solver=diffrax.Dopri8())
    np.testing.assert_allclose(jnp.linalg.norm(wrapped.q, axis=1), 1.0, atol=4e-16)
    given = simulate(body, q0, u0, ts, solver=Projected(diffrax.Dopri8(), body.space))
    np.testing.assert_array_equal(given.q, wrapped.q)
    other = simulate(body, q0, u0, ts, solver=LieGroup(diffrax.Dopri8(), body.space))
    assert np.max(np.abs(other.q - wrapped.q)) > 0
    np.testing.assert_allclose(other.q, wrapped.q, atol=1e-9)
    np.testing.assert_allclose(wrapped.q[-1], end_of_body(q0, u0, ts), atol=1e-8)


def end_of_body(q0, u0, ts):
    """The quaternion at the end by SciPy's DOP853: q̇ = ½ q (0, Ω), I Ω̇ = (I Ω) × Ω."""
    inertia = np.array([1.0, 2.0, 2.5])

    def field(t, y):
        w, r, omega = y[0], y[1:4], y[4:]
        rate = [-(r @ omega), *(w * omega + np.cross(r, omega))]
        return np.concatenate([np.array(rate) / 2, np.cross(inertia * omega, omega) / inertia])

    y0, span = [*q0, *u0], (ts[0], ts[-1])
    return solve_ivp(field, span, y0, "DOP853", rtol=1e-12, atol=1e-13).y[:4, -1]


def test_dense_output():
    path = run(dense=True)
    q, u = path.evaluate(0.777)
    expected = reference((0.3, -0.2), np.array([0.0, 0.777]))[:, -1]
    np.testing.assert_allclose([q[0], u[0]], expected, atol=1e-7)
    with pytest.raises(ValueError, match=r"call simulate\(..., dense=True\)"):
        run().evaluate(0.5)


def test_one_time_only():
    path = run(ts=[0.7])
    np.testing.assert_array_equal(path.q, [[0.5]])
    np.testing.assert_array_equal(run(ts=[0.7], dt=0.1).u, [[0.1]])
    assert bool(path.succeeded)


def test_event_ends_the_simulation_and_its_time_is_differentiable():
    def crossing(k):
        path = simulate(
            Pendulum(k), [0.5], [0.0], [0.0, 0.5, 9.0], event=lambda t, q, u: q[0], rtol=1e-10
        )
        return path.t_end, path

    (t, path), slope = jax.value_and_grad(crossing, has_aux=True)(jnp.asarray(2.0))
    quarter = ellipk(np.sin(0.25) ** 2) / np.sqrt(2.0)
    np.testing.assert_allclose(t, quarter, rtol=1e-7)
    assert path.result == RESULTS.event_occurred
    assert bool(path.succeeded)
    np.testing.assert_array_equal(path.valid, [True, True, False])
    assert np.isnan(path.q[2, 0])
    assert abs(float(path.q_end[0])) < 1e-12
    assert "event at t = 1.1" in str(path)
    np.testing.assert_allclose(slope, -0.5 * quarter / 2.0, rtol=1e-5)  # t ∝ k^(−1/2)


def test_vmap_and_jit_over_trajectories():
    path = jax.vmap(
        lambda k: simulate(Pendulum(k), jnp.array([0.5]), jnp.array([0.1]), TS, lambda t: 0.0 * t)
    )(jnp.array([1.0, 2.0]))
    assert path.q.shape == (2, 5, 1)
    assert "2 trajectories of Pendulum" in str(path)
    assert path.raise_if_failed() is path
    jax.jit(lambda: print(run().raise_if_failed()))()  # printing tracers does no harm


def test_integers_and_single_precision():
    ts = [0, 1, 2, 3, 4]
    path = simulate(PENDULUM, [1], [0], ts)
    assert path.q.dtype == jnp.float64
    single = Pendulum(jnp.asarray(2.0, jnp.float32))
    path = simulate(single, jnp.ones(1, jnp.float32), jnp.zeros(1, jnp.float32), ts)
    assert path.q.dtype == path.ts.dtype == jnp.float32
    double = simulate(PENDULUM, [1], [0], ts)
    np.testing.assert_allclose(path.q, double.q, atol=1e-4)
    assert bool(path.succeeded)


# How simulations break down


def test_finite_time_blow_up_adaptive():
    """q = 1/(1 − t) ends with too small steps near t = 1."""
    path = simulate(Runaway(), [1.0], [1.0], [0.0, 0.5, 0.9, 2.0])
    assert path.result == RESULTS.step_too_small
    assert 0.99 < float(path.t_end) < 1.000001
    np.testing.assert_allclose(path.q[:3, 0], [1.0, 2.0, 10.0], rtol=1e-6)
    assert np.isnan(path.q[3, 0])
    np.testing.assert_array_equal(path.valid, [True, True, True, False])
    assert not bool(path.succeeded)
    assert np.isfinite(path.q_end).all()
    with pytest.raises(
        RuntimeError,
        match=r"the simulation of Runaway stopped at t = (0.99\d*|1): The steps needed became",
    ):
        path.raise_if_failed()


def test_finite_time_blow_up_with_a_fixed_step():
    path = simulate(Runaway(), [1.0], [1.0], [0.0, 0.5, 2.0], dt=0.01)
    assert path.result == RESULTS.nonfinite_state
    assert 1.0 < float(path.t_end) < 1.2
    assert np.isfinite(path.q_end).all()
    assert "NaN or infinite" in str(path)
    assert "try a smaller `dt`" in str(path)


class _Hole(eqx.Module):
    start: jax.Array

    def __call__(self, t):
        return jnp.where((t > self.start) & (t < self.start + 1.0), jnp.nan, 0.1)


@pytest.mark.parametrize(("options", "slack"), [({}, 1e-6), ({"dt": 0.01}, 0.011)])
def test_control_that_becomes_nan_between_the_times(options, slack):
    path = simulate(PENDULUM, [0.5], [0.1], [0.0, 1.0, 4.0], _Hole(jnp.asarray(1.5)), **options)
    assert path.result == RESULTS.nonfinite_state
    assert 1.5 - slack <= float(path.t_end) <= 1.5 + 1e-9
    np.testing.assert_array_equal(path.valid, [True, True, False])
    assert int(path.stats["num_steps"]) < 400


def test_too_few_steps():
    path = run(max_steps=3)
    assert path.result == RESULTS.max_steps_reached
    assert path.result == diffrax.RESULTS.max_steps_reached
    assert "Raise `max_steps`" in str(path)
    assert 0.0 < float(path.t_end) < 2.0


def test_raise_if_failed_inside_jit():
    with pytest.raises(RuntimeError, match="maximum number of solver steps"):
        jax.jit(lambda: run(max_steps=3).raise_if_failed().ts)()


# What is printed


def test_summary():
    text = str(simulate(PENDULUM, [0.5], [0.1], TS))
    assert text.startswith("Trajectory of Pendulum")
    for line in ("time [s]", "5 times", "accepted", "reached the end", "drift of energy"):
        assert line in text
    drift = float(text.split("drift of energy")[1].split()[0])
    assert 0.0 <= drift < 1e-8
    text = str(simulate(Rolling(jnp.asarray(1.0)), [0.0, 0.0, 0.0], [0.5, 1.0], TS))
    assert float(text.split("constraint residual")[1].split()[0]) < 1e-14
    assert float(text.split("distance from group")[1].split()[0]) < 1e-14


def test_progress_line_shows_the_time_left(capfd):
    jax.block_until_ready(run(dt=0.001, progress=True).q)
    jax.effects_barrier()
    said = capfd.readouterr().err
    assert "% " in said
    assert "s left" in said
    run(dt=0.001)
    jax.effects_barrier()
    assert capfd.readouterr().err == ""


def test_most_steps():
    """Dense output stores the stages of its steps, so fewer are allowed; fixed steps are counted and rounded up to a
    power of two."""
    ts = np.array([0.0, 1.0])
    assert most_steps(7, ts, None, True) == 7
    assert most_steps(None, ts, None, False) == 2**16
    assert most_steps(None, ts, None, True) == 2**12
    assert most_steps(None, ts, 1e-4, True) == 2**14
