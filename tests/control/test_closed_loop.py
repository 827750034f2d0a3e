"""Digital controllers and regulators, against recursions, closed forms and a Riccati integration by SciPy; sensor noise
and error messages."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import simpson, solve_ivp

from jaxhamel import SE2, Euclidean, Feedback, Kinematic, MovingParts, Product, System, simulate
from jaxhamel.control import Held, Sampled, Sensors, closed_loop, loop_multipliers, regulate
from jaxhamel.control._loop._closed_loop import compile_loop
from jaxhamel.control._loop._periods import _in_lanes, _reverse_mode
from jaxhamel.control._loop._periods._noise import normal_numbers
from jaxhamel.ensemble import rollout
from jaxhamel.mechanics import Constant, ZeroMomentum
from jaxhamel.systems import KnifeEdge
from tests.control.cart import Cart
from tests.systems.ball import two_mass_ball

NONE = jnp.zeros(0)
CART = Cart(1.0)  # type: ignore[arg-type]  # a Python float is converted to an array
LINE = Kinematic(CART)  # ẋ = control
UNICYCLE = Kinematic(KnifeEdge(mass=1.0, inertia=1.0, slope=0.0))
PERIOD, SAMPLES = 0.05, 40
Q0, U0 = jnp.array([0.8]), jnp.array([0.3])


class Gains(eqx.Module):
    gains: jax.Array

    def __call__(self, t, q, u):
        return -(self.gains @ jnp.concatenate([q, u]))[None]


class Seen(eqx.Module):
    """A controller that returns its observation as the command."""

    def __call__(self, t, observation):
        return observation


def nothing(system, t, q, u, control):
    """A sensor that measures 0."""
    return jnp.zeros(1)


def recursion(gains, delay, limit, rate, start=0.0):
    """Exact motion of the cart under piecewise constant forces: x' = x + v T + ½ c T², v' = v + c T."""
    x, v, last, commands = float(Q0[0]), float(U0[0]), start, [start] * delay
    rows = [(x, v)]
    for _ in range(SAMPLES):
        wanted = np.clip(-gains[0] * x - gains[1] * v, -limit, limit)
        last = last + np.clip(wanted - last, -rate * PERIOD, rate * PERIOD)
        commands.append(last)
        c = commands[len(rows) - 1]
        x, v = x + v * PERIOD + 0.5 * c * PERIOD**2, v + c * PERIOD
        rows.append((x, v))
    return np.array(rows), np.array(commands[:SAMPLES])


def controller(gains, delay=0, limit=np.inf, rate=np.inf):
    return Sampled(
        Gains(jnp.asarray(gains)), PERIOD, delay=delay, lower=-limit, upper=limit, rate=rate
    )


@pytest.mark.parametrize(("delay", "limit", "rate"), [(0, np.inf, np.inf), (2, 1.5, 9.0)])
def test_cart_under_held_forces(delay, limit, rate):
    """Delay, saturation and rate limit agree with the exact recursion; the result's control is the force that acted. A
    batch gives the same motions as a single loop."""
    gains = np.array([[4.0, 2.0], [2.0, 0.5], [1.0, 3.0]])
    wanted = [recursion(g, delay, limit, rate) for g in gains]
    if delay:  # both limits are met
        assert np.max(np.abs(wanted[0][1])) == limit
        assert np.isclose(np.max(np.abs(np.diff(wanted[0][1]))), rate * PERIOD)
    many = jax.vmap(lambda g: controller(g, delay, limit, rate))(jnp.asarray(gains))
    found = closed_loop(CART, Q0, U0, many, SAMPLES, in_axes=(None, None, None, 0))
    states = jnp.concatenate([found.q, found.u], 2)
    np.testing.assert_allclose(states, [rows for rows, _ in wanted], atol=1e-12)
    alone = closed_loop(CART, Q0, U0, controller(gains[0], delay, limit, rate), SAMPLES)
    np.testing.assert_allclose(jnp.concatenate([alone.q, alone.u], 1), wanted[0][0], atol=1e-12)
    assert bool(alone.succeeded)
    between = alone.ts[:-1] + 0.4 * PERIOD
    np.testing.assert_allclose(jax.vmap(alone.control)(between)[:, 0], wanted[0][1], atol=1e-12)


def test_an_unstable_loop_says_so():
    """The commands of ẋ = 9 x, sampled every 0.05 s, grow by 1.45 per sample: the largest |u| in the first and last
    tenth of 40 samples is 7.2 · 1.45³ and 7.2 · 1.45³⁹."""
    law = Sampled(Gains(jnp.array([-9.0])), PERIOD)
    found = closed_loop(LINE, Q0, NONE, law, SAMPLES)
    commands = 9.0 * 0.8 * 1.45 ** np.arange(SAMPLES)
    first, last = found.stats["largest_first"], found.stats["largest_last"]
    np.testing.assert_allclose([first, last], commands[[3, -1]], rtol=1e-12)
    assert "grows more than 100 times" in str(found)
    start = jnp.stack([Q0, 0.0 * Q0])
    many = closed_loop(LINE, start, NONE, law, SAMPLES, in_axes=(None, 0, None, None))
    assert "in 1 of them |u| grows" in str(many)
    held = closed_loop(CART, Q0, U0, controller([4.0, 2.0]), SAMPLES)
    assert "largest |u|" in str(held)
    assert "grows" not in str(held)


class Later(eqx.Module):
    """A unit force from t = 0.8 s on."""

    def __call__(self, t, q, u):
        return jnp.where(t > 0.4 * SAMPLES * PERIOD, 1.0, 0.0)[None]


def test_a_start_at_rest_is_no_growth():
    """A cart at rest that is pushed later has |u| = 0 in the first tenth; the growth of |u| after that is not reported
    as instability."""
    found = closed_loop(CART, 0.0 * Q0, 0.0 * U0, Sampled(Later(), PERIOD), SAMPLES)
    assert found.stats["largest_first"] == 0.0
    assert found.stats["largest_last"] > 0.5
    assert "largest |u|" in str(found)
    assert "grows" not in str(found)


def test_gradient_through_the_loop():
    gains, step = np.array([4.0, 2.0]), 1e-6

    def end(gains):
        return closed_loop(CART, Q0, U0, controller(gains, 1, 1.5, 9.0), SAMPLES).q_end[0]

    wanted = [
        (recursion(gains + h, 1, 1.5, 9.0)[0] - recursion(gains - h, 1, 1.5, 9.0)[0])[-1, 0]
        / (2 * step)
        for h in step * np.eye(2)
    ]
    np.testing.assert_allclose(jax.grad(end)(jnp.asarray(gains)), wanted, atol=1e-7)


@pytest.mark.parametrize(("longest", "samples", "steps"), [(0, 20, 5), (60, 21, 2), (10**6, 19, 1)])
def test_gradients_of_an_ensemble(monkeypatch, longest, samples, steps):
    """Derivatives with respect to starts, gains, mass and period agree with central differences of the exact recursion.

    The three cases use the three reverse modes of a period: in a loop over recomputed states, step by step from stored
    states, and in one program of all stages.
    """
    monkeypatch.setattr(_reverse_mode, "LONGEST_PROGRAM", longest)
    gains, starts = np.array([4.1, 2.3]), np.array([0.83, 0.31])

    def end(gains, start, period, mass):
        law = Sampled(Gains(gains), period, delay=1, lower=-1.5, upper=1.5)
        system = eqx.tree_at(lambda cart: cart.mass, CART, mass)
        axes = (None, 0, None, None)
        many = closed_loop(system, start[:, None], U0, law, samples, steps=steps, in_axes=axes)
        return jnp.sum(many.q_end[:, 0] ** 2)

    def exact(gains, start, period, mass):
        total = 0.0
        for x in start:
            v, waiting = float(U0[0]), 0.0
            for _ in range(samples):
                c, waiting = waiting / mass, np.clip(-gains @ [x, v], -1.5, 1.5)
                x, v = x + v * period + 0.5 * c * period**2, v + c * period
            total += x**2
        return total

    point = gains, starts, np.array(PERIOD), np.array(1.2)
    found = jax.jit(jax.grad(end, (0, 1, 2, 3)))(*map(jnp.asarray, point))
    for i, each in enumerate(found):
        for j in np.ndindex(np.shape(point[i])):
            h = np.zeros(np.shape(point[i]))
            h[j] = 1e-6
            ends = [exact(*point[:i], point[i] + s * h, *point[i + 1 :]) for s in (1, -1)]
            assert abs(each[j] - (ends[0] - ends[1]) / 2e-6) < 1e-7


def test_noise_bias_and_resolution(caplog, monkeypatch):
    """With a sensor of zero the commands are the noise: N(bias, σ²), independent in each trajectory, rounded to the
    resolution.

    Splitting the trajectories into blocks does not change the noise.
    """
    monkeypatch.setattr(_in_lanes, "BLOCK", 20)
    law = Sampled(Seen(), PERIOD, sensors=Sensors((nothing,), noise=0.3, bias=0.1))
    key, axes = jax.random.key(3), (None, 0, None, None)
    start = jnp.zeros((63, 1))
    run = lambda law, key: closed_loop(LINE, start, NONE, law, 100, key=key, in_axes=axes)
    seen = np.asarray(run(law, key).given()[1].commands)[..., 0]
    with jax.log_compiles(), caplog.at_level("WARNING"):
        run(law, jax.random.key(4))
    assert not [x for x in caplog.messages if "Compiling" in x]  # nor for the checks
    words = jax.vmap(lambda k: jax.random.bits(jax.random.fold_in(key, k), (2,), jnp.uint32))
    of_all = jax.vmap(jax.vmap(normal_numbers, (0, None, None, None)), (None, 0, None, None))
    xi = of_all(words(jnp.arange(100)), jnp.arange(63, dtype=jnp.uint32), 1, jnp.float64)
    np.testing.assert_allclose(seen, 0.1 + 0.3 * xi[..., 0], atol=1e-14)
    assert abs(seen.mean() - 0.1) < 4 * 0.3 / np.sqrt(seen.size)
    assert abs(seen.std() / 0.3 - 1) < 4 / np.sqrt(2 * seen.size)
    assert np.abs(np.corrcoef(seen[:8])[0, 1:]).max() < 0.5
    np.testing.assert_array_equal(seen, np.asarray(run(law, key).given()[1].commands)[..., 0])
    coarse = eqx.tree_at(lambda x: x.sensors.resolution, law, jnp.array(0.25))
    steps = np.asarray(run(coarse, key).given()[1].commands)[..., 0] / 0.25
    np.testing.assert_allclose(steps, np.round(seen / 0.25), atol=1e-12)


def test_regulator_of_a_line_and_of_a_cart():
    """ẋ = c has the gain K = tanh(T − t). ẍ = c has, for a long horizon, K = (1, √3) and P = ((√3, 1), (1, √3))."""
    ts = jnp.linspace(0.0, 2.0, 81)
    one = {"state_cost": jnp.ones(1), "control_cost": jnp.ones(1)}
    found = regulate(LINE, ts, jnp.zeros((81, 1)), jnp.zeros((81, 0)), jnp.zeros(1), **one)
    np.testing.assert_allclose(found.gains[:, 0, 0], np.tanh(2.0 - np.asarray(ts)), atol=1e-12)
    ts = jnp.linspace(0.0, 24.0, 601)
    found = regulate(
        CART, ts, jnp.zeros((601, 1)), jnp.zeros((601, 1)), jnp.zeros(1),
        state_cost=jnp.ones(2), control_cost=jnp.ones(1),
    )  # fmt: skip
    root = np.sqrt(3.0)
    np.testing.assert_allclose(found.gains[0], [[1.0, root]], atol=1e-9)
    np.testing.assert_allclose(found.values[0], [[root, 1.0], [1.0, root]], atol=1e-9)


def test_a_fast_closed_loop_on_coarse_times():
    """x' = c has P = √(QR) coth(ω (T − t) + a), coth a = S/√(QR). One RK4 step per interval would be unstable here;
    with a large S only the last intervals are subdivided further."""
    Q, R, ts = 1.0, 1e-3, np.linspace(0.0, 4.0, 81)
    root = np.sqrt(Q * R)
    given = jnp.asarray(ts), jnp.zeros((81, 1)), jnp.zeros((81, 0)), jnp.zeros(1)
    for S in (0.1, 1.0):
        costs = {"state_cost": [Q], "control_cost": [R], "final_cost": [S]}
        found = regulate(LINE, *given, **{name: jnp.array(x) for name, x in costs.items()})
        exact = root / np.tanh(np.sqrt(Q / R) * (4.0 - ts) + np.arctanh(root / S))
        np.testing.assert_allclose(found.values[:, 0, 0], exact, rtol=1e-3)
        np.testing.assert_allclose(found.gains[:70, 0, 0], exact[:70] / R, rtol=1e-8)


class Speeds(eqx.Module):
    """Forward speed 1 + 0.3 t and turning rate 0.5 − t of a unicycle."""

    def __call__(self, t):
        return jnp.stack([1.0 + 0.3 * t, 0.5 - t])


def unicycle_regulator(count):
    ts = jnp.linspace(0.0, 2.0, count)
    plan = simulate(UNICYCLE, jnp.array([0.3, 0.0, 1.0]), NONE, ts, Speeds())
    costs = {
        "state_cost": [2.0, 1.0, 3.0],
        "control_cost": [0.5, 0.7],
        "final_cost": [1.0, 2.0, 1.0],
    }
    return regulate(
        UNICYCLE, ts, plan.q, plan.u, Speeds(),
        **{name: jnp.array(x) for name, x in costs.items()},
    ), costs  # fmt: skip


def test_regulator_on_a_group():
    """P(0) agrees with SciPy's solution of the Riccati equation with A and B of a unicycle by hand, and ½ δ·P δ is the
    cost of the closed loop from the deviation δ."""
    found, costs = unicycle_regulator(81)
    Q, R, S = (np.diag(x) for x in costs.values())

    def slope(t, p):
        P, v, w = p.reshape(3, 3), 1.0 + 0.3 * t, 0.5 - t
        A = np.array([[0, 0, 0], [0, 0, w], [v, -w, 0]])
        B = np.array([[0, 1], [1, 0], [0, 0]])
        return -(A.T @ P + P @ A - P @ B @ np.linalg.inv(R) @ B.T @ P + Q).ravel()

    exact = solve_ivp(slope, (2.0, 0.0), S.ravel(), rtol=1e-11, atol=1e-12).y[:, -1].reshape(3, 3)
    np.testing.assert_allclose(found.values[0], exact, rtol=1e-9)

    delta = 1e-3 * np.array([1.0, -2.0, 0.5])
    q0 = UNICYCLE.space.retract(found.q[0], jnp.asarray(delta))
    motion = simulate(UNICYCLE, q0, NONE, found.ts, Feedback(found))
    error = np.asarray(jax.vmap(UNICYCLE.space.local)(found.q, motion.q))
    change = -np.einsum("tij,tj->ti", np.asarray(found.gains), error)
    running = np.einsum("ti,i,ti->t", error, np.diag(Q), error)
    running += np.einsum("ti,i,ti->t", change, np.diag(R), change)
    cost = 0.5 * simpson(running, x=np.asarray(found.ts)) + 0.5 * error[-1] @ S @ error[-1]
    np.testing.assert_allclose(cost, 0.5 * delta @ exact @ delta, rtol=3e-3)


def test_a_regulator_in_a_digital_loop():
    """A unicycle that starts beside the plan returns to it under the sampled regulator and stays away from it under the
    planned control alone."""
    regulator, _ = unicycle_regulator(41)
    law = Sampled(regulator, 0.05, delay=1, start=regulator.control(regulator.ts[0]))
    q0 = regulator.q[0] + jnp.array([0.2, 0.1, -0.1])
    held = closed_loop(UNICYCLE, q0, NONE, law, 40)
    loose = simulate(UNICYCLE, q0, NONE, regulator.ts, Speeds())
    off = [float(jnp.linalg.norm(x.q[-1, 1:] - regulator.q[-1, 1:])) for x in (held, loose)]
    assert off[0] < 0.05 < 0.3 < off[1]


def test_breaking_down_is_an_outcome():
    """One of three gains makes the loop diverge: its rows are NaN from that time on, the other two loops finish."""
    many = jax.vmap(lambda g: controller(g))(jnp.array([[4.0, 2.0], [1e160, 0.0], [1.0, 1.0]]))
    found = closed_loop(CART, Q0, U0, many, SAMPLES, in_axes=(None, None, None, 0))
    assert found.succeeded.tolist() == [True, False, True]
    assert 0 < int(found.valid[1].sum()) < SAMPLES
    assert bool(jnp.isnan(found.q[1, -1, 0]))


def test_compiled_ahead(caplog):
    """After `compile_loop`, running a loop of the package's own classes compiles nothing."""
    turning = Constant(jnp.array([1.0, 0.5]))
    law = eqx.tree_at(lambda law: law.control, unicycle_regulator(41)[0], turning)
    given = UNICYCLE, jnp.zeros(3), NONE, Sampled(law, 0.05), 20
    with jax.log_compiles(), caplog.at_level("WARNING"):
        compile_loop(*given)
        assert "jit(_run_one_loop" in caplog.text
        caplog.clear()
        found = closed_loop(*given)
    assert bool(found.succeeded)
    assert "jit(_run_one_loop" not in caplog.text


