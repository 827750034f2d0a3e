"""Gains about plans of systems of a user, against Riccati equations integrated by SciPy along equations by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxhamel
from jaxhamel import simulate
from jaxhamel.control import regulate
from jaxhamel.control._loop import _regulator, _riccati
from jaxhamel.control._loop._linearised_plan import NODES
from tests.control.cart import Cart

CART, LOAD, LENGTH, GRAVITY = 5.0, 2.0, 1.5, 9.81
COSTS = {"state_cost": [10.0, 10.0, 1.0, 1.0], "control_cost": [0.1], "final_cost": [3.0] * 4}


class Crane(jaxhamel.System):
    """A trolley at x with a load on a rope at the angle a, q = (x, a), driven by the force on the trolley."""

    space = jaxhamel.Euclidean(2)
    n_controls = 1

    def lagrangian(self, t, q, v):
        along, up = v[0] + LENGTH * jnp.cos(q[1]) * v[1], LENGTH * jnp.sin(q[1]) * v[1]
        height = -LENGTH * jnp.cos(q[1])
        return 0.5 * CART * v[0] ** 2 + LOAD * (0.5 * (along**2 + up**2) - GRAVITY * height)

    def force(self, t, q, v, control):
        return jnp.array([control[0], 0.0])


class Push(eqx.Module):
    """The force of the plan [N]."""

    def __call__(self, t):
        return jnp.array([8.0 * jnp.sin(2.0 * t)])


@jax.jit
def rate(t, y, more):
    """ẏ of y = (x, a, ẋ, ȧ), by hand; `more`: a force beside the plan's."""
    _, a, _, w = y
    force = 8.0 * jnp.sin(2.0 * t) + more[0]
    pull = force + LOAD * jnp.sin(a) * (LENGTH * w**2 + GRAVITY * jnp.cos(a))
    x2 = pull / (CART + LOAD * jnp.sin(a) ** 2)
    return jnp.array([y[2], w, x2, -(jnp.cos(a) * x2 + GRAVITY * jnp.sin(a)) / LENGTH])


@pytest.fixture(scope="module")
def exact():
    """(P(0), A(0), B(0)) about the plan, with P from SciPy."""
    Q, R, S = (np.diag(x) for x in COSTS.values())
    start, none = np.array([0.0, 0.2, 0.0, 0.0]), np.zeros(1)
    options = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-12}
    motion = solve_ivp(
        lambda t, y: rate(t, y, none), (0.0, 4.0), start, dense_output=True, **options
    ).sol
    matrices = jax.jit(jax.jacfwd(rate, (1, 2)))

    def slope(t, p):
        P, (A, B) = p.reshape(4, 4), map(np.asarray, matrices(t, motion(t), none))
        return -(A.T @ P + P @ A - P @ B @ np.linalg.inv(R) @ B.T @ P + Q).ravel()

    P = solve_ivp(slope, (4.0, 0.0), S.ravel(), **options).y[:, -1].reshape(4, 4)
    return P, *map(np.asarray, matrices(0.0, start, none))


def regulated(count):
    """The regulator about the plan at `count` times."""
    start, ts = jnp.array([0.0, 0.2]), jnp.linspace(0.0, 4.0, count)
    plan = simulate(Crane(), start, jnp.zeros(2), ts, Push(), rtol=1e-12, atol=1e-12)
    costs = {name: jnp.array(x) for name, x in COSTS.items()}
    return regulate(Crane(), ts, plan.q, plan.u, Push(), **costs)


@pytest.mark.parametrize("count", [21, 101])
def test_gains_of_a_crane(exact, count):
    """P(0) and the eigenvalues of the closed loop have eight digits by default, on plans of 20 intervals, where one step
    in each has an error of 3e-8, and of 100."""
    found, (P, A, B) = regulated(count), exact
    np.testing.assert_allclose(found.values[0], P, atol=1e-8 * np.max(P), rtol=0)
    closed = A - B @ np.linalg.inv(np.diag(COSTS["control_cost"])) @ B.T @ P
    ours = found.linear[0][0] - found.linear[1][0] @ found.gains[0]
    wanted = np.sort_complex(np.linalg.eigvals(closed))
    np.testing.assert_allclose(np.sort_complex(np.linalg.eigvals(ours)), wanted, rtol=1e-8)


def test_less_accurate_than_wanted(monkeypatch):
    """Where P(0) does not reach eight digits with the largest number of steps, a warning names `ts` and `steps`."""
    monkeypatch.setattr(_regulator, "CHOICES", (1,))
    with pytest.warns(UserWarning, match=r"error of .* with 1 step .* Give `steps`, .* finer"):
        regulated(21)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("weight", [1.0, 1e3, 1e9, 1e12])
