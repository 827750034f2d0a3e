"""Redundant constraints: multipliers of least norm on all one-forms, and messages about one-forms that do not fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import SE2, Euclidean, acceleration, constraint_force, examine, simulate
from jaxhamel.mechanics import System


class Cart(System):
    """Wheels at the places y on one axle; none slips sideways, so all give the same one-form."""

    mass: jax.Array
    places: jax.Array
    space = SE2()
    n_constraints = 1

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(jnp.stack([0.3 * self.mass, self.mass, self.mass]) * v, v)

    def frame(self, t, q):
        return jnp.eye(3, dtype=q.dtype)[jnp.array([2, 0, 1])]

    def constraints(self, t, q):
        return jnp.stack([0.0 * self.places, 0.0 * self.places, jnp.ones_like(self.places)], axis=1)


def test_wheels_on_one_axle_share_the_side_force():
    """A body that turns at ω and rolls at v needs m v ω towards the centre; three wheels take a third each."""
    cart = Cart(jnp.asarray(2.0), jnp.array([-0.5, 0.0, 0.5]))
    at = (0.0, jnp.zeros(3), jnp.array([0.7, 1.5]))
    np.testing.assert_allclose(
        constraint_force(cart, *at), np.full(3, 2.0 * 0.7 * 1.5 / 3), rtol=1e-14
    )
    np.testing.assert_allclose(acceleration(cart, *at), np.zeros(2), atol=1e-14)


def test_a_cart_that_a_jitted_function_closes_over():
    """Only the speed is traced: the list of one-forms is checked, and the motion is a circle of radius v/ω."""
    cart = Cart(jnp.asarray(2.0), jnp.array([-0.5, 0.0, 0.5]))
    start, ts = jnp.zeros(3), jnp.array([0.0, 1.0])
    end = jax.jit(lambda u: simulate(cart, start, u, ts).q_end)(jnp.array([0.7, 1.5]))
    wanted = [0.7, 1.5 / 0.7 * np.sin(0.7), 1.5 / 0.7 * (1.0 - np.cos(0.7))]
    np.testing.assert_allclose(end, wanted, rtol=1e-7)
    turned = Turned(*jax.tree.leaves(cart))
    with pytest.raises(ValueError, match="row 0 of `constraints"):
        jax.jit(lambda u: simulate(turned, start, u, ts).u)(jnp.array([0.7, 1.5]))


def test_examine_knows_the_list():
    """`examine` reports three one-forms of rank 1; a list with another span is a problem."""
    cart = Cart(jnp.asarray(2.0), jnp.array([-0.5, 0.0, 0.5]))
    found = examine(cart, jnp.zeros(3))
    assert found.holds
    assert (found.redundant.shape, found.redundant.rank) == ((3, 3), 1)
    assert "redundant          3 one-forms listed, of rank 1; multipliers of least norm" in str(
        found
    )
    found = examine(Cart(jnp.asarray(2.0), jnp.zeros(1)), jnp.zeros(3))
    assert "one-forms          1 listed, independent" in str(found)
    (problem,) = examine(Turned(*jax.tree.leaves(cart)), jnp.zeros(3)).problems
    assert "row 0 of `constraints(t, q)` of Turned is no combination" in problem


class Narrow(System):
    """Three one-forms of rank 2, two of which differ by an angle of 1e-8; the frame has the axes."""

    space = Euclidean(3)
    n_constraints = 2

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(v, v) - jnp.dot(jnp.array([3.0, 2e-8, 0.0]), q)

    def constraints(self, t, q):
        return jnp.array([[1.0, 0.0, 0.0], [1.0, 1e-8, 0.0], [0.0, 1e-8, 0.0]])


def test_nearly_dependent_one_forms_are_independent():
    """Cᵀ μ balances the load (3, 2e-8, 0) with the least norm, against NumPy on rows scaled to unit length."""
    q = jnp.zeros(3)
    found = examine(Narrow(), q)
    assert found.holds
    assert found.redundant.rank == 2
    force = constraint_force(Narrow(), 0.0, q, jnp.zeros(1))
    rows = np.asarray(Narrow().constraints(0.0, q))
    wanted = np.linalg.pinv(rows.T * [[1.0], [1e8], [1.0]]) @ [3.0, 2.0, 0.0]
    np.testing.assert_allclose(force, wanted, rtol=1e-7)


class Turned(Cart):
    """A list of one-forms that also forbids rolling."""

    def constraints(self, t, q):
        return super().constraints(t, q)[:, ::-1] + super().constraints(t, q)


class Spread(System):
    """Two one-forms that turn with q, listed as four combinations of them."""

    shares: jax.Array
    space = Euclidean(3)
    n_constraints = 2

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(jnp.array([1.0, 2.0, 3.0]) * v, v) - 9.81 * q[2]

    def frame(self, t, q):
        return jnp.eye(3) + 0.2 * jnp.outer(jnp.sin(q), jnp.array([1.0, -2.0, 0.5]))

    def constraints(self, t, q):
        return self.shares @ self.frame(t, q)[:2]


class OfTwo(Spread):
    """The same constraints without the list, with two multipliers."""

    def constraints(self, t, q):
        return None


SHARES = jnp.array([[1.0, 0.0], [0.3, 1.0], [-1.0, 2.0], [0.5, 0.5]])
AT = (0.0, jnp.array([0.3, -0.8, 0.5]), jnp.array([1.2]))


def test_multipliers_have_least_norm_and_the_same_force():
    system = Spread(SHARES)
    found = np.asarray(constraint_force(system, *AT))
    rows = np.asarray(system.constraints(*AT[:2]))
    force = np.asarray(system.frame(*AT[:2])[:2]).T @ constraint_force(OfTwo(SHARES), *AT)
    np.testing.assert_allclose(found, np.linalg.pinv(rows.T) @ force, rtol=1e-11)
    np.testing.assert_allclose(rows.T @ found, force, rtol=1e-12)
    np.testing.assert_allclose(
        acceleration(system, *AT), acceleration(OfTwo(SHARES), *AT), rtol=1e-14
    )


def test_derivatives_of_the_multipliers():
    """Derivatives of the multipliers by q in forward and reverse mode equal Richardson's extrapolation."""
    system, (t, q, u) = Spread(SHARES), AT
    weights, direction = jnp.array([1.0, -2.0, 0.5, 3.0]), jnp.array([0.4, 0.1, -0.7])
    value = jax.jit(lambda e: jnp.dot(weights, constraint_force(system, t, q + e * direction, u)))
    forward, reverse = jax.jacfwd(value)(0.0), jax.grad(value)(0.0)
    difference = lambda h: (value(h) - value(-h)) / (2 * h)
    np.testing.assert_allclose(forward, (4 * difference(5e-4) - difference(1e-3)) / 3, rtol=1e-9)
    np.testing.assert_allclose(forward, reverse, rtol=1e-12)


