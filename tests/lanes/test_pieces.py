"""Long programs as several loops: sums over many masses in an order that passes few values between loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel._lanes._graph._ranks import entries_axis, ranked
from jaxhamel._lanes._program import scalarise
from jaxhamel._lanes._written_out import estimated_operations
from jaxhamel._lanes._xla_cpu import _pieces, _prologue
from jaxhamel._lanes._xla_cpu._one_loop import one_loop_works
from jaxhamel._lanes._xla_cpu._pieces import LONGEST_PIECE, pieces, total, vectors_written
from jaxhamel._lanes._xla_cpu._prologue import split
from jaxhamel.ensemble import lanes

RNG = np.random.default_rng(3)


def pulled(t, x, mass, arm):
    """Moments of masses that swing in planes, first about a point, then about a point that depends on these moments."""
    in_a_plane = np.resize([[0.0, 1, 1], [1, 0, 1], [1, 1, 0]], arm.shape)
    swing = in_a_plane * (arm * jnp.sin(t + arm) + jnp.cos(t * mass)[:, None])
    for _ in range(2):
        away = swing + x[None]
        inertia = jnp.einsum("i,ij,ik->jk", mass, away, away)
        x = x + jnp.sum(jnp.cross(away, swing) * mass[:, None], axis=0) / inertia[0, 0]
    return x, jnp.sum(mass[:, None] * (swing - x[None]) ** 2, axis=0)


def arguments(masses: int):
    return (
        RNG.uniform(),
        RNG.normal(size=(18, 3)),
        *(RNG.uniform(size=s) for s in (masses, (masses, 3))),
    )


def program(masses: int):
    t, x, mass, arm = arguments(masses)
    return scalarise(jax.make_jaxpr(pulled)(t, x[0], mass, arm), [False, True, False, False])


def pieces_of(masses: int):
    found = program(masses)
    graph, parts = found.graph, split(found.graph, found.ends())
    return graph, parts, pieces(graph, parts)


def check_pieces(graph, parts, found):
    """Checks that each loop is short enough, that all results are computed, and that no loop reads a value before an
    earlier loop gives it."""
    assert len(found) > 1
    assert max(total(graph, piece.inside) for piece in found) <= LONGEST_PIECE
    known = set(parts.given)
    for piece in found:
        assert set(piece.given) <= known
        known |= set(piece.results)
    assert set(parts.results) <= known


@pytest.mark.parametrize("masses", [40, 80])
def test_what_is_handed_on_does_not_grow_with_the_masses(masses):
    """Fewer than 25 vectors per loop are passed on for 40 and for 80 masses. Shared values are computed again instead."""
    graph, parts, found = pieces_of(masses)
    assert len(found) > 1
    assert max(total(graph, piece.inside) for piece in found) <= LONGEST_PIECE
    assert set(parts.results) <= {i for piece in found for i in piece.results}
    known = set(parts.given)
    for piece in found:
        assert set(piece.given) <= known
        known |= set(piece.results)
        assert all(
            graph.nodes[i].batched for i in piece.results
        )  # shared values are computed again
    assert vectors_written(graph, found) < 25 * len(found)


def test_the_last_cut_is_known_until_another_program_is_asked_for():
    """The last cut is cached. Choosing between two programs and running the better one computed it twice: 0.6 s of a
    first call with ten masses."""
    graph, parts, found = pieces_of(40)
    assert pieces(graph, split(graph, parts.results)) is found
    some = split(graph, parts.results[:1])
    assert [i for piece in pieces(graph, some) for i in piece.results if i in parts.results] == (
        some.results
    )


def test_mass_by_mass_is_an_order():
    """Each operand precedes its use, and at most 30 values are alive at once; in the original order there are more than
    120."""
    graph, parts, _ = pieces_of(40)
    own = [i for i in parts.inside if graph.nodes[i].batched]
    order = ranked(graph, own)
    assert sorted(order) == own
    place = {i: n for n, i in enumerate(order)}
    assert all(
        place[j] < n for n, i in enumerate(order) for j in graph.nodes[i].operands if j in place
    )
    alive = [
        int(np.max(_pieces._crossing(*_pieces._uses(graph, each, [])))) for each in (own, order)
    ]
    assert alive[1] < 30 < 120 < alive[0]  # 16 and 137


def folded(x):
    """Combines each number with all others in both directions, so that many values are needed much later."""
    for _ in range(2):
        y = [x[0] * jnp.sin(x[1])]
        for i in range(1, len(x)):
            y.append(y[-1] * x[i] + x[len(x) - 1 - i])
        x = y[::-1]
    return jnp.stack(x)


@pytest.mark.parametrize(("numbers", "length"), [(40, 20_000), (24, 80)])
def test_no_loop_has_more_vectors_than_llvm_takes(numbers, length, monkeypatch):
    """Loops are cut earlier if they would read and write more than 60 vectors; a vector that is read also counts as
    written."""
    monkeypatch.setattr(_pieces, "LONGEST_PROGRAM", length)
    monkeypatch.setattr(_pieces, "LONGEST_PIECE", length)
    monkeypatch.setattr(_pieces, "MOST_VECTORS", 60)
    monkeypatch.setattr(
        _pieces, "_SLOWER", 100
    )  # a high price per vector makes it cut, although there is little to compute
    found = scalarise(jax.make_jaxpr(folded)(jnp.ones(numbers)), [True])
    graph, parts = found.graph, split(found.graph, found.ends())
    loops = pieces(graph, parts)
    assert len(loops) > 1
    for loop in loops:
        given = [i for i in loop.given if graph.nodes[i].batched]
        assert len(given) + max(len(given), len(loop.results)) <= 60
    x = RNG.uniform(0.5, 0.9, size=(3, numbers))
    np.testing.assert_allclose(jax.jit(lanes(folded))(x), jax.vmap(folded)(x), rtol=1e-12)


def test_the_axis_is_that_of_the_masses():
    t, x, mass, arm = arguments(7)
    assert entries_axis(jax.make_jaxpr(pulled)(t, x[0], mass, arm)) == 7
    assert entries_axis(jax.make_jaxpr(jnp.cross)(x[0], x[1])) is None


def test_several_loops_are_vmap(monkeypatch):
    """Loops of at most 450 operations, with a sum across several of them and sines in each, give the values of `vmap`."""
    monkeypatch.setattr(_pieces, "LONGEST_PIECE", 450)
    monkeypatch.setattr(_pieces, "LONGEST_PROGRAM", 450)
    monkeypatch.setattr(_prologue, "_MOST_SHARED", 0)
    values = arguments(8)
    axes = (None, 0, None, None)
    run = jax.jit(lanes(pulled, axes))
    loops = run.lower(*values).as_text().count("reduce_window")
    assert loops > 2 if one_loop_works() else loops == 0
    for a, b in zip(run(*values), jax.vmap(pulled, axes)(*values), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_numbers_that_all_share_and_that_fill_a_loop():
    """Each lane operation needs more shared operations than one loop can hold, so the shared operations get loops of
    their own."""

    def f(x, s):
        shared = jnp.sum(jnp.sin(s[:, None] * s[None, :]))
        return x[None, :] * (shared * s)[:, None]

    closed = jax.make_jaxpr(f)(np.ones(3), np.ones(50))
    found = scalarise(closed, [True, False])
    graph, parts = found.graph, split(found.graph, found.ends())
    check_pieces(graph, parts, pieces(graph, parts))


def test_how_long_a_function_is():
    """A sine counts thirty operations; a function that cannot be written out has the length 0."""
    x, s = jnp.ones((4, 3)), jnp.ones(3)
    assert estimated_operations(lambda x, s: jnp.sin(x) * s, (True, False), x, s) == 3 * 31
    assert (
        estimated_operations(lambda x, s: jnp.linalg.eigvalsh(jnp.outer(x, s)), (True, False), x, s)
        == 0
    )


def test_arrays_without_numbers_beside_long_ones():
    """An empty array of shape (6, 0), as in a system with six coordinates and no masses, does not disturb the choice of
    the entries' axis."""
    none = jnp.zeros((6, 0))
    f = lambda x: x * jnp.sum(x) + (none @ none.T) @ x
    x = np.random.default_rng(2).normal(size=(20, 6))
    np.testing.assert_allclose(lanes(f)(x), jax.vmap(f)(x), rtol=1e-14)
