"""The step size controller remembers whether the last trial step was finite, in its state and its error estimate."""

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.simulate._step_size import is_nonfinite, watched_pid

TS, Y = jnp.array([0.0, 1.0]), jnp.array([1.0, 2.0])


@pytest.mark.parametrize(
    ("state", "error", "bad"),
    [
        (Y, 1e-9 * Y, False),
        (Y, 1e9 * Y, False),  # a step that is only rejected
        (Y.at[1].set(np.nan), 1e-9 * Y, True),
        (Y.at[0].set(np.inf), 1e-9 * Y, True),
        (Y, Y.at[1].set(np.inf), True),  # diffrax replaces NaN by infinity in the error estimate
        (Y, Y.at[0].set(np.nan), True),
    ],
)
def test_a_step_that_is_not_finite_is_remembered(state, error, bad):
    control = watched_pid(1e-6, 1e-9, TS)
    term = diffrax.ODETerm(lambda t, y, args: -y)
    start, end = TS
    args = (term, start, end, Y, jnp.array(0.1), None, term.vf, jnp.array(5.0))
    _, memory = control.init(*args)
    assert not is_nonfinite(memory)
    found = control.adapt_step_size(start, end, Y, state, None, error, jnp.array(5.0), memory)
    assert bool(is_nonfinite(found[-2])) == bad
    forgotten = control.adapt_step_size(start, end, Y, Y, None, 1e-9 * Y, jnp.array(5.0), found[-2])
    assert not is_nonfinite(forgotten[-2])
