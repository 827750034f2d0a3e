"""A function or object that changed between two calls counts as another one; a function defined again with the same
content counts as the same."""

import gc
import math
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel as jh
from jaxhamel import _compiled
from jaxhamel._compiled import compiled
from jaxhamel._content._memory import remembered
from jaxhamel._content._walk import NoContent, Walk, content
from jaxhamel._lanes._derivatives._own_derivative import own_derivative

GAIN = {"k": 1.0}
LEVEL = 1.0
TRACES = []


class Settings:
    level = 1.0


class Push:
    """A control that is a plain Python object, no pytree."""

    def __init__(self, k):
        self.k = k

    def __call__(self, t):
        return jnp.asarray(self.k)

    def at(self, t):
        return jnp.asarray(2.0 * self.k)


class Cart(jh.System):
    """A cart with the force control · LEVEL · Settings.level."""

    mass: jax.Array
    space = jh.Euclidean(1)

    def lagrangian(self, t, q, v):
        return 0.5 * self.mass * jnp.dot(v, v)

    def force(self, t, q, v, control):
        TRACES.append(t)
        return control[None] * LEVEL * Settings.level


CART, Q, U, TS = Cart(jnp.asarray(1.0)), jnp.zeros(1), jnp.zeros(1), np.array([0.0, 1.0])


def rate(control):
    return float(jh.acceleration(CART, 0.0, Q, U, control)[0])


def end(control):
    return 2 * float(jh.simulate(CART, Q, U, TS, control).q_end[0])


def ends(control):
    found = jh.ensemble.rollout(
        CART, Q[None], U, TS, control, dt=0.5, in_axes=(None, 0, None, None)
    )
    return 2 * float(found[0][0, -1, 0])


@pytest.mark.parametrize("found", [rate, end, ends])
def test_an_object_that_was_changed(found):
    """A changed object gives the new motion; JAX alone compares objects by identity and would repeat the old one."""
    control = Push(1.0)
    assert math.isclose(found(control), 1.0, rel_tol=1e-9)
    control.k = 3.0
    assert math.isclose(found(control), 3.0, rel_tol=1e-9)


def test_globals_closures_methods_and_classes(monkeypatch):
    k, kept, push = 2.0, [5.0], Push(1.0)
    reading = lambda t: jnp.asarray(k * GAIN["k"])
    listed = lambda t, kept=kept: jnp.asarray(kept[0])
    for control, value in ((reading, 2.0), (listed, 5.0), (push.at, 2.0)):
        assert rate(control) == value
    k, kept[0], push.k = 7.0, 6.0, 4.0
    for control, value in ((reading, 7.0), (listed, 6.0), (push.at, 8.0)):
        assert rate(control) == value
    monkeypatch.setitem(GAIN, "k", 10.0)
    assert rate(reading) == 70.0
    monkeypatch.setattr(Settings, "level", 0.5)
    assert rate(reading) == 35.0
    monkeypatch.setitem(globals(), "LEVEL", 2.0)
    assert rate(reading) == 70.0


def test_a_function_written_again_compiles_nothing():
    """A lambda defined again is not traced again, nor is a system whose method changes a global list only while it is
    traced (`TRACES`)."""
    control = lambda: lambda t: jnp.asarray(4.0) + 0 * t
    rate(control())
    before = len(TRACES)
    assert rate(control()) == 4.0
    assert len(TRACES) == before


def test_a_warm_call_looks_at_a_function_once(monkeypatch):
    """A warm call inspects a function once; checks and programs together did it six times, a fifth of the call's time."""
    control = lambda: lambda t: jnp.asarray(4.0) + 0 * t
    end(control())
    seen, own = [], Walk._of_function
    monkeypatch.setattr(Walk, "_of_function", lambda walk, f: seen.append(f) or own(walk, f))
    assert end(latest := control()) == pytest.approx(4.0)
    assert sum(f is latest for f in seen) == 1


def test_a_function_changed_by_tracing_is_looked_at_again():
    """A function that changes between two programs of one call is inspected again."""
    factor = [1.0]
    first = compiled(lambda f: factor.append(2.0) or f(1.0))
    second = compiled(lambda f: f(1.0))
    grows = lambda t: jnp.asarray(t * len(factor))

    @remembered
    def both():
        return float(second(grows)), float(first(grows)), float(second(grows))

    assert both() == (1.0, 2.0, 2.0)


def made(k):
    return lambda t: k * t


