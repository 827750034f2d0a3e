"""AutoAdjoint in forward and reverse mode, against diffrax's adjoints and differences."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel._lanes._derivatives._linear_map import transposed_by_columns
from jaxhamel._lanes._xla_cpu import _whole_loop
from jaxhamel.simulate import AutoAdjoint, simulate
from jaxhamel.simulate._tape._tape_adjoint import TapeAdjoint
from tests.simulate.small_systems import Pendulum, Sines

TS = jnp.linspace(0.0, 2.0, 5)
AMPLITUDES = jnp.array([0.3, -0.2, 0.1])
COLUMNS = AutoAdjoint(forward_up_to=1000, tape_from=1001)
CHECKPOINTS = AutoAdjoint(forward_up_to=0)


def motion(a, adjoint=None, k=2.0, **options):
    options = {"dt": 0.05, "max_steps": 64} | options
    path = simulate(
        Pendulum(jnp.asarray(k)), [0.5], [0.1], TS, Sines(a), adjoint=adjoint, **options
    )
    return jnp.concatenate([path.q[-1], path.u[-1], path.q[2]])


def loss(a, adjoint=None, **options):
    return jnp.sum(motion(a, adjoint, **options) ** 2)


@pytest.fixture(scope="module")
def gradient():
    """The gradient by Richardson's extrapolation of central differences."""

    values = jax.jit(jax.vmap(lambda d: loss(AMPLITUDES + d)))

    def central(h):
        steps = h * np.eye(3)
        return (values(steps) - values(-steps)) / (2 * h)

    return np.asarray((4 * central(0.005) - central(0.01)) / 3)


@pytest.mark.parametrize(
    ("adjoint", "differentiate"),
    [(None, jax.grad), (None, jax.jacfwd), (CHECKPOINTS, jax.grad)],
    ids=["grad", "jacfwd", "grad by checkpoints"],
)
def test_both_modes_give_the_gradient(adjoint, differentiate, gradient):
    got = jax.jit(differentiate(lambda a: loss(a, adjoint)))(AMPLITUDES)
    np.testing.assert_allclose(got, gradient, atol=1e-8)


@pytest.mark.parametrize(
    ("adjoint", "differentiate"),
    [
        (diffrax.RecursiveCheckpointAdjoint(), jax.grad),
        (diffrax.ForwardMode(), jax.jacfwd),
    ],
    ids=["checkpoints", "forward"],
)
def test_given_adjoints_are_used(adjoint, differentiate, gradient):
    got = jax.jit(differentiate(lambda a: loss(a, adjoint)))(AMPLITUDES)
    np.testing.assert_allclose(got, gradient, atol=1e-8)


def along(f):
    return lambda a: jax.jvp(f, (a,), (AMPLITUDES,))[1]


@pytest.mark.parametrize(
    ("adjoint", "differentiate", "message"),
    [
        (diffrax.ForwardMode(), jax.grad, "ForwardMode, which has no reverse mode .*DirectAdjoint"),
        (diffrax.ForwardMode(), lambda f: jax.grad(along(f)), "has no reverse mode"),
        (diffrax.RecursiveCheckpointAdjoint(), along, "Recursive.* which has no forward mode"),
        (diffrax.RecursiveCheckpointAdjoint(), lambda f: along(jax.grad(f)), "no forward mode"),
        (
            diffrax.RecursiveCheckpointAdjoint(),
            lambda f: jax.grad(lambda a: jnp.sum(jax.grad(f)(a))),
            "RecursiveCheckpointAdjoint, which has no second derivatives. .*DirectAdjoint",
        ),
    ],
    ids=["reverse", "reverse over forward", "forward", "forward over reverse", "reverse twice"],
)
def test_a_mode_that_an_adjoint_lacks_is_refused_by_name(adjoint, differentiate, message):
    refused = jax.jit(differentiate(lambda a: loss(a, adjoint)))
    with pytest.raises(ValueError, match=message):
        refused(AMPLITUDES)


def test_jacobians_of_many_outputs():
    forward = jax.jit(jax.jacfwd(motion))(AMPLITUDES)
    assert forward.shape == (3, 3)
    for adjoint in (COLUMNS, CHECKPOINTS):
        reverse = jax.jit(jax.jacrev(lambda a: motion(a, adjoint)))(AMPLITUDES)  # noqa: B023
        np.testing.assert_allclose(reverse, forward, atol=1e-12)


