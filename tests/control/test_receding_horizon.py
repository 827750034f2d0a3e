"""Receding horizons against Riccati's equation and bounded least squares; counted outcomes, deadlines on the clock,
error messages; laws with memory."""

import threading
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_are
from scipy.optimize import LinearConstraint, lsq_linear, minimize

from jaxhamel import control
from jaxhamel.control import OnTime, PathLimit, RecedingHorizon, Sampled, closed_loop
from jaxhamel.control._loop._moving_plan import plan_later, violation
from tests.control.cart import Cart

PERIOD, INTERVALS, SAMPLES = 0.1, 16, 16
LIMIT, SLOWEST, R, LATE = 0.5, -0.25, 0.2, 7
START = np.array([0.8, 0.3])
# the cart under a constant force over a period; at the middle of the period the midpoint rule evaluates the cost
A, B = np.array([[1.0, PERIOD], [0.0, 1.0]]), np.array([[0.5 * PERIOD**2], [PERIOD]])
MIDDLE = 0.5 * (np.eye(2) + A), 0.5 * B


def riccati():
    """Cost matrix P and gain K of the regulator with an infinite horizon."""
    C, D = MIDDLE
    cost = PERIOD * C.T @ C, PERIOD * (D.T @ D + R * np.eye(1)), PERIOD * C.T @ D
    P = solve_discrete_are(A, B, *cost[:2], s=cost[2])
    return P, np.linalg.solve(cost[1] + B.T @ P @ B, B.T @ P @ A + cost[2].T)


def bounded_commands(state):
    """All commands of a horizon from a given state by bounded least squares, with the final cost matrix P."""
    C, D = MIDDLE
    by_commands, rows, right = np.zeros((2, INTERVALS)), [], []
    for k in range(INTERVALS):
        command = np.eye(INTERVALS)[k : k + 1]
        rows += [np.sqrt(PERIOD) * (C @ by_commands + D @ command), np.sqrt(PERIOD * R) * command]
        right += [-np.sqrt(PERIOD) * C @ state, np.zeros(1)]
        state, by_commands = A @ state, A @ by_commands + B @ command
    root = np.linalg.cholesky(riccati()[0]).T
    rows.append(root @ by_commands)
    right.append(-root @ state)
    found = lsq_linear(np.concatenate(rows), np.concatenate(right), (-LIMIT, LIMIT), tol=1e-13)
    return found.x


def problem(*constraints):
    P = riccati()[0]
    state = lambda q, u: jnp.concatenate([q, u])
    costs = (
        control.Running(lambda t, q, u, c: state(q, u)),
        control.ControlEnergy(R),
        control.FinalCost(lambda t, q, u, c: 0.5 * state(q, u) @ (P @ state(q, u))),
    )
    zero = jnp.zeros(1)
    ts = np.linspace(0.0, INTERVALS * PERIOD, 2)
    return control.ControlProblem(
        Cart(jnp.array(1.0)), zero, zero, ts, lambda t: jnp.zeros(1), costs, constraints
    )


def of_cost(of_state):
    return eqx.tree_at(lambda x: x.costs, problem(), (control.Running(of_state),))


def test_numbers_of_costs_and_limits_take_the_dtype_of_the_state():
    """Their weights are Python numbers, so float64 here; a problem in single precision is not promoted."""
    costs = (control.Running(lambda t, q, u, c: 3.0 * q, 4.0), control.ControlEnergy(R))
    zero = jnp.zeros(1, jnp.float32)
    ts = np.linspace(0.0, 1.0, 2)
    cart = Cart(jnp.ones((), jnp.float32))
    found = control.ControlProblem(cart, zero, zero, ts, lambda t: zero, costs, (FORCE,))
    numbers = jax.tree.leaves(eqx.filter((found.costs, found.constraints), eqx.is_array))
    assert {x.dtype for x in numbers} == {zero.dtype}
    residual = found.costs[0].running(cart, found.ts[0], zero + 1, zero, lambda t: zero)
    np.testing.assert_array_equal(residual, jnp.array([6.0], jnp.float32), strict=True)