def test_a_program_that_is_looked_at_before_it_is_lowered_is_traced_once():
    """The inner function is traced once, although JAX lowers under an empty mesh and does not reuse a trace made
    without one."""
    traces = []

    @jax.jit
    def inner(x):
        traces.append(x)
        return jnp.sin(x)

    @compiled
    def outer(x):
        return own_derivative(inside, no_rule, [x], jax.eval_shape(inside, x))

    inside, no_rule = lambda x: [inner(x)], lambda *_: ([], [])
    np.testing.assert_allclose(outer(0.5)[0], math.sin(0.5), rtol=1e-15)
    assert len(traces) == 1


def test_equal_content():
    arrays = np.array([1.0, 2.0])
    same = [
        made(1.0),
        made(-0.0),
        made(math.nan),
        made(arrays),
        made(partial(made, 2)),
        made({"a": [1]}),
        made(jax.ShapeDtypeStruct((3,), float)),
    ]
    again = [
        made(1.0),
        made(-0.0),
        made(math.nan),
        made(arrays.copy()),
        made(partial(made, 2)),
        made({"a": [1]}),
        made(jax.ShapeDtypeStruct((3,), float)),
    ]
    for a, b in zip(same, again, strict=True):
        assert content(a) == content(b)
        assert hash(content(a)) == hash(content(b))


def test_other_content():
    values = [
        1.0,
        1,
        True,
        0.0,
        -0.0,
        math.nan,
        "1",
        None,
        (1, 2),
        [1, 2],
        (1, (2,)),
        {"a": 1},
        {"b": 1},
    ]
    values += [
        np.ones(2),
        np.ones(2, np.float32),
        np.ones((2, 1)),
        jnp.ones(2),
        jnp.ones(2),
        Push(1.0),
        Push(1.0),
    ]
    values += [
        Push,
        Cart,
        math,
        np,
        partial(made, 1),
        partial(made, 2),
        made,
        jax.vmap(made),
        {1},
        frozenset({1}),
        jax.ShapeDtypeStruct((3,), float),
        jax.ShapeDtypeStruct((4,), float),
    ]
    found = [content(made(x)) for x in values]
    assert len(set(found)) == len(values)


def test_content_of_circles_and_what_has_none():
    circle = Push(1.0)
    circle.k = [circle]
    assert content(circle) == content(circle)
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises((NoContent, RecursionError)):
        content(deep)
    with pytest.raises(NoContent):
        jax.eval_shape(lambda x: content(made(x)), 1.0)
    twice = jax.jit(lambda x: rate_within(lambda t: x))
    assert twice(2.0) == 2.0
    assert twice(3.0) == 3.0


def rate_within(control):
    return jh.acceleration(CART, 0.0, Q, U, control)[0]


def test_no_warning_of_a_function_that_stays(monkeypatch):
    """A function that is compiled beside other arguments, and refers to the same values each time, is not blamed."""
    monkeypatch.setattr(_compiled, "MANY", 3)
    call = compiled(lambda f, xs: f(sum(xs)))
    same = made(2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [float(call(same, n * [1.0])) for n in range(1, 6)] == [2.0, 4, 6, 8, 10]


def test_one_warning_and_bounded_memory(monkeypatch):
    """Many compilations of a function give one warning with a remedy, and old programs are dropped."""
    for name, number in (("MANY", 3), ("TOO_MANY", 5)):
        monkeypatch.setattr(_compiled, name, number)
    cleared = []
    monkeypatch.setattr(_compiled, "_forget_all", lambda: cleared.append(True))
    call = compiled(lambda f, x: f(x))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert [float(call(made(float(k)), 2.0)) for k in range(6)] == [2.0 * k for k in range(6)]
    assert len(found) == 1
    message = str(found[0].message)
    assert "The function <lambda> (line" in message
    assert "compiled 3 times" in message
    assert "jax.tree_util.Partial" in message
    assert cleared == [True]


def test_garbage_is_not_collected_while_a_program_is_traced():
    """Collections stop while JAX traces, and go on afterwards, also after an error; where they are off, they stay off."""
    seen = []

    def traced(x, fails):
        seen.append(gc.isenabled())
        if fails:
            raise RuntimeError("in the trace")
        return x

    run = compiled(traced)
    run(np.zeros(2), None)
    with pytest.raises(RuntimeError, match="in the trace"):
        run(np.zeros(3), "fails")
    assert seen == [False, False]
    assert gc.isenabled()
    gc.disable()
    try:
        run(np.zeros(4), None)
        assert not gc.isenabled()
    finally:
        gc.enable()