class Halved(eqx.Module):
    """A law with a look-up table whose commands are halved until |c| ≤ 1. Lanes do not support the `while_loop`."""

    gains: jax.Array
    in_lanes: ClassVar[bool] = False

    def at(self, t):
        return self

    def __call__(self, t, q, u):
        command = -(self.gains @ jnp.concatenate([q, u]))[None]
        return jax.lax.while_loop(lambda c: jnp.abs(c[0]) > 1.0, lambda c: 0.5 * c, command)


def test_a_law_that_is_not_for_lanes():
    """The law runs under `vmap` while the motion runs in lanes; the result is that of a single loop."""
    law = Sampled(Halved(jnp.array([4.0, 2.0])), PERIOD)
    starts = jnp.array([[0.8], [-0.1]])
    many = closed_loop(CART, starts, U0, law, SAMPLES, in_axes=(None, 0, None, None))
    alone = closed_loop(CART, starts[0], U0, law, SAMPLES)
    np.testing.assert_allclose(many.q[0], alone.q, atol=1e-13)
    assert float(jnp.abs(many.given()[1].commands).max()) <= 1.0


def test_held():
    held = Held(jnp.array(1.0), jnp.array(0.5), jnp.arange(3.0)[:, None])
    assert [float(held(t)[0]) for t in (0.0, 1.0, 1.49, 1.5, 2.2, 9.0)] == [0, 0, 0, 1, 2, 2]


