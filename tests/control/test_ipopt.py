"""IPOPT on the transcription of collocation: its derivatives, its agreement with the package's own solver, and the
messages if it is missing."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import control
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._ipopt._ipopt import _SparseProgram
from jaxhamel.control._ipopt._sparse import derivatives_at, values_at, vector_of
from tests.control.cart import least_energy
from tests.control.test_sizes import pushed, value


def squared(t, q, u, control):
    return q**2


def every_kind():
    """A problem with conditions at the end, a path limit, a free initial state and a free end time."""
    terms = (
        control.StateAtEnd(q=jnp.zeros(1), u=-jnp.ones(1)),
        control.PathLimit(squared, upper=1 / 81, name="place"),
        control.FreeInitialState(q=(0,), u=False, lower=-0.01, upper=0.01),
        control.FreeEndTime(0.5, 2.0),
    )
    return least_energy(u0=jnp.ones(1), constraints=terms)


def test_the_sparse_derivatives_are_those_of_the_program():
    program = _SparseProgram(CollocationSearch(control.Collocation(2, 2), every_kind()))
    random = np.random.default_rng(0)
    start = np.asarray(vector_of(program.like))
    z, y = start + 0.1 * random.normal(size=start.size), random.normal(size=program._rows + 4)

    def values(z):
        cost, constraints = values_at(program.transcription, program.like, z)
        return jnp.concatenate([cost[None], constraints])

    def lagrangian(z):
        return jnp.dot(jnp.concatenate([jnp.ones(1), y]), values(z))

    wanted = jax.jit(lambda z: (jax.jacfwd(values)(z), jax.hessian(lagrangian)(z)))(z)
    gradient, entries, of_both = derivatives_at(program.transcription, program.like, z, y)
    jacobian, hessian = np.zeros((y.size, z.size)), np.zeros((z.size, z.size))
    at, below = program.jacobian, program.hessian
    np.add.at(jacobian, (at.rows, at.columns), np.asarray(entries)[at.kept])
    np.add.at(hessian, (below.rows, below.columns), np.asarray(of_both)[below.kept])
    np.testing.assert_allclose(np.concatenate([gradient[None], jacobian]), wanted[0], atol=1e-12)
    np.testing.assert_allclose(hessian, np.tril(wanted[1]), atol=1e-11)


def test_ipopt_agrees_with_collocation():
    pytest.importorskip("ipyopt")
    direct = control.Collocation(8, 3)
    found = [control.solve(every_kind(), method) for method in (control.Ipopt(direct), direct)]
    assert all(result.certificate.holds for result in found if result.certificate is not None)
    np.testing.assert_allclose(found[0].cost, found[1].cost, rtol=1e-8)


def test_ipopt_is_refused_where_it_cannot_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipyopt", None)
    with pytest.raises(
        ImportError, match=r"needs the package ipyopt.*pip install jaxhamel\[ipopt\]"
    ):
        control.solve(least_energy(), control.Ipopt())
    with pytest.raises(TypeError, match=r"`direct` is .*; it must be a control.Collocation"):
        control.Ipopt(direct=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"`options` is .*; it must be a tuple of pairs"):
        control.Ipopt(options={"tol": 1.0})  # pyright: ignore[reportArgumentType]


def test_ipopt_works_in_sizes():
    """A cart that moves by 1e6 m takes no more iterations than by 1 m (17 and 9 of IPOPT in metres and newtons): J is
    12.5 − 50 √0.15/3 in these units. The search goes on from IPOPT's solution with nodes at the kinks of the force."""
    pytest.importorskip("ipyopt")
    iterations = []
    for distance in (1.0, 1e6):
        limit = control.PathLimit(value, -5 * distance, 5 * distance, name="force")
        problem = pushed(1.0, distance, 1.0, limit)
        result = control.solve(problem, control.Ipopt(control.Collocation(3, 3)))
        assert result.certificate is not None
        assert result.certificate.holds
        cost = 12.5 - 50 * 0.15**0.5 / 3
        np.testing.assert_allclose(result.cost / distance**2, cost, rtol=1e-8)
        iterations.append(len(result.history["cost"]))
    assert iterations[1] <= iterations[0]


def test_ipopt_ends_while_time_is_left_to_compile_the_search(monkeypatch):
    """The first iteration comes after 2 s, the second one after 4 s, and 5 s are given: after the second one less than 2 s
    are left."""
    times = iter(range(1, 100))
    monkeypatch.setattr(CollocationSearch, "elapsed", lambda search: float(next(times)))
    search = CollocationSearch(control.Collocation(2, 2, max_seconds=5.0), every_kind())
    program = _SparseProgram(search)
    numbers = (1.0, 0.0, 0.0, 1e-3, 0.0, 0.0, 0.0, 1.0, 1)
    assert [program._note(0, k, *numbers) for k in range(2)] == [True, False]
    assert program.compiling == 2.0
