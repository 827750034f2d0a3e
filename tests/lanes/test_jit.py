"""`ensemble_jit` sets compiler options at the outermost level only, and supports other transforms and static arguments
without compiling twice."""

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np

from jaxhamel._lanes._xla_cpu import _jit
from jaxhamel.ensemble import jit as ensemble_jit
from jaxhamel.identify._linearised import _solver

X = np.arange(3.0)


def test_alone_and_inside_other_transforms():
    f = ensemble_jit(lambda x, power: jnp.sum(x) ** power)
    assert f(X, 2) == 9.0
    assert jax.jit(lambda x: f(x, 2) + f(X, 2))(X) == 18.0
    np.testing.assert_array_equal(jax.grad(f)(jnp.asarray(X), 2), 6.0)
    np.testing.assert_array_equal(jax.vmap(lambda x: f(x, 2))(jnp.stack([X, 2 * X])), [9.0, 36.0])


def test_it_compiles_once():
    traces = []

    @ensemble_jit
    def f(x):
        traces.append(x)
        return 2 * x

    for x in (X, X + 1):
        np.testing.assert_array_equal(f(x), 2 * x)
    assert len(traces) == 1


def test_xla_takes_the_options(monkeypatch):
    """If this fails, XLA has renamed the options: ensembles still work, at half the speed on processors with 512-bit
    vectors."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    assert _jit.known_here(_jit.WIDE) == _jit.WIDE
    if jaxlib.version.__version_info__ < (0, 12):  # later versions have no such option
        assert _jit.known_here(_solver.WITHOUT) == _solver.WITHOUT
    assert _jit.known_here({"no_such_option": 1, **_jit.WIDE}) == _jit.WIDE


def test_an_option_that_xla_does_not_know_is_left_out():
    assert _jit.known_here({"xla_cpu_no_such_option": 1}) == {}


def test_what_a_user_has_set_stays(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=3 --xla_cpu_enable_fast_math")
    assert _jit.known_here({**_jit.FEW_RUNS, **_jit.WIDE}) == {
        name: value
        for name, value in {**_jit.FEW_RUNS, **_jit.WIDE}.items()
        if name != "xla_backend_optimization_level"
    }