FORCE = PathLimit(lambda t, q, u, c: c(t), -LIMIT, LIMIT, name="force")
SPEED = PathLimit(lambda t, q, u, c: u, SLOWEST, name="speed")


@pytest.fixture(scope="module")
def found():
    """Five loops in one program: no limits; a force limit; the same with a cart 30 % heavier than the model; the same
    with all plans rejected; limits of force and speed. The plan for the sample at 0.7 s is late in all of them."""
    law = RecedingHorizon(
        problem(FORCE, SPEED), PERIOD, intervals=INTERVALS, degree=1, iterations=12, barrier=1e-9,
        late=lambda t: jnp.abs(t - LATE * PERIOD) < 0.01,
    )  # fmt: skip
    free = jnp.array([[1e9, 1e9], [1.0, 1e9], [1.0, 1e9], [1.0, 1e9], [1.0, 1.0]])[:, None, None]
    where = lambda law: (law.transcription.lower, law.transcription.upper, law.acceptable)
    lower, upper, acceptable = where(law)
    values = free * lower[None], free * upper[None], jnp.array([1.0, 1.0, 1.0, 1e-30, 1.0])
    assert acceptable.shape == ()
    law = eqx.tree_at(where, law, values)
    digital = Sampled(law, PERIOD)
    axes = jax.tree.map(lambda x: None, digital)
    axes = eqx.tree_at(lambda c: where(c.law), axes, (0, 0, 0), is_leaf=lambda x: x is None)
    carts = Cart(jnp.array([1.0, 1.0, 1.3, 1.0, 1.0]))
    return closed_loop(carts, START[:1], START[1:], digital, SAMPLES, in_axes=(0, None, None, axes))


def test_without_limits_it_is_the_linear_quadratic_regulator(found):
    """The commands are −K x with Riccati's gain. A late plan changes nothing, since the previous plan continues
    optimally."""
    _, K = riccati()
    state, wanted = START, []
    for _ in range(SAMPLES):
        wanted.append(-K @ state)
        state = A @ state + B @ wanted[-1]
    np.testing.assert_allclose(found.control.commands[0], wanted, atol=1e-9)
    np.testing.assert_allclose(np.append(found.q[0, -1], found.u[0, -1]), state, atol=1e-9)


def test_limits_are_kept(found):
    """The commands are those of bounded least squares from each state, also for a cart heavier than the model."""
    commands = np.asarray(found.control.commands)[..., 0]
    wanted = bounded_commands(START)
    assert np.sum(np.abs(wanted) > 0.999 * LIMIT) > 3  # the limit is active in several periods
    np.testing.assert_allclose(commands[1], wanted, atol=1e-5)
    assert np.abs(commands[1:3]).max() < LIMIT
    state, plan = START, wanted
    for k in range(SAMPLES):
        plan = bounded_commands(state) if k != LATE else plan[1:]
        np.testing.assert_allclose(commands[2, k], plan[0], atol=1e-4)
        state = A @ state + B[:, 0] * commands[2, k] / 1.3
        np.testing.assert_allclose([found.q[2, k + 1, 0], found.u[2, k + 1, 0]], state, atol=1e-12)


def planned(state):
    """Commands of a horizon by SciPy, with bounds on the force and on the speed at the middle of each period."""
    C, D = MIDDLE
    by_commands, rows = np.zeros((2, INTERVALS)), []
    for command in np.eye(INTERVALS)[:, None]:
        rows.append((C @ state, C @ by_commands + D @ command))
        state, by_commands = A @ state, A @ by_commands + B @ command
    start, slopes = (np.array(x) for x in zip(*rows, strict=True))
    P = riccati()[0]
    H = PERIOD * (np.einsum("kij,kil->jl", slopes, slopes) + R * np.eye(INTERVALS))
    H += by_commands.T @ P @ by_commands
    g = PERIOD * np.einsum("kij,ki->j", slopes, start) + by_commands.T @ P @ state
    speed = LinearConstraint(slopes[:, 1], SLOWEST - start[:, 1])
    given = {"jac": lambda c: H @ c + g, "bounds": [(-LIMIT, LIMIT)] * INTERVALS}
    options = {"method": "SLSQP", "options": {"ftol": 1e-14, "maxiter": 200}}
    cost = lambda c: 0.5 * c @ H @ c + g @ c
    return minimize(cost, np.zeros(INTERVALS), constraints=speed, **given, **options).x