def test_a_gradient_by_one_number_takes_forward_mode_and_by_several_the_tape(monkeypatch):
    taped, loop = [], TapeAdjoint.loop
    monkeypatch.setattr(
        TapeAdjoint, "loop", lambda *a, **given: taped.append(1) or loop(*a, **given)
    )
    cost = lambda k, a: motion(a, k=k, max_steps=60)[0]  # not yet traced by another test
    for by, takes_tape in ((0, False), ((0, 1), True)):
        jax.jit(jax.grad(cost, by)).lower(2.0, AMPLITUDES)
        assert bool(taped) == takes_tape


def test_a_single_column_is_computed_without_a_batch():
    """A batch of one would run its operations on small arrays, four times as slowly."""
    traced = []

    def forward(x):
        traced.append(isinstance(x[0], jax.core.Tracer))
        return [2.0 * x[0], jnp.stack([x[0], 3.0 * x[0]])]

    bars = [np.array(1.0), np.array([10.0, 100.0])]
    (found,) = transposed_by_columns(forward, [np.array(0.0)], bars)
    assert (float(found), traced) == (312.0, [False])


def test_vmap_of_grad_and_grad_of_vmap():
    batch = jnp.stack([AMPLITUDES, 2 * AMPLITUDES])
    by_jacfwd = jax.jit(jax.vmap(jax.jacfwd(loss)))(batch)
    together = jax.jit(jax.vmap(jax.grad(lambda a: loss(a, COLUMNS))))(batch)
    np.testing.assert_allclose(together, by_jacfwd, atol=1e-12)
    total = lambda b: jnp.sum(jax.vmap(lambda a: loss(a, CHECKPOINTS))(b))
    np.testing.assert_allclose(jax.jit(jax.grad(total))(batch), by_jacfwd, atol=1e-12)


def test_tangents_hidden_in_a_closure_are_seen():
    """The derivative by a number that a control captures equals central differences."""

    def final(a):
        return simulate(
            Pendulum(jnp.asarray(2.0)), [0.5], [0.1], TS, lambda t: a * jnp.sin(t), dt=0.05
        ).q[-1, 0]

    h = 1e-5
    difference = (final(0.3 + h) - final(0.3 - h)) / (2 * h)
    np.testing.assert_allclose(jax.grad(final)(0.3), difference, rtol=1e-8)


def test_derivative_with_respect_to_the_times():
    """∂q(t_i)/∂t_i is the velocity at t_i; shifting all times changes nothing, since the system is autonomous."""

    def positions(ts):
        path = simulate(Pendulum(jnp.asarray(2.0)), [0.5], [0.1], ts, dt=0.01)
        return path.q[:, 0], path.u[:, 0]

    slope, u = jax.jit(jax.jacfwd(positions, has_aux=True))(TS)
    np.testing.assert_allclose(jnp.diag(slope)[1:], u[1:], atol=1e-8)
    np.testing.assert_allclose(
        jnp.sum(slope, axis=1), 0.0, atol=1e-8
    )  # a shift of all times changes nothing


def test_in_diffeqsolve_itself():
    """AutoAdjoint works in `diffrax.diffeqsolve` as any other adjoint."""

    def final(rate):
        term = diffrax.ODETerm(lambda t, y, args: -args * y)
        return diffrax.diffeqsolve(
            term, diffrax.Tsit5(), 0.0, 1.0, 0.01, jnp.ones(()), rate, adjoint=AutoAdjoint()
        ).ys[0]  # fmt: skip

    for derivative in (jax.grad, jax.jacfwd):
        np.testing.assert_allclose(derivative(final)(0.7), -jnp.exp(-0.7), rtol=1e-9)


def test_the_adjoint_costs_nothing_where_nothing_is_differentiated(monkeypatch):
    """Without differentiation the program has the loops of diffrax's ForwardMode, and at most 10 % more lines."""

    def program(adjoint) -> str:
        return eqx.filter_jit(lambda a: motion(a, adjoint)).lower(AMPLITUDES).as_text()

    plain = program(diffrax.ForwardMode())
    assert program(None).count("stablehlo.while") == plain.count("stablehlo.while")
    monkeypatch.setattr(_whole_loop, "one_kernel_works", lambda: False)
    jax.clear_caches()
    assert len(program(None).splitlines()) < 1.1 * len(plain.splitlines())