class GrowingForce(Cart):
    """A unit mass whose control acts with a factor that grows: ẍ = (1 + t) c."""

    def force(self, t, q, v, control):
        return (1.0 + t) * control


def test_last_gains_have_the_last_force():
    """The final gain is K(T) = R⁻¹ B(T)ᵀ S with B(T) = (0, 1 + T)."""
    costs = {**COSTS, "final_cost": jnp.array([3.0, 5.0])}
    found = regulate(GrowingForce(jnp.array(1.0)), *PLAN, **costs, steps=8)  # 1: unstable
    np.testing.assert_allclose(found.gains[-1], [[0.0, 10.0]], atol=1e-14)


LAW = Gains(jnp.ones(2))
PLAN = (jnp.linspace(0.0, 1.0, 5), jnp.zeros((5, 1)), jnp.zeros((5, 1)), jnp.zeros(1))
START = (jnp.array([1.0, 0, 0, 0]), jnp.zeros(2))
HELD, MOVED = Sampled(LAW, 0.1), MovingParts(two_mass_ball())
COSTS = {"state_cost": jnp.ones(2), "control_cost": jnp.ones(1)}


class Forgets(eqx.Module):
    """A law whose step gives no memory."""

    def start(self):
        return jnp.zeros(1)

    def step(self, memory, t, q, u):
        return -q - memory