class Asked(System):
    """A system with a given frame and a given list of one-forms."""

    rows: jax.Array
    listed: jax.Array
    space = Euclidean(3)
    n_constraints = 2

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(v, v)

    def frame(self, t, q):
        return self.rows

    def constraints(self, t, q):
        return self.listed


ONES = np.eye(3)


@pytest.mark.parametrize(
    ("rows", "listed", "message"),
    [
        (ONES, ONES, r"row 2 of `constraints\(t, q\)` of Asked is no combination of the first 2 rows of"),
        (ONES, ONES[[0, 0, 2]], r"`n_constraints = 2` .*\(forms, independent=\[1\]\).*, rows \[1\] left out,"),
        (ONES, ONES[[0, 0]], r"has rank 1 at t = 0.0 and `n_constraints` is 2"),
        (ONES, ONES[:1], r"has 1 rows and `n_constraints` is 2; it must have all"),
        (ONES, ONES[:, :2], r"has shape \(3, 2\), as Asked returns it; it must have shape \(r, 3\)"),
        (ONES[[0, 0, 2]], ONES, r"drop row 1, which follows .* `n_constraints` to 1.*`constraints\(t, q\)`"),
    ],
)  # fmt: skip
def test_lists_that_do_not_fit(rows, listed, message):
    system = Asked(jnp.asarray(rows), jnp.asarray(listed))
    with pytest.raises(ValueError, match=message):
        constraint_force(system, 0.0, jnp.zeros(3), jnp.zeros(1))
