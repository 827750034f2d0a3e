"""Equality constraints along the path at Radau points, against a closed form."""

import jax.numpy as jnp
import numpy as np

import jaxhamel
from jaxhamel import control
from jaxhamel.control._indirect._indirect import why_no_start


class Plane(jaxhamel.System):
    """A unit mass in the plane, pushed by (f_1, f_2)."""

    space = jaxhamel.Euclidean(2)

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.sum(v * v)

    def force(self, t, q, v, control):
        return control


def along_a_line(t, q, u, control):
    """f_1 − 2 f_2, a scalar, which is taken as one row."""
    return control(t)[0] - 2.0 * control(t)[1]


def arrival(q, u):
    return jnp.stack([q[0] - 1.0, u[0]])


def test_an_equation_along_the_path_on_radau_points():
    """½∫|f|² over unit distance along x in unit time is 6; the equation f_2 = f_1/2 adds a quarter.

    With f_2 = f_1/2, H = ½ (5/4) f_1² + λ_x v + λ_v f_1 along x: the costates are 5/4 of those of the cart, (−12, −6).
    """
    end = control.ConditionsAtEnd(arrival, "arrival")
    limit = control.PathLimit(along_a_line, 0.0, 0.0, name="line", unit="N")
    problem = control.ControlProblem(
        Plane(), jnp.zeros(2), jnp.zeros(2), jnp.array([0.0, 1.0]), lambda t: jnp.zeros(2),
        (control.ControlEnergy(),), (end, limit),
    )  # fmt: skip
    result = control.solve(problem, control.Collocation(intervals=3, degree=3, points="radau"))
    assert result.converged, result.status
    assert result.certificate is not None
    assert result.certificate.violation < 1e-7
    np.testing.assert_allclose(result.cost, 7.5, rtol=1e-8)
    np.testing.assert_allclose(result.costates[0], [-15.0, 0.0, -7.5, 0.0], atol=1e-6)
    for t in (0.0, 0.3, 0.9):
        force = 6 - 12 * t
        np.testing.assert_allclose(result.control(t), [force, force / 2], atol=1e-6)
    reason = why_no_start(result)  # an equality constraint is always active
    assert reason is not None
    assert reason.startswith("`line` binds; Indirect takes problems without limits")