class Car(System):
    """A car with its steering angle φ, q = ((heading, x, y), φ), u = (speed, φ̇): its frame is singular at φ = ±90°."""

    mass: jax.Array
    space = Product(SE2(), Euclidean(1))
    n_constraints = 2
    n_controls = 2

    def frame(self, t, q):
        s, c, o = jnp.sin(q[1][0]), jnp.cos(q[1][0]), jnp.zeros(())
        return jnp.array([[o, o, 1.0, o], [0.5 * c, -s, c, o], [o, 1.0, o, o], [o, o, o, 1.0]])

    def lagrangian(self, t, q, v):
        return 0.5 * (self.mass * (v[1] ** 2 + v[2] ** 2) + 0.3 * v[0] ** 2 + 0.1 * v[3] ** 2)

    def force(self, t, q, v, control):
        return jnp.array([0.0, control[0], 0.0, control[1]])


def regulated_car(angle, mass=2.0):
    """The regulator about a car whose steering turns to this angle [rad] in 4 s; at 90° it cannot move."""
    ts = jnp.linspace(0.0, 4.0, 101)
    u = jnp.broadcast_to(jnp.array([0.1, angle / 4.0]), (101, 2))
    q = jnp.zeros((101, 3)), angle * ts[:, None] / 4.0
    costs = {"state_cost": jnp.ones(6), "control_cost": jnp.ones(2)}
    return regulate(Car(jnp.array(mass)), ts, q, u, jnp.zeros(2), **costs)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: Sampled(lambda t: t, 0.1), TypeError, r"cannot be called with three arguments; .* \(t, q, u\) -> command"),
        (lambda: Sampled(LAW, 0.1, sensors=Sensors((nothing,))), TypeError, r"`law`.*\(t, observation\) -> command"),
        (lambda: Sampled(LAW, 0.0), ValueError, "`period` is 0.*must be positive"),
        (lambda: Sampled(LAW, 0.1, delay=0.5), ValueError, "`delay` is 0.5; it counts sampling periods.*multiple"),
        (lambda: Sampled(LAW, 0.1, lower=1.0, upper=-1.0), ValueError, "`lower` is 1.*`upper` is -1.*Swap"),
        (lambda: Sampled(LAW, 0.1, rate=0.0), ValueError, "`rate` is 0.*must be positive, inf for none"),
        (lambda: Sensors(()), TypeError, "`measurements` is .*one or more callables"),
        (lambda: Sensors((lambda q: q,)), TypeError, r"`measurements\[0\]` is .*\(system, t, q, u, control\)"),
        (lambda: Sensors((nothing,), noise=-1.0), ValueError, "`noise` is -1"),
        (lambda: closed_loop(CART, Q0, U0, LAW, 10), TypeError, r"`controller` is of type Gains;.*Sampled\(law, period\)"),
        (lambda: closed_loop(CART, Q0, U0, Sampled(LAW, 0.1), 0), ValueError, "`samples` is 0"),
        (lambda: closed_loop(CART, Q0, U0, Sampled(lambda t, q, u: jnp.nan * q, 0.1), 10), ValueError,
         r"gives \[nan\] at the initial state"),
        (lambda: closed_loop(CART, Q0, U0, Sampled(lambda t, q, u: q[0], 0.1), 10), ValueError, r"one array \(p,\)"),
        (lambda: closed_loop(CART, Q0, U0, Sampled(LAW, 0.1, upper=jnp.ones(3)), 10), ValueError,
         r"`upper` has shape \(3,\); it must be one number or \(1,\)"),
        (lambda: closed_loop(LINE, Q0, NONE, Sampled(Seen(), 0.1, sensors=Sensors((nothing,), noise=1.0)), 9),
         ValueError, "`key` is missing: the sensors have `noise`"),
        (lambda: simulate(CART, Q0, U0, PLAN[0], Sampled(LAW, 0.1, lower=-1.0, upper=1.0)), TypeError,
         r"`control` is of type Sampled, a digital controller; simulate it by jaxhamel.control.closed_loop"),
        (lambda: closed_loop(two_mass_ball(), START, jnp.zeros(3), HELD, 10), TypeError, "jaxhamel.MovingParts"),
        (lambda: closed_loop(None, Q0, U0, HELD, 9), TypeError, "`system` is None; it must be a jaxhamel.System"),
        (lambda: closed_loop(CART, Q0, {"v": 1.0}, HELD, 9), TypeError, "`u0` is of type dict; it must be one array"),
        (lambda: closed_loop(CART, Q0, U0, HELD, 9, t0=jnp.zeros(2)), ValueError, r"`t0` has shape \(2,\); .* one time"),
        (lambda: closed_loop(CART, Q0, U0, HELD, 2**40), ValueError, "`samples` is 1099511627776; it must be .* from 1 to"),
        (lambda: closed_loop(CART, Q0, U0, HELD, 9, key=3), TypeError, "`key` is 3; it must be one JAX random key"),
        (lambda: closed_loop(CART, Q0, U0, HELD, 9, in_axes=(None, 4, None, None)), ValueError, "axis 4"),
        (lambda: closed_loop(CART, Q0, U0, HELD, 9, route="fast"), ValueError, "`route` is 'fast'; it must be one of"),
        (lambda: closed_loop(CART, Q0, U0, Sampled(lambda t, q, u: None, 0.1), 9), ValueError, "`law` gives None"),
        (lambda: closed_loop(CART, jnp.zeros((0, 1)), jnp.zeros((0, 1)), HELD, 9, in_axes=(None, 0, 0, None)), ValueError,
         "zero trajectories"),
        (lambda: closed_loop(CART, Q0, U0, HELD, 9, t0=1e17), ValueError, "`period` is 0.1 and `t0` is 1.*not different"),
        (lambda: closed_loop(CART, Q0, U0, Sampled(LAW, 1e308), 9), ValueError, "up to k = 9 are not different finite"),
        (lambda: regulate(CART, PLAN[0], jnp.nan * PLAN[1], *PLAN[2:], **COSTS), ValueError, r"`q` is \[\[nan\]"),
        (lambda: regulate(CART, PLAN[0], *(x.astype(jnp.float32) for x in PLAN[1:3]), PLAN[3], **COSTS), TypeError,
         "`control` gives float64 where the plan is float32"),
        (lambda: Sampled(LAW, 0.1, delay=10**9), ValueError, "`delay` is 1000000000; .* from 0 to 10000"),
        (lambda: Sampled(LAW, 0.1, start=jnp.nan), ValueError, "`start` is nan"),
        (lambda: Sampled(LAW, 0.1, lower=jnp.zeros((2, 2))), ValueError, r"`lower` has shape \(2, 2\); it"),
        (lambda: Sampled(LAW, 0.1, sensors="gyroscope"), TypeError, "`sensors` is of type str; it must be a .*Sensors"),
        (lambda: closed_loop(CART, Q0, U0, Sampled(Seen(), 0.1, sensors=Sensors((lambda *a: "left",))), 9), ValueError,
         r"`measurements\[0\]` gives 'left'; it must give one real number or a vector"),
        (lambda: closed_loop(CART, Q0, U0, Sampled(Seen(), 0.1, sensors=Sensors((nothing,), bias=jnp.ones(3))), 9),
         ValueError,
         r"`bias` of the sensors has shape \(3,\); it must be one number or \(1,\)"),
        (lambda: closed_loop(CART, Q0, U0, Sampled(Forgets(), 0.1), 9), TypeError, "`law.step` returns one value; .*pair"),
        (lambda: loop_multipliers(CART, U0, U0, Sampled(Forgets(), 0.1)), TypeError, "`law.step` returns one value; .*pair"),
        (lambda: loop_multipliers(CART, U0, U0, Sampled(lambda t, q, u: -q[0], 0.1)), ValueError, r"one array \(p,\)"),
        (lambda: loop_multipliers(CART, U0, U0, Sampled(LAW, 0.1, upper=jnp.ones(3))), ValueError, "`upper` has shape"),
        (lambda: regulate(CART, *PLAN[:3], Feedback(LAW), **COSTS), TypeError, "`control` is a Feedback; a regulator"),
        (lambda: Held(jnp.array(0.0), jnp.array(0.0), jnp.zeros((3, 1))), ValueError, "`period` is 0.*must be positive"),
        (lambda: Held(jnp.array(0.0), jnp.array(1.0), jnp.zeros((0, 1))), ValueError, "`commands` has no row"),
        (lambda: regulate("cart", *PLAN, **COSTS), TypeError, "`system` is of type str; it must be a jaxhamel.System"),
        (lambda: regulate(CART, *PLAN[:3], lambda t: "left", **COSTS), TypeError, "`control` gives 'left'; its values must"),
        (lambda: regulate(CART, *PLAN[:3], lambda t: t if t > 0 else -t, **COSTS), TypeError, "`control` decides by"),
        (lambda: regulate(CART, *PLAN, state_cost="large", control_cost=jnp.ones(1)), TypeError,
         "`state_cost` is of type str"),
        (lambda: MOVED.state(START, jnp.zeros(3), jnp.zeros(3), jnp.zeros(2)), ValueError,
         r"`theta` has shape \(3,\); it must have shape \(2,\). One entry for each part"),
        (lambda: MOVED.state(START, jnp.zeros(2), jnp.zeros(2), jnp.zeros(2)), ValueError, r"`u` has shape \(2,\); it must"),
        (lambda: ZeroMomentum("satellite"), TypeError, "`base` is of type str; it must be a jaxhamel.System"),
        (lambda: regulate(CART, *PLAN, state_cost=1e9 * jnp.ones(2), control_cost=1e-3 * jnp.ones(1)), ValueError,
         "gains are not finite: with `steps` = 8 .*for example 16"),
        (lambda: regulated_car(1.7), ValueError, r"The frame of Car is singular on the plan, near t = 3\.7 s: its det"),
        (lambda: regulated_car(2.5), ValueError, r"The frame of Car is singular on the plan, near t = 2\.52 s"),
        (lambda: regulated_car(1.5, jnp.inf), ValueError, r"linearised equations .* not finite at t = 0 s of the plan"),
        (lambda: regulate(CART, *PLAN, state_cost=jnp.ones(3), control_cost=jnp.ones(1)), ValueError,
         r"`state_cost` has shape \(3,\); it must be \(2,\), a diagonal, or \(2, 2\)"),
        (lambda: regulate(CART, *PLAN, state_cost=-jnp.ones(2), control_cost=jnp.ones(1)), ValueError,
         "`state_cost` has the eigenvalue -1; all must be zero or more"),
        (lambda: regulate(CART, *PLAN, state_cost=jnp.ones(2), control_cost=jnp.zeros(1)), ValueError,
         "`control_cost` has the eigenvalue 0; all must be positive"),
        (lambda: regulate(CART, jnp.array([0.0, 0.1, 0.3, 0.4, 0.5]), *PLAN[1:], **COSTS), ValueError,
         "`ts` has steps from 0.1 to 0.2 s; they must be equal"),
        (lambda: regulate(CART, *PLAN[:3], None, **COSTS), ValueError, "`control` is missing: a regulator"),
        (lambda: regulate(CART, PLAN[0], PLAN[1][:3], *PLAN[2:], **COSTS), ValueError,
         r"`q` has shapes \(3, 1\).*\(5, 1\)"),
    ],
)  # fmt: skip
def test_messages(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_jit_and_values():
    """Changing gains does not compile the loop again."""
    traced = []

    @jax.jit
    def end(gains, period):
        traced.append(0)
        law = Sampled(Gains(gains), period)
        return closed_loop(CART, Q0, U0, law, SAMPLES).q_end

    for gains in ([4.0, 2.0], [2.0, 0.5]):
        exact = recursion(np.array(gains), 0, np.inf, np.inf)[0][-1, :1]
        np.testing.assert_allclose(end(jnp.array(gains), jnp.array(PERIOD)), exact, atol=1e-12)
    assert len(traced) == 1


def test_a_regulator_in_an_ensemble():
    """A regulator in lanes raises no warning; it gives each member the motion of a single simulation and the gradient
    of central differences."""
    ts = jnp.linspace(0.0, 2.0, 601)
    law = regulate(
        CART, ts, jnp.sin(ts)[:, None], jnp.cos(ts)[:, None], lambda t: -jnp.sin(t)[None], **COSTS
    )
    starts = jnp.array([[0.3], [-0.1], [0.0]])
    axes, until = (None, 0, None, None), jnp.array([0.0, 0.5, 1.9])
    q, _ = rollout(CART, starts, U0, until, Feedback(law), dt=0.01, in_axes=axes)
    alone = simulate(CART, starts[1], U0, until, Feedback(law), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(q[1], alone.q, atol=1e-7)
    end = lambda q0: rollout(CART, q0, U0, until, Feedback(law), dt=0.01, in_axes=axes)[0][:, -1, 0]
    step = 1e-6 * jnp.ones((3, 1))
    slope = (end(starts + step) - end(starts - step)) / 2e-6
    np.testing.assert_allclose(
        jax.grad(lambda q0: jnp.sum(end(q0)))(starts)[:, 0], slope, atol=1e-7
    )


def test_moving_parts_with_masses_of_each_member():
    """If each member has its own masses, the space of the moving parts still has one angle per mass."""
    ball = two_mass_ball()
    masses = jnp.stack([ball.masses, 1.3 * ball.masses])
    system = eqx.tree_at(lambda s: s.system.masses, MOVED, masses)
    none = jax.tree.map(lambda x: None, MOVED)
    axes = eqx.tree_at(lambda s: s.system.masses, none, 0, is_leaf=lambda x: x is None)
    start = MOVED.state(START, jnp.zeros(3), jnp.zeros(2), jnp.ones(2))
    ts, control = jnp.array([0.0, 0.2]), jnp.array([1.0, -1.0])
    found = rollout(system, *start, ts, control, dt=0.02, in_axes=(axes, None, None, None))
    one = eqx.tree_at(lambda s: s.system.masses, MOVED, masses[1])
    alone = simulate(one, *start, ts, control, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(found[1][1], alone.u, atol=1e-6)


class Table(eqx.Module):
    """A law that is looked up once per period for all trajectories. Only `at` gives the commands; `__call__` returns 0."""

    def at(self, t):
        return Gains(jnp.array([4.0, 2.0]))

    def __call__(self, t, q, u):
        return jnp.zeros(1)


def test_a_table_is_looked_up_once_where_other_numbers_of_the_controller_differ():
    """With a limit of its own, each trajectory follows the exact recursion of the law that `at` returns."""
    limits = jnp.array([1.5, 0.5])
    loops = jax.vmap(lambda x: Sampled(Table(), PERIOD, lower=-x, upper=x))(limits)
    found = closed_loop(CART, Q0, U0, loops, SAMPLES, in_axes=(None, None, None, 0))
    wanted = [recursion((4.0, 2.0), 0, x, np.inf)[0] for x in np.asarray(limits)]
    np.testing.assert_allclose(jnp.concatenate([found.q, found.u], 2), wanted, atol=1e-12)


class Growing(eqx.Module):
    """A table whose gains grow with time."""

    def at(self, t):
        return Gains(jnp.stack([4.0 + t, 2.0 + t]))

    def __call__(self, t, q, u):
        return self.at(t)(t, q, u)


def test_a_table_where_periods_differ():
    """With periods that differ, each trajectory looks its gains up at its own times, as it does alone."""
    periods = jnp.array([PERIOD, 0.5 * PERIOD])
    loops = jax.vmap(lambda x: Sampled(Growing(), x))(periods)
    found = closed_loop(CART, Q0, U0, loops, SAMPLES, in_axes=(None, None, None, 0))
    for k, period in enumerate(periods):
        alone = closed_loop(CART, Q0, U0, Sampled(Growing(), period), SAMPLES)
        np.testing.assert_allclose(found.q[k], alone.q, atol=1e-13)