def test_large_final_costs(weight, traced):
    """P of a double integrator is Φᵀ (S⁻¹ + W)⁻¹ Φ with the Gramian W, for any final cost S. P(τ) is about 12/τ³ at a time τ
    before the end if S is large; explicit steps of the quadratic equation diverged from 1e6 on."""
    count = 41
    ts, rest = jnp.linspace(0.0, 2.0, count), jnp.zeros((count, 1))

    def values(S):
        costs = {"state_cost": jnp.zeros(2), "control_cost": jnp.ones(1), "final_cost": S}
        return regulate(Cart(jnp.array(1.0)), ts, rest, rest, jnp.zeros(1), **costs).values

    found = (jax.jit(values) if traced else values)(weight * jnp.ones(2))
    for P, t in zip(found[:-1], np.asarray(ts), strict=False):
        tau = 2.0 - t
        flow = np.array([[1.0, tau], [0.0, 1.0]])
        gramian = np.array([[tau**3 / 3, tau**2 / 2], [tau**2 / 2, tau]])
        wanted = flow.T @ np.linalg.inv(np.eye(2) / weight + gramian) @ flow
        np.testing.assert_allclose(P, wanted, rtol=0, atol=1e-9 * np.max(wanted))


def test_derivatives_by_the_weights():
    """d(P(0), K)/d(weights) in reverse mode is that in forward mode, and Richardson's of differences."""
    start, ts = jnp.array([0.0, 0.2]), jnp.linspace(0.0, 1.0, 21)
    plan = simulate(Crane(), start, jnp.zeros(2), ts, Push(), rtol=1e-10, atol=1e-10)
    weights = jnp.array([10.0, 10.0, 1.0, 1.0, 0.1, 3.0, 3.0, 3.0, 3.0])

    @jax.jit
    def numbers(w):
        costs = {"state_cost": w[:4], "control_cost": w[4:5], "final_cost": w[5:]}
        law = regulate(Crane(), ts, plan.q, plan.u, Push(), **costs)
        return jnp.sum(law.values[0]) + jnp.sum(law.gains[3])

    def difference(step):
        each = jnp.diag(step * weights)
        return [(numbers(weights + d) - numbers(weights - d)) / (2.0 * jnp.sum(d)) for d in each]

    found = jax.jit(jax.grad(numbers))(weights)
    np.testing.assert_allclose(found, jax.jit(jax.jacfwd(numbers))(weights), rtol=1e-12)
    richardson = (4.0 * jnp.array(difference(5e-4)) - jnp.array(difference(1e-3))) / 3.0
    np.testing.assert_allclose(found, richardson, rtol=1e-8)


@pytest.mark.parametrize(
    ("size", "way", "other"),
    [(3, "_by_one_kernel", "_by_products"), (18, "_by_products", "_by_one_kernel")],
)
@pytest.mark.parametrize("parts", [1, 2])
def test_closed_form_of_dense_equations(size, way, other, parts, monkeypatch):
    """With A = a(t) + W(t), W skew, B orthogonal, Q = q and R = 1, P = p(t) 1 solves −ṗ = 2 a p − p² + q, whatever W is.
    Here p = 1 + ½ sin t is given, and a follows. Small matrices are taken by one kernel, large ones by products."""
    monkeypatch.setattr(_riccati, other, None)
    q, count, rng = 2.0, 40, np.random.default_rng(5)
    ends = np.linspace(0.0, 2.0, count + 1)
    t = np.append((ends[:-1, None] + NODES[:-1] * np.diff(ends)[:, None]).ravel(), ends[-1])
    skew = rng.normal(size=(size, size)) / size
    p = 1.0 + 0.5 * np.sin(t)
    a = (p**2 - q - 0.5 * np.cos(t)) / (2.0 * p)
    A = a[:, None, None] * np.eye(size) + np.cos(2.0 * t)[:, None, None] * (skew - skew.T)
    B = np.broadcast_to(np.linalg.qr(rng.normal(size=(size, size)))[0], A.shape)
    costs = q * np.eye(size), np.eye(size), p[-1] * np.eye(size)
    given = jax.tree.map(jnp.asarray, (A, B, costs, np.diff(ends)))
    found = _riccati.riccati(*given, parts)
    wanted = p[::4, None, None] * np.eye(size)
    np.testing.assert_allclose(found.values, wanted, atol=1e-11)
    np.testing.assert_allclose(found.gains, p[::4, None, None] * B[0].T, atol=1e-11)
    assert found.error < 1e-9


def test_fastest_rate_of_many_matrices():
    """The largest magnitude of the eigenvalues, within 1 % of LAPACK's; complex pairs and zero matrices, too."""
    rng = np.random.default_rng(6)
    for scale in (1e-9, 1.0, 1e9):
        some = scale * rng.normal(size=(5, 6, 6)) * np.logspace(-3, 0, 5)[:, None, None]
        wanted = np.max(np.abs(np.linalg.eigvals(some)))
        np.testing.assert_allclose(_riccati._fastest_rate(some), wanted, rtol=0.01)
    assert _riccati._fastest_rate(np.zeros((2, 3, 3))) == 0.0
    assert _riccati._fastest_rate(np.eye(2, k=1)[None]) == 0.0
