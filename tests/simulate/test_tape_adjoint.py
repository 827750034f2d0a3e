"""Reverse mode of loops by a tape of their states, against JAX's derivative of a loop of known length."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Literal, jaxprs_in_params

from jaxhamel.geometry import SO3
from jaxhamel.simulate import AutoAdjoint, LieGroup, simulate
from jaxhamel.simulate._tape._tape_adjoint import TapeAdjoint, saving_loop
from jaxhamel.simulate._tape._taped_loop import ROWS, sizes, taped_loop
from tests.simulate.small_systems import Pendulum

END = 4 * ROWS + 100
WEIGHTS = jnp.arange(END // 100 + 1.0)


def turn(p, i, x):
    """One iteration of a quadratic map that is not chaotic."""
    return x + 1e-3 * jnp.array([x[1], p * x[0] * (1 - x[0])]) * (1 + i.astype(x.dtype) / END)


def by_tape(p, x, turns):
    """A cost of the last state and of every hundredth state, which are kept in a buffer."""

    def body(state):
        i, x, kept = state
        place = jnp.where(i % 100 == 0, i // 100, END)
        return i + 1, turn(p, i, x), kept.at[place].set(x[0], mode="drop")

    start = jnp.int32(0), x, jnp.zeros_like(WEIGHTS)
    options = {"buffers": lambda s: s[2], "results": lambda _: (), "repeated": lambda s: s}
    _, x, kept = taped_loop(lambda s: s[0] < turns, body, start, max_steps=8 * ROWS, **options)
    return jnp.sum(x**2) + kept @ WEIGHTS


def by_scan(p, x, turns):
    def body(x, i):
        return jnp.where(i < turns, turn(p, i, x), x), jnp.where(i < turns, x[0], 0.0)

    x, all_x = jax.lax.scan(body, x, jnp.arange(END))
    return jnp.sum(x**2) + all_x[::100] @ WEIGHTS


@pytest.fixture(scope="module")
def gradients():
    return [jax.jit(jax.grad(f, (0, 1))) for f in (by_tape, by_scan)]


@pytest.mark.parametrize("turns", [0, 1, ROWS, ROWS + 1, 2 * ROWS + 5, END])
def test_loops_of_any_length_are_reversed(gradients, turns):
    got, expected = (f(1.5, jnp.array([0.2, 0.1]), turns) for f in gradients)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11), got, expected)


def test_xla_does_not_count_the_turns_of_a_loop_around_loops():
    """XLA looks for the number of turns where a condition reads one value of the state, and copies all that this value
    depends on each time: here the whole motion."""
    program = jax.make_jaxpr(jax.grad(by_tape, (0, 1)))(1.5, jnp.array([0.2, 0.1]), 3)
    outer = [e for e in loops(program.jaxpr) if [*loops(e.params["body_jaxpr"].jaxpr)]]
    assert len(outer) == 1
    condition = outer[0].params["cond_jaxpr"].jaxpr
    read = {v for e in condition.eqns for v in e.invars if not isinstance(v, Literal)}
    assert len(read.intersection(condition.invars)) > 1


def loops(jaxpr):
    """All loops of a program, those inside of others included."""
    for e in jaxpr.eqns:
        if e.primitive.name == "while":
            yield e
        for inner in jaxprs_in_params(e.params):
            yield from loops(inner)


def test_segments_fit_the_tape():
    for most in (1, 16, ROWS, ROWS + 1, 2**16, 10**6):
        rows, longest = sizes(most)
        assert rows * longest >= most
        assert rows + longest <= 4 * max(ROWS, np.sqrt(most))


def test_rejected_steps_are_passed_by():
    """A pendulum with a first step that is too long has rejected steps; the gradients by the tape and by columns agree."""
    ts = jnp.array([0.0, 0.7, 3.0])

    def end(adjoint, x):
        path = simulate(
            Pendulum(x[2]), x[:1], x[1:2], ts * x[3], rtol=1e-6, atol=1e-6, adjoint=adjoint
        )
        rejected = path.stats["num_rejected_steps"]
        return jnp.sum(path.q**2) + jnp.sum(path.u_end), rejected

    x = jnp.array([3.0, 0.5, 20.0, 1.0])
    found = [
        jax.jit(jax.grad(lambda x, a=a: end(a, x), has_aux=True))(x)
        for a in (AutoAdjoint(), AutoAdjoint(tape_from=10))
    ]
    assert found[0][1] > 3
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-11)


@pytest.mark.parametrize("solver", [diffrax.Kvaerno3(), LieGroup(diffrax.Tsit5(), SO3())])
def test_other_methods_take_checkpoints(monkeypatch, solver):
    """Solvers without a tableau use diffrax's checkpoints; `LieGroup` is an explicit method for diffrax but has no
    tableau."""
    taken = []
    monkeypatch.setattr(
        diffrax.RecursiveCheckpointAdjoint, "loop", lambda *_, **given: taken.append(given)
    )
    given = {"solver": solver, "terms": None, "max_steps": 16}
    flags = {"passed_solver_state": False, "passed_controller_state": False}
    TapeAdjoint().loop(**given, **flags, stepsize_controller=diffrax.ConstantStepSize())
    assert len(taken) == 1


def test_times_within_a_step_are_summed():
    """The gradient of Σ w_i (a t_i)² over the times up to 1 equals the closed form."""
    ts = jnp.array([0.1, 0.4, 0.9, 1.5])

    def saved(a):
        def body(state):
            i, kept = state
            return i + 1, kept.at[i].set((a * ts[i]) ** 2)

        kept = saving_loop(
            lambda s: ts[s[0]] <= 1.0,
            body,
            (0, jnp.zeros(4)),
            max_steps=4,
            buffers=lambda s: s[1],
        )[1]
        return kept @ jnp.arange(1.0, 5.0)

    expected = 2 * 3.0 * (0.01 + 2 * 0.16 + 3 * 0.81)
    np.testing.assert_allclose(jax.jit(jax.grad(saved))(3.0), expected, rtol=1e-14)


def all_outputs(adjoint, y, t1):
    """A sum of the states at the ends, at given times and after each step, of a solve from 0 to t1."""
    kinds = {"t0": True, "ts": t1 * jnp.array([0.3, 1.0])}, {"t1": True}, {"steps": True}
    found = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: -(y**2)),
        diffrax.Tsit5(),
        0.0,
        t1,
        0.1,
        y,
        saveat=diffrax.SaveAt(subs=[diffrax.SubSaveAt(**each) for each in kinds]),
        adjoint=adjoint,
        stepsize_controller=diffrax.PIDController(1e-6, 1e-6),
        max_steps=64,
    )
    given = jax.tree.leaves(found.ys)
    ends = (jnp.linspace(1.0, 2.0, len(x)) @ jnp.where(jnp.isfinite(x), x, 0.0) for x in given)
    return sum(ends, jnp.zeros(()))


@pytest.fixture(scope="module")
def of_all_outputs():
    adjoints = TapeAdjoint(), diffrax.RecursiveCheckpointAdjoint()
    return [jax.jit(jax.grad(lambda y, t1, a=a: all_outputs(a, y, t1))) for a in adjoints]


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_all_outputs_have_the_gradient_by_checkpoints(of_all_outputs, end):
    """A solve of no time writes its outputs after the loop."""
    np.testing.assert_allclose(*(gradient(2.0, end) for gradient in of_all_outputs), rtol=1e-12)
