"""Few lanes as one fusion: XLA's program, and its values against those of the plain function."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxhamel._lanes._program import scalarise
from jaxhamel._lanes._tracing import OPTIONS, takes_fusions
from jaxhamel._lanes._xla_cpu import _fewer_vectors, _fusion, _loop_fusion, _one_loop
from jaxhamel._lanes._xla_cpu._fusion import TAKEN, fusions_work, is_taken
from jaxhamel._lanes._xla_cpu._loop_fusion import fused_loop, separated
from jaxhamel._lanes._xla_cpu._prologue import split
from jaxhamel.ensemble import lanes

pytestmark = pytest.mark.skipif(not fusions_work(), reason="not tested with this XLA")

X = np.random.default_rng(0).normal(size=3)


def every(x):
    """All operations that a fusion may contain, on both floating precisions, integers and Booleans."""
    a, b = x[0], jnp.abs(x[1]) + 0.5
    flags = (a > b) | (a <= 0.3), (a >= b) ^ (a < 1.0), jnp.isfinite(a) & ~(a == b) & (a != 2.0)
    powers = b**3, b**a, lax.rsqrt(b), jnp.sqrt(b), jnp.log(b), jnp.square(a), jnp.sign(a)
    rounded = jnp.floor(5 * a), jnp.ceil(5 * a), lax.round(5 * a), lax.rem(a, b)
    limits = jnp.maximum(a, b), jnp.minimum(a, x[2]), jnp.clip(a, -0.1, 0.1)
    single = a.astype(jnp.float32) * 3
    whole = jnp.floor(9 * b).astype(int) % 4
    chosen = jnp.where(flags[0], jnp.exp(a) - b, jnp.tanh(a) / b), jnp.sin(a), jnp.cos(b), -a
    inverses = jnp.arccos(x[2] / 4), jnp.arcsin(x[2] / 4), jnp.arctan(a), jnp.cbrt(a)
    inverses += jnp.arccosh(b + 1), jnp.arcsinh(a), jnp.arctanh(x[2] / 4), jnp.tan(a)
    sigmoids = lax.erf(a), lax.erfc(a), lax.logistic(a), jnp.sinh(a), jnp.cosh(a)
    sigmoids += jnp.exp2(a), jnp.expm1(a), jnp.log1p(b)
    found = flags, powers, rounded, limits, inverses, sigmoids, chosen
    return *found, single, whole.astype(jnp.int32)


def text_of(size):
    return jax.jit(lanes(every)).lower(np.tile(X, (size, 1))).as_text()


def test_few_lanes_are_one_fusion():
    """One lane is a fusion and not a window reduction, whose function would have a buffer for each operation."""
    assert text_of(1).count('"mhlo.fusion"(') == 1
    assert '"mhlo.fusion"' not in text_of(20)


@pytest.mark.parametrize("size", [1, 3])
def test_a_fusion_has_the_values_of_the_function(size):
    """One lane and three lanes with different numbers."""
    x = np.random.default_rng(size).normal(size=(size, 3))
    right, found = jax.jit(jax.vmap(every))(x), jax.jit(lanes(every))(x)
    jax.tree.map(agree, found, right)


def agree(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-6 if a.dtype == "float32" else 1e-14)


@pytest.fixture
def of_any_length(monkeypatch):
    monkeypatch.setattr(_one_loop, "SHORTEST_FUSION", 0)


def test_many_lanes_are_one_fusion_with_the_values_of_the_function(of_any_length):
    """A program that is compiled for fusions takes 20 lanes as one fusion."""
    x = np.random.default_rng(0).normal(size=(20, 3))
    program = jax.jit(takes_fusions(lanes(every)), compiler_options=OPTIONS).lower(x)
    assert program.as_text().count('"mhlo.fusion"(') == 1
    jax.tree.map(agree, program.compile()(x), jax.jit(jax.vmap(every))(x))


def test_many_results_are_written_by_several_fusions(of_any_length, monkeypatch):
    """A program with more vectors than LLVM vectorises is several fusions; if these repeated too much it stays one."""
    x = np.random.default_rng(3).normal(size=(20, 3))
    results = len(jax.tree.leaves(every(x[0])))
    for most, repeated, count in ((3 + -(-results // 3), 4, 3), (3 + -(-results // 3), 1, 1)):
        monkeypatch.setattr(_fewer_vectors, "MOST_VECTORS", most)
        monkeypatch.setattr(_fewer_vectors, "MOST_REPEATED", repeated)
        program = jax.jit(takes_fusions(lanes(every)), compiler_options=OPTIONS).lower(x)
        assert program.as_text().count('"mhlo.fusion"(') == count
        if count > 1:
            jax.tree.map(agree, program.compile()(x), jax.jit(jax.vmap(every))(x))


def neighbours(x):
    """Each result needs two inputs, and the last one all of them."""
    return *(jnp.sin(a) * b for a, b in pairwise(x)), jnp.sum(x**2)


def test_many_inputs_are_read_by_several_fusions(of_any_length, monkeypatch):
    """Results that need few inputs are computed by programs of few vectors; a result that needs too many has its own."""
    monkeypatch.setattr(_fewer_vectors, "MOST_VECTORS", 9)
    x = np.random.default_rng(5).normal(size=(20, 12))
    program = jax.jit(takes_fusions(lanes(neighbours)), compiler_options=OPTIONS).lower(x)
    assert program.as_text().count('"mhlo.fusion"(') == 4
    jax.tree.map(agree, program.compile()(x), jax.jit(jax.vmap(neighbours))(x))


def test_parts_of_a_program_have_few_vectors(monkeypatch):
    """Each result is in one part; only that of a result of all inputs reads and writes more vectors than allowed."""
    monkeypatch.setattr(_fewer_vectors, "MOST_VECTORS", 9)
    program = scalarise(jax.make_jaxpr(neighbours)(np.ones(12)), [True])
    ends = program.ends()
    whole = split(program.graph, ends)
    *narrow, wide = _fewer_vectors.with_fewer_vectors(program.graph, whole)
    assert all(len(part.given) + len(part.results) <= 9 for part in narrow)
    assert wide.results == ends[-1:]
    assert len(wide.given) == 12
    assert sorted(i for part in (*narrow, wide) for i in part.results) == sorted(ends)


def shared_numbers(x, a):
    """Two results; the number `a` itself is read for the first only, and the second reads a product that all lanes share."""
    return jnp.sin(x) + a[0], jnp.cos(x) * (a[0] * a[1])


def test_each_fusion_reads_all_its_inputs(of_any_length, monkeypatch):
    """An input that only the prologue needs for a part's results is none of its inputs: XLA would end with an error."""
    monkeypatch.setattr(_fewer_vectors, "MOST_VECTORS", 2)
    x, a = np.random.default_rng(6).normal(size=20), np.array([0.3, 0.7])
    of_all = lanes(shared_numbers, (0, None))
    program = jax.jit(takes_fusions(of_all), compiler_options=OPTIONS).lower(x, a)
    assert program.as_text().count('"mhlo.fusion"(') == 2
    jax.tree.map(agree, program.compile()(x, a), jax.jit(jax.vmap(shared_numbers, (0, None)))(x, a))


