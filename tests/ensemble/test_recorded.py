"""Ensembles under recorded controls: the motions of `jaxhamel.simulate`, in lanes where each jump is the end of a step."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel.ensemble import rollout
from jaxhamel.ensemble import simulate as ensemble_simulate
from jaxhamel.ensemble._equal_steps._recorded_steps import end_at_records


class Swing(jaxhamel.System):
    mass: jax.Array
    space = jaxhamel.SO2()
    n_controls = 1

    def lagrangian(self, t, q, v):
        return self.mass * (0.5 * v[0] ** 2 + 4.0 * jnp.cos(q[0]))

    def force(self, t, q, v, control):
        return control


TIMES = np.arange(11) * 0.1
VALUES = 3 * np.cos(1.7 * np.arange(11) ** 2)
MASSES = jnp.linspace(0.5, 2.0, 7)
REST = jnp.array([0.3]), jnp.zeros(1)


def alone(k, record, ts):
    return jaxhamel.simulate(Swing(MASSES[k]), *REST, ts, record, rtol=1e-12, atol=1e-13).q


@pytest.mark.parametrize("between", ["held", "linear"])
@pytest.mark.parametrize("ts", [TIMES, TIMES[::5], np.linspace(0.0, 0.97, 4)])
@pytest.mark.parametrize("steps", [{"dt": 0.02}, {}])
def test_equals_single_motions(between, ts, steps):
    record, ts = jaxhamel.Recorded(TIMES, VALUES, between), jnp.asarray(ts)
    many = ensemble_simulate(
        Swing(MASSES), *REST, ts, record, in_axes=(0, None, None, None), **steps
    )
    np.testing.assert_allclose(many.q[4], alone(4, record, ts), atol=1e-8)


def test_own_records():
    values = jax.random.normal(jax.random.key(0), (7, 11))
    records = jax.vmap(lambda c: jaxhamel.Recorded(TIMES, c, "held"))(values)
    many = ensemble_simulate(
        Swing(MASSES), *REST, jnp.asarray(TIMES), records, in_axes=(0, None, None, 0), dt=0.02
    )
    own = jax.tree.map(lambda x: x[2], records)
    np.testing.assert_allclose(many.q[2], alone(2, own, jnp.asarray(TIMES)), atol=1e-9)


@pytest.mark.parametrize("method", ["rk4", diffrax.Tsit5(), jaxhamel.CommutatorFree4()])
def test_methods_of_rollout(method):
    record = jaxhamel.Recorded(TIMES, VALUES, "held")
    ts, axes = jnp.asarray(TIMES), (0, None, None, None)
    errors = [
        np.max(np.abs(rollout(Swing(MASSES), *REST, ts, record, in_axes=axes, method=method, dt=dt)[0][3]
                      - alone(3, record, ts))) for dt in (0.1, 0.05)
    ]  # fmt: skip
    assert errors[0] < 1e-4
    assert errors[1] < errors[0] / 10  # the order of a smooth motion


def test_rollout_in_single_precision():
    record = jaxhamel.Recorded(TIMES.astype(np.float32), VALUES.astype(np.float32), "held")
    rest, ts = tuple(x.astype(jnp.float32) for x in REST), jnp.asarray(TIMES, jnp.float32)
    found = rollout(
        Swing(MASSES.astype(jnp.float32)), *rest, ts, record, in_axes=(0, None, None, None), dt=0.02
    )[0][3]
    exact = alone(3, jaxhamel.Recorded(TIMES, VALUES, "held"), jnp.asarray(TIMES))
    np.testing.assert_allclose(found, exact, atol=3e-5)


def test_gradient_equals_that_of_single_motions():
    ts, axes = jnp.asarray(TIMES), (0, None, None, None)

    def end(values):
        record = jaxhamel.Recorded(TIMES, values, "held")
        return jnp.sum(rollout(Swing(MASSES), *REST, ts, record, in_axes=axes, dt=0.02)[0][:, -1])

    def ends(values):
        record = jaxhamel.Recorded(TIMES, values, "held")
        return sum(alone(k, record, ts)[-1, 0] for k in range(7))

    at = jnp.asarray(VALUES)
    np.testing.assert_allclose(jax.grad(end)(at), jax.grad(ends)(at), atol=1e-6)


def test_which_steps_end_at_jumps():
    record = jaxhamel.Recorded(TIMES, VALUES, "held")
    assert end_at_records(record, TIMES, 0.03)
    assert end_at_records(record, np.array([0.0, 1.0]), 0.05)
    assert not end_at_records(record, np.array([0.0, 1.0]), 0.03)
    assert not end_at_records(record, np.linspace(0.0, 0.97, 4), 0.1)
    assert end_at_records(None, np.linspace(0.0, 0.97, 4), 0.1)


def test_messages():
    record, axes = jaxhamel.Recorded(TIMES, VALUES, "held"), (0, None, None, None)
    with pytest.raises(ValueError, match=r"times include 0\.1 s, which is within a step of `dt`"):
        rollout(Swing(MASSES), *REST, jnp.linspace(0.0, 0.97, 4), record, in_axes=axes, dt=0.2)
    with pytest.raises(
        ValueError, match=r"record from 0 s to 1\.1 s, and `ts` goes from 0 s to 2 s"
    ):
        ensemble_simulate(Swing(MASSES), *REST, jnp.linspace(0.0, 2.0, 4), record, in_axes=axes)