def test_limits_of_force_and_speed_bind_on_the_way(found):
    """Both limits become active and hold; the commands are those of SciPy's quadratic program from every third state."""
    commands = np.asarray(found.control.commands)[4, :, 0]
    states = np.concatenate([found.q, found.u], 2)[4]
    middle = 0.5 * (states[1:, 1] + states[:-1, 1])
    assert np.sum(commands < 1e-4 - LIMIT) > 3
    assert np.sum(middle < SLOWEST + 1e-4) > 3
    assert np.min(middle) > SLOWEST - 1e-6
    for k in range(0, SAMPLES, 3):
        np.testing.assert_allclose(commands[k], planned(states[k])[0], atol=1e-3)


def test_what_went_wrong_is_counted(found):
    memory = found.control.memory
    assert memory.samples.tolist() == [SAMPLES] * 5
    assert memory.missed.tolist() == [1] * 5
    assert memory.failed.tolist() == [0, 0, 0, SAMPLES - 1, 0]
    assert bool(jnp.all(memory.violation[jnp.array([0, 1, 2, 4])] < 1e-7))


@pytest.mark.parametrize("intervals", [0.4, 1.0, 2.3])
def test_a_shifted_plan_goes_on_at_its_end(intervals):
    """A cart at a constant speed: the plan shifted in time, with the part beyond its old end, satisfies all equations."""
    law, speed = RecedingHorizon(problem(), PERIOD, intervals=4, degree=2), 0.7
    of, h = law.transcription, law.transcription.duration / 4
    x = jnp.stack([jnp.zeros(5), jnp.full(5, speed)], axis=1)
    inside = speed * h * of.constants("points")[None] + jnp.zeros((4, 1))
    X = jnp.stack([inside, jnp.full((4, 2), speed)], axis=2)
    w = law.first._replace(q=speed * h * jnp.arange(5.0)[:, None], x=x, X=X)
    later, _ = plan_later(of, w, law.start().search.duals, jnp.asarray(intervals))
    assert violation(of, w) < 1e-12
    assert violation(of, later) < 1e-12
    np.testing.assert_allclose(later.q[:, 0], speed * h * (jnp.arange(5.0) + intervals), atol=1e-12)


class Hardening(Cart):
    """A cart on a spring with the force −q³."""

    def force(self, t, q, v, control):
        return control - q**3


def test_a_plan_that_is_not_acceptable_is_improved_further():
    """On a nonlinear spring one iteration leaves an error of second order; with further iterations all plans are used."""
    spring, start = Hardening(jnp.array(1.0)), (jnp.array([1.5]), jnp.zeros(1))
    ts, costs = np.linspace(0.0, 1.0, 2), problem().costs[:2]
    given = control.ControlProblem(spring, *start, ts, lambda t: jnp.zeros(1), costs, (FORCE,))
    law = RecedingHorizon(given, 0.1, intervals=10, degree=1, acceptable=1e-8)
    failed = []
    for most in (1, 10):
        law = eqx.tree_at(lambda law: law.most_iterations, law, jnp.asarray(most))
        heavy = Hardening(jnp.array(1.3))
        found = closed_loop(heavy, *start, Sampled(law, 0.1), 12)
        failed.append(int(found.control.memory.failed))
    assert failed[0] > 0
    assert failed[1] == 0
    assert found.control.memory.violation <= 1e-8


class Answers(NamedTuple):
    samples: jax.Array
    last: jax.Array