@pytest.mark.parametrize(("operations", "fusions"), [(31_000, 1), (81_000, 0)])
def test_a_long_program_is_one_fusion(operations, fusions):
    """A program without a shorter form is one fusion, though it is longer than a step that has one."""

    def long(x):
        for _ in range(operations // 2):
            x = x * x + 0.25
        return x

    program = scalarise(jax.make_jaxpr(long)(1.0), [True], whole=True)
    graph, ends = program.graph, program.ends()
    shapes = jax.ShapeDtypeStruct((20,), float)

    def found(x):
        values = dict(zip(program.inputs[0].ravel().tolist(), [x], strict=True))
        known = _one_loop._in_fusions(graph, split(graph, ends), values, 20)
        return x if known is None else known[ends[0]]

    text = jax.jit(takes_fusions(found), compiler_options=OPTIONS).lower(shapes).as_text()
    assert text.count('"mhlo.fusion"(') == fusions


def test_rows_are_separated_by_fusions(monkeypatch):
    """The rows of a matrix, two or three of them in a fusion, and their derivatives; without fusions the same."""
    monkeypatch.setattr(_loop_fusion, "MOST_ROWS", 3)
    matrix = np.random.default_rng(4).normal(size=(5, 20))
    program = jax.jit(takes_fusions(separated), compiler_options=OPTIONS).lower(matrix)
    assert program.as_text().count('"mhlo.fusion"(') == 2
    np.testing.assert_array_equal(program.compile()(matrix), matrix)
    np.testing.assert_array_equal(jax.jit(separated)(matrix), matrix)
    found = jax.jvp(takes_fusions(separated), (matrix,), (2 * matrix,))[1]
    np.testing.assert_array_equal(found, 2 * matrix)


def test_a_program_that_is_not_compiled_for_fusions_has_none():
    """A program compiled with XLA's default options contains no fusion, which would abort the process, even if a part
    was traced for fusions."""
    f = lambda a: [a * a + 1.0]
    run = lambda x: fused_loop(f, [x], 20, loops=f)[0]
    text = lambda run: jax.jit(run).lower(np.ones(20)).as_text()
    assert "mhlo.fusion" not in text(run)
    assert "mhlo.fusion" in text(takes_fusions(run))
    x = np.arange(20.0)
    np.testing.assert_array_equal(jax.jit(run)(x), x * x + 1)
    np.testing.assert_array_equal(jax.jvp(run, (x,), (x,))[1], 2 * x * x)
    np.testing.assert_array_equal(jax.vmap(run)(x * np.ones((2, 1)))[1], x * x + 1)


def test_all_operations_have_been_seen_in_a_fusion():
    """XLA may abort at an operation that it cannot fuse, so each operation on the list is compiled by the tests above."""
    seen = {e.primitive.name for e in _fusion._operations(jax.make_jaxpr(every)(X).jaxpr)}
    of_copies = {"add_any", "broadcast_in_dim", "clamp", "copy", "reshape"}
    assert TAKEN - seen <= of_copies


def test_what_xla_may_not_take_stays_a_window():
    """Library functions, results that are arguments, and half precision are not fused; `lgamma` stays a window
    reduction."""
    for f in (lax.nextafter, lambda a, b: a, lambda a, b: a.astype(jnp.float16)):
        assert not is_taken(jax.make_jaxpr(f)(1.0, 2.0))
    text = jax.jit(lanes(lax.lgamma)).lower(X[:1]).as_text()
    assert "mhlo.fusion" not in text
    assert "reduce_window" in text


def test_a_fusion_is_differentiated_and_mapped_as_the_function_is():
    """Derivatives and `vmap` of a fusion follow the rules of its operations."""
    program = jax.make_jaxpr(lambda a, b: [a * b, a - b])(1.0, 2.0)
    run = lambda a, b: _fusion._fusion_p.bind(a, b, program=program)
    found = jax.jvp(run, (3.0, 2.0), (1.0, 0.5))
    assert [*map(float, found[0] + found[1])] == [6.0, 1.0, 3.5, 0.5]
    assert jax.vmap(run, (0, None))(jnp.arange(2.0), 2.0)[0].tolist() == [0.0, 2.0]
