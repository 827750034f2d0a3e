"""Loops whose turns have layers of a network stay loops in lanes, each turn of which is divided, against `jax.vmap`."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

from jaxhamel._lanes._divided import _array_loops
from jaxhamel._lanes._divided._array_parts import array_parts
from jaxhamel._lanes._divided._entries import with_entries_in_lanes
from jaxhamel._lanes._transform import lanes
from jaxhamel._lanes._xla_cpu._jit import jit

LANES, UNITS, TURNS = 20, 12, 5
RNG = np.random.default_rng(7)
LAYER, FEED = RNG.normal(size=(UNITS, UNITS)) / 3, RNG.normal(size=(UNITS, 3)) / 2
LAYERS, READ = RNG.normal(size=(TURNS, UNITS, UNITS)) / 3, RNG.normal(size=(3, UNITS)) / 3
STATES, TIMES = RNG.normal(size=(LANES, 3)), np.linspace(0.0, 1.0, TURNS)
SHARED = {"layer": LAYER, "feed": FEED, "layers": LAYERS, "read": READ}


def hidden(p, x, h):
    return jnp.tanh(p["layer"] @ h + p["feed"] @ x)


def recurrent(p, x):
    """A hidden state as carry, which only layers read."""
    turn = lambda h, t: (hidden(p, x * jnp.cos(t), h), None)
    return p["read"] @ jax.lax.scan(turn, jnp.zeros(UNITS, x.dtype), TIMES.astype(x.dtype))[0]


def stacked(p, x):
    """The weights of each turn from a scanned array, another layer before the loop and one after it."""
    turn = lambda h, w: (jnp.tanh(w @ h), None)
    return p["read"] @ (
        p["layer"] @ jax.lax.scan(turn, p["layer"] @ (p["feed"] @ x), p["layers"])[0]
    )


def by_counter(p, x):
    """The weights of each turn by its counter, and few numbers of a lane between the turns."""

    def turn(i, y):
        z = jnp.stack([jnp.sin(y[0] * y[1]), y[1], jnp.exp(-(y[2] ** 2))])
        return y + 0.3 * p["read"] @ jnp.tanh(p["layers"][i] @ (p["feed"] @ z))

    return jax.lax.fori_loop(0, TURNS, turn, x)


def filtered(p, x):
    """Scanned and stacked numbers of each lane, from the last turn to the first; scalar operations read the hidden state."""

    def turn(carry, row):
        h, total, count = carry
        h = hidden(p, row + h[0], h)
        return (h, total + h[1] * jnp.sin(row), count + 1), (p["read"] @ h, h[2] * row, h)

    rows = jnp.outer(jnp.sin(jnp.arange(1.0, 1.0 + TURNS)).astype(x.dtype), x)
    start = jnp.zeros(UNITS, x.dtype), x, jnp.array(0)
    (h, total, _), (seen, more, states) = jax.lax.scan(turn, start, rows, reverse=True)
    return h[:3] + total + jnp.sum(seen * more, 0) + jnp.mean(states**2)


def nested(p, x):
    """A loop in each turn of a loop, two loops that do not read each other's results, and one that reads both."""

    def turn(y, t):
        h = jax.lax.fori_loop(0, 2, lambda i, h: hidden(p, y + t, h), jnp.zeros(UNITS, x.dtype))
        return y + 0.2 * p["read"] @ h, jnp.sum(y)

    y, sums = jax.lax.scan(turn, x, TIMES.astype(x.dtype))
    return recurrent(p, y + recurrent(p, x) * recurrent(p, 2 * x)) * jnp.mean(sums)


def until(p, x):
    """A number of turns that each lane has for itself."""

    def turn(state):
        i, h = state
        return i + 1, hidden(p, x, h)

    turns = 1 + jnp.astype(3 * jnp.abs(jnp.sin(x[0])), int)
    start = 0, jnp.zeros(UNITS, x.dtype)
    return p["read"] @ jax.lax.while_loop(lambda state: state[0] < turns, turn, start)[1]


LOOPS = [recurrent, stacked, by_counter, filtered, nested, until]
BOTH_MODES = LOOPS[:-1]  # `until` has no derivative in reverse mode
AXES = (None, 0)


def given(dtype=np.float64, size=LANES):
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), (SHARED, STATES[:size]))


def compared(found, exact, dtype=np.float64):
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True):
        assert x.dtype == y.dtype
        room = 300 * float(np.finfo(dtype).eps) * float(jnp.abs(y).max())
        np.testing.assert_allclose(x, y, rtol=0, atol=room)


def part_kinds(f, size=LANES):
    closed = jax.make_jaxpr(f)(SHARED, STATES[0])
    flags = [False] * (len(closed.in_avals) - 1) + [True]
    return [part.kind for part in array_parts(closed, flags, size).parts]