class Slow(eqx.Module):
    """A law whose third step waits for an event."""

    event: threading.Event = eqx.field(static=True)

    def start(self):
        return Answers(jnp.array(0), jnp.zeros(1))

    def step(self, memory, t, q, u):
        def wait(k):
            if k == 2:
                self.event.wait(60.0)
            return np.float64(k)

        k = jax.pure_callback(wait, jax.ShapeDtypeStruct((), float), memory.samples)
        return k[None] + q, Answers(memory.samples + 1, k[None] + q)

    def held(self, memory, t):
        return memory.last - 100.0, memory

    def resumed(self, planned, memory):
        return planned


def test_deadline():
    """A step that misses its deadline is counted and answered from the previous plan; its own plan is used once it is
    ready."""
    event, state = threading.Event(), (jnp.array([0.25]), jnp.zeros(0))
    loop = OnTime(Slow(event), deadline=1.0)
    loop.prepare(0.0, *state)
    found = [loop(0.1, *state)[0], loop(0.2, *state)[0], loop(0.3, *state)[0]]
    assert (loop.samples, loop.missed) == (3, 2)
    event.set()
    assert loop._late is not None
    loop._late.result(60.0)
    found.append(loop(0.4, *state)[0])
    assert found == [1.25, -98.75, -98.75, 3.25]
    assert (loop.samples, loop.missed) == (4, 2)


class Integrating(eqx.Module):
    """The law −k x − d v − ℓ Σ x T with an integral term."""

    gains: jax.Array

    def start(self):
        return jnp.zeros(1)

    def step(self, memory, t, q, u):
        memory = memory + q * PERIOD
        return -self.gains[0] * q - self.gains[1] * u - self.gains[2] * memory, memory


def test_a_law_with_memory():
    """Laws with an integral term, run in lanes, follow the recursion by hand."""
    gains = np.array([[3.0, 2.0, 0.5], [4.0, 3.0, 1.0]])
    laws = jax.vmap(lambda g: Sampled(Integrating(g), PERIOD))(jnp.asarray(gains))
    cart = Cart(jnp.array(1.0))
    found = closed_loop(cart, START[:1], START[1:], laws, 20, in_axes=(None, None, None, 0))
    for i, (a, b, c) in enumerate(gains):
        state, total = START, 0.0
        for k in range(20):
            total += state[0] * PERIOD
            state = A @ state + B[:, 0] * (-a * state[0] - b * state[1] - c * total)
            np.testing.assert_allclose(
                [found.q[i, k + 1, 0], found.u[i, k + 1, 0]], state, atol=1e-12
            )
        np.testing.assert_allclose(found.control.memory[i], [total], atol=1e-12)


def test_multipliers_of_a_loop():
    """The multipliers of ẍ = c, c = −a x − b v − ℓ Σ x T with one period of delay are the eigenvalues of the matrix by
    hand."""
    a, b, c = 3.0, 2.0, 0.5
    found = control.loop_multipliers(
        Cart(jnp.array(1.0)), np.zeros(1), np.zeros(1), Sampled(Integrating(np.array([a, b, c])), PERIOD, delay=1)
    )  # fmt: skip
    M = np.zeros((4, 4))  # maps (x, v, delayed command, sum) over one period
    M[:2, :2], M[:2, 2:3] = A, B
    M[2] = [-a - c * PERIOD, -b, 0.0, -c]
    M[3] = [PERIOD, 0.0, 0.0, 1.0]
    wanted = np.linalg.eigvals(M)
    np.testing.assert_allclose(np.sort(np.abs(found)), np.sort(np.abs(wanted)), atol=1e-9)
    assert bool(jnp.all(jnp.abs(found) < 1))


class Growing(Integrating):
    def step(self, memory, t, q, u):
        return q, jnp.concatenate([memory, q])


