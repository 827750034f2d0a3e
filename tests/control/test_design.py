"""Design parameters as unknowns of collocation, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import control
from jaxhamel.control._problem._limits import values_by_name
from tests.control.cart import Cart, least_energy


class Price(control.AbstractCost):
    """The cost a/m, by which a light cart is expensive."""

    a: jax.Array

    def final(self, system, t, q, u, control):
        return jnp.sqrt(2 * self.a / system.mass)[None]


def mass(system):
    return system.mass


def designed(a, lower, upper):
    """The cart from rest to rest with the least 6 m² + a/m, which is reached at m³ = a/12 (6 m²:
    tests/control/cart.py)."""
    end = control.StateAtEnd(q=jnp.ones(1), u=jnp.zeros(1))
    costs = (control.ControlEnergy(), Price(jnp.asarray(a)))
    design = control.DesignParameter(mass, jnp.asarray(lower), jnp.asarray(upper), name="mass")
    problem = least_energy(system=Cart(jnp.array(1.0)), costs=costs, constraints=(end, design))
    return control.solve(problem, control.Collocation(intervals=3, degree=3))


def test_the_best_mass_inside_and_at_a_bound():
    for a, lower in ((20.0, 0.1), (96.0, 0.1), (20.0, 1.5)):
        result = designed(a, lower, 4.0)
        assert result.certificate is not None
        assert result.certificate.holds
        best = max((a / 12) ** (1 / 3), lower)
        np.testing.assert_allclose(result.problem.system.mass, best, rtol=1e-7)
        assert result.design == {"mass": result.problem.system.mass}
        assert result.to_dict()["mass"] == float(result.problem.system.mass)
        np.testing.assert_allclose(result.cost, 6 * best**2 + a / best, rtol=1e-8)
        by = control.sensitivity(result)
        np.testing.assert_allclose(by.costs[1].a, 1 / best, rtol=1e-6)
        by_bound = 12 * best - a / best**2 if best == lower else 0.0
        np.testing.assert_allclose(by.constraints[1].lower, by_bound, atol=1e-6)
        np.testing.assert_allclose(result.trajectory.q[-1], 1.0, atol=1e-8)  # with this mass


def test_a_design_that_selects_nothing_is_refused():
    with pytest.raises(TypeError, match=r"`where` of `mass` fails on Cart: .*length"):
        least_energy(
            constraints=(control.DesignParameter(lambda s: s.length, 0.0, 1.0, name="mass"),)
        )
    with pytest.raises(TypeError, match="must select one floating-point array of the Cart itself"):
        least_energy(constraints=(control.DesignParameter(lambda s: 2 * s.mass, 0.0, 1.0),))
    with pytest.raises(ValueError, match=r"`mass` have the shapes .*of the shape \(\)"):
        least_energy(constraints=(control.DesignParameter(mass, np.zeros(2), 1.0, name="mass"),))
    with pytest.raises(ValueError, match="a fixed parameter is no unknown: leave it out"):
        least_energy(constraints=(control.DesignParameter(mass, 1.0, 1.0),))
    problem = least_energy(constraints=(control.DesignParameter(mass, 0.5, 1.0),))
    with pytest.raises(TypeError, match=r"a `DesignParameter`, which MultipleShooting cannot keep"):
        control.solve(problem)


def test_unnamed_designs_have_numbers():
    designs = (
        control.DesignParameter(mass),
        control.StateAtEnd(u=jnp.zeros(1)),
        control.DesignParameter(mass),
    )
    found = values_by_name(Cart(jnp.array(2.0)), designs)
    assert found == {"design parameter": 2.0, "design parameter 2": 2.0}