@pytest.mark.parametrize("f", LOOPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_are_those_of_vmap(f, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = jit(lanes(f, AXES))(*given(dtype))
    compared(found, jax.vmap(f, AXES)(*given(dtype)), dtype)


@pytest.mark.parametrize("f", LOOPS)
def test_forward_mode_is_that_of_vmap(f):
    along = jax.tree.map(jnp.cos, given())
    found, exact = (
        jit(lambda m=m: jax.jvp(m(f, AXES), given(), along))() for m in (lanes, jax.vmap)
    )
    compared(found, exact)


@pytest.mark.parametrize("size", [LANES, 3])
@pytest.mark.parametrize("f", BOTH_MODES)
def test_reverse_mode_is_that_of_vmap(f, size):
    """By weights and by states; also with few lanes, where layers written out would compile for minutes."""

    def gradient(mapped):
        total = lambda *x: jnp.sum(jnp.sin(mapped(f, AXES)(*x)))
        return jit(jax.grad(total, (0, 1)))(*given(size=size))

    compared(gradient(lanes), gradient(jax.vmap))


@pytest.mark.parametrize("f", [recurrent, by_counter])
def test_second_derivatives_are_those_of_vmap(f):
    def along(mapped):
        total = lambda *x: jnp.sum(jnp.sin(mapped(f, AXES)(*x)))
        return jit(lambda *x: jax.jvp(jax.grad(total, (0, 1)), x, x)[1])(*given())

    compared(along(lanes), along(jax.vmap))


def test_loops_are_parts_of_their_own():
    """No loop is an operation on arrays under `vmap`; layers around a loop are other parts."""
    assert part_kinds(by_counter) == ["loop"]
    assert part_kinds(stacked) == ["arrays", "loop", "arrays"]
    assert part_kinds(nested).count("loop") == 4
    for f in LOOPS:
        for size in (LANES, 1):
            assert "loop" in part_kinds(f, size)


def test_layers_of_a_turn_have_no_vector_for_each_weight():
    """The gradient by the weights consists of products that sum over all lanes."""
    total = lambda *x: jnp.sum(lanes(by_counter, AXES)(*x))
    program = str(jax.make_jaxpr(jax.grad(total))(*given()))
    assert f"f64[{UNITS},{UNITS}] = dot_general" in program
    assert f"f64[{LANES},{UNITS},{UNITS}]" not in program
    assert f"f64[{LANES},{UNITS},3]" not in program


@pytest.mark.parametrize(
    ("f", "wanted"),
    [
        (recurrent, [True]),
        (stacked, [True]),
        (filtered, [True, False, False]),
        (by_counter, [False, False]),
        (until, [False, True]),
    ],
)
def test_hidden_states_are_carried_as_arrays(f, wanted, monkeypatch):
    """A state that layers read and compute is an array over the lanes, also if scalar operations read some of its entries;
    one that scalar operations compute is carried as vectors."""
    loops, run = [], _array_loops.run_loop
    monkeypatch.setattr(
        _array_loops, "run_loop", lambda loop, *more: loops.append(loop) or run(loop, *more)
    )
    jax.eval_shape(lanes(f, AXES), *given())
    (loop,) = loops
    assert loop.split(loop.whole)[2] == wanted


def test_wide_loop_runs_under_vmap_with_a_warning():
    """A turn with layers that is passed more vectors than a loop over the lanes takes."""

    def f(p, x):
        def turn(carry, _):
            matrix, h = carry
            h = hidden(p, x, h) * jnp.sum(matrix)
            return (jnp.sin(matrix @ matrix) / (2 + matrix), h), None

        matrix = jnp.outer(jnp.linspace(0.0, 1.0, 32), jnp.linspace(1.0, 2.0, 32)) * x[0] ** 2
        return jax.lax.scan(turn, (matrix, jnp.zeros(UNITS)), None, 2)[0][1]

    with pytest.warns(UserWarning, match="more than 900 numbers of each lane in a turn"):
        found = jit(lanes(f, AXES))(*given())
    compared(found, jax.vmap(f, AXES)(*given()))


def test_operations_of_a_loop_count_for_each_turn():
    """Two for each term of a product, one for each entry of the other operations."""

    def operations(turns):
        shared = SHARED | {"layers": LAYERS[:turns]}
        closed = jax.make_jaxpr(stacked)(shared, STATES[0])
        return array_parts(closed, [False] * len(SHARED) + [True], LANES).operations

    assert operations(5) - operations(3) == 2 * (2 * UNITS**2 + UNITS)


def test_functions_that_end_a_turn_stay_operations_on_arrays():
    """Others have a lane for each entry in programs with fusions; XLA vectorises those by itself."""
    program = jax.make_jaxpr(lambda h: jnp.tanh(jnp.sin(h)))(STATES[0])
    for results, wanted in ((True, ["sin", "tanh"]), (False, ["sin"])):
        names = []

        def of_entries(of_one, x, names=names):
            names.append(of_one.jaxpr.eqns[0].primitive.name)
            return jaxpr_as_fun(of_one)(x)[0]

        (found,) = with_entries_in_lanes(program, of_entries, results)(jnp.asarray(STATES[0]))
        np.testing.assert_allclose(found, np.tanh(np.sin(STATES[0])), rtol=1e-14)
        assert names == wanted