ONE = Integrating(jnp.ones(3))


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: RecedingHorizon(problem(), 3.5), ValueError, r"`period` is 3.5 s, longer than the horizon.*, 1.6 s"),
        (lambda: RecedingHorizon(problem(), -0.1), ValueError, "`period` is -0.1; it must be positive"),
        (lambda: RecedingHorizon("cart", 0.1), TypeError, "`problem` is of type str; it must be a .*ControlProblem"),
        (lambda: RecedingHorizon(problem(control.FreeEndTime(1.0, 4.0)), 0.1), ValueError, "`problem` has a FreeEndTime"),
        (lambda: RecedingHorizon(problem(), 0.1, iterations=0), ValueError, "`iterations` is 0; it must be a whole number"),
        (lambda: RecedingHorizon(problem(), 0.1, intervals=2.5), ValueError, "`intervals` is 2.5; it must be a whole"),
        (lambda: RecedingHorizon(problem(), 0.1, barrier=0.0), ValueError, "`barrier` is 0"),
        (lambda: RecedingHorizon(problem(), 0.1, acceptable=np.ones(2)), ValueError, r"`acceptable` has shape \(2,\)"),
        (lambda: RecedingHorizon(problem(), 0.1, hessian="newton"), ValueError,
         "`hessian` is 'newton'; it must be one of 'gauss-newton', 'exact'"),
        (lambda: RecedingHorizon(problem(), 0.1, delay=-1), ValueError, "`delay` is -1; it must be a whole number"),
        (lambda: RecedingHorizon(problem(), 0.1, late=3), TypeError, "`late` is of type int; it must be a callable t"),
        (lambda: RecedingHorizon(problem(PathLimit(lambda t, q, u, c: jnp.nan * u, upper=1.0, name="speed")), 0.1),
         ValueError, "`problem` is not finite where the search for the first plan starts: `speed`. Look for a NaN"),
        (lambda: RecedingHorizon(of_cost(lambda t, q, u, c: jnp.log(q - 1.0)), 0.1), ValueError, "plan starts: the cost"),
        (lambda: RecedingHorizon(problem(), 0.1).step(None, 0.0, np.ones(1), np.ones(2)), ValueError,  # pyright: ignore
         r"The state \(q, u\) has the shapes \(\(1,\), \(2,\)\); the law is made for \(\(1,\), \(1,\)\)"),
        (lambda: control.loop_multipliers(Cart(jnp.array(1.0)), np.ones(1), np.zeros(1), Sampled(ONE, 0.1)),
         ValueError, r"`u`\) is no equilibrium of the loop: after one period the state is off by 0"),
        (lambda: OnTime(Cart(jnp.array(1.0)), 0.1), TypeError, "`law` is of type Cart; it must have the methods start"),
        (lambda: Sampled(OnTime(Slow(threading.Event()), 0.1), 0.1), TypeError, "the clock of a robot. .* `late` of a"),
        (lambda: OnTime(Slow(threading.Event()), 0.0), ValueError, "`deadline` is 0.*must be positive"),
        (lambda: Sampled(ONE, 0.1, sensors=control.Sensors((lambda *a: 0.0,))), TypeError,
         r"`step` must take \(memory, t, observation\)"),
        (lambda: closed_loop(Cart(jnp.array(1.0)), START[:1], START[1:], Sampled(Growing(jnp.ones(3)), 0.1), 3),
         ValueError, r"`law.step` gives a memory of float64 \(2,\) where that of `law.start\(\)` is float64 \(1,\)"),
    ],
)  # fmt: skip
def test_messages(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_timing_is_that_of_the_controller():
    """A law with a period or delay of its own is refused by a `Sampled` with another."""
    law = eqx.tree_at(lambda x: x.gains, ONE, jnp.ones(3))
    object.__setattr__(law, "period", jnp.array(0.2))
    with pytest.raises(ValueError, match=r"`period` is 0.1 and that of the Integrating 0.2; both"):
        Sampled(law, 0.1)
    object.__setattr__(law, "period", jnp.array(0.1))
    object.__setattr__(law, "delay", 1)
    with pytest.raises(ValueError, match="`delay` is 0 and that of the Integrating 1; both"):
        Sampled(law, 0.1)
