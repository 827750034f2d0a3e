"""Equations that need hypotheses on the Lagrangian refuse other systems, in one line with an alternative."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SE2, Euclidean, Product
from jaxhamel.mechanics import (
    System,
    centroidal,
    kinematic_coefficients,
    kinematic_curvature,
    lagrange_dalembert_poincare,
    lagrange_poincare,
    lagrange_routh,
    levi_civita,
    locked_velocity,
    mechanical_connection,
    neighbouring_motion,
    principal_connection,
    reconstruct_with_momentum,
    riemann_curvature,
    sectional_curvature,
    stability_matrix,
)
from jaxhamel.systems import CoupledSnakeboard, RollingDisk

ORIGIN, FLAT = jnp.zeros(2), jnp.zeros(3)


class Oscillator(System):
    """L = |v|²/2 − 2 |q|² with one additional term."""

    more: str
    space = Euclidean(2)

    def lagrangian(self, t, q, v):
        extra = {
            "linear": 3.0 * q[1] * v[0],  # the magnetic field of the oscillator that gave −1 for −4
            "quartic": 0.01 * v[0] ** 4,
            "warming": 0.1 * jnp.sin(t) * v[1] ** 2,
            "heating": -jnp.sin(t) * q[0],
            "relative": -jnp.sqrt(1.0 - v[0] ** 2),
        }
        return 0.5 * jnp.dot(v, v) - 2.0 * jnp.dot(q, q) + extra.get(self.more, 0.0 * t)

    def force(self, t, q, v, control):
        if self.more == "damping":
            return -0.1 * v
        if self.more == "drag":
            return -0.1 * v * jnp.abs(v)
        return -jnp.sin(t) * q


class Driven(Oscillator):
    prescribed_motion = True


LINEAR = "Oscillator has a Lagrangian with terms linear in the velocity.*Use `jaxhamel.mechanics.linearise`"
QUADRATIC = "kinetic energy that is not quadratic.*Use `jaxhamel.mechanics.linearise`"
STEADY = "mass matrix that changes with time"


@pytest.mark.parametrize(
    ("more", "message"),
    [("linear", LINEAR), ("quartic", QUADRATIC), ("relative", QUADRATIC), ("warming", STEADY)],
)
def test_the_metric_is_that_of_half_v_m_v(more, message):
    """The additional term is found also at q = v = 0, where it vanishes, by each function of the metric."""
    system = Oscillator(more)
    with pytest.raises(ValueError, match=message):
        levi_civita(system, 0.0, ORIGIN)
    with pytest.raises(ValueError, match=message):
        riemann_curvature(system, 0.0, ORIGIN)
    with pytest.raises(ValueError, match=message):
        sectional_curvature(system, 0.0, ORIGIN, jnp.asarray([1.0, 0.0]), jnp.asarray([0.0, 1.0]))
    with pytest.raises(ValueError, match=message):
        stability_matrix(system, 0.0, ORIGIN, ORIGIN)


@pytest.mark.parametrize("more", ["damping", "drag"])
def test_forces_that_depend_on_the_velocity(more):
    system, x = Oscillator(more), jnp.ones(2)
    message = "force that depends on the velocity.*Q\\(t, q\\).*Use `jaxhamel.mechanics.linearise`"
    with pytest.raises(ValueError, match=message):
        stability_matrix(system, 0.0, ORIGIN, ORIGIN)
    with pytest.raises(ValueError, match=message):
        neighbouring_motion(system, 0.0, ORIGIN, ORIGIN, x, x)
    np.testing.assert_allclose(levi_civita(system, 0.0, ORIGIN), 0.0)  # Q may be any in D v/dt = F


def test_what_holds_is_left_alone():
    """A potential and a force that depend on time are accepted, and so are traced values; prescribed motion is refused."""
    x = jnp.asarray([0.2, 0.5])
    wanted = np.eye(2) * (4.0 + np.sin(0.3))  # −∂F/∂q
    for more in ("none", "heating"):
        np.testing.assert_allclose(
            stability_matrix(Oscillator(more), 0.3, x, x), wanted, atol=1e-14
        )
    inside = jax.jit(lambda q: stability_matrix(Oscillator("damping"), 0.3, q, x))
    np.testing.assert_allclose(inside(x), np.eye(2) * 4.0, atol=1e-14)
    with pytest.raises(ValueError, match="Driven has prescribed motion"):
        levi_civita(Driven("none"), 0.0, ORIGIN)


class Trolley(System):
    """A body in the plane carrying a mass at r, with one additional term."""

    more: str
    space = Product(SE2(), Euclidean(1))

    def lagrangian(self, t, q, v):
        (omega, x, y, r_dot), (r,), angle = v, q[1], q[0][0]
        body = 1.5 * (x * x + y * y) + 0.4 * omega * omega
        mass = 0.35 * ((x + r_dot) ** 2 + (y + omega * r) ** 2)
        extra = {
            "quartic": 0.01 * (omega * r_dot) ** 2,
            "fixed in space": 0.3 * jnp.sin(angle) ** 2 * x * x,
            "uphill": -q[0][1],
            "added mass": 0.2 * x * x,
        }
        return body + mass - 0.8 * r * r + extra.get(self.more, 0.0 * t)

    def force(self, t, q, v, control):
        pushed = 0.3 if self.more == "pushed" else 0.0
        return pushed * jnp.asarray([1.0, 0.0, 0.0, 0.0]) - 0.2 * jnp.asarray([0, 0, 0, 1.0]) * v


AT_IDENTITY, U = (FLAT, jnp.asarray([0.4])), jnp.asarray([0.3, -0.2, 0.5, 0.7])


@pytest.mark.parametrize(
    ("more", "message"), [("quartic", "not quadratic"), ("fixed in space", "changes with g")]
)
def test_the_mechanical_connection(more, message):
    """A system whose inertia is fixed in space is refused also at the identity of the group, where it looks invariant."""
    system = Trolley(more)
    with pytest.raises(ValueError, match=f"{message}.*jaxhamel.acceleration"):
        lagrange_poincare(system, 0.0, AT_IDENTITY, U)
    with pytest.raises(ValueError, match=message):
        lagrange_routh(system, 0.0, AT_IDENTITY, U[3:])
    with pytest.raises(ValueError, match=message):
        mechanical_connection(system)
    with pytest.raises(ValueError, match=message):
        locked_velocity(system, 0.0, AT_IDENTITY, U)


def test_momentum_that_is_not_conserved():
    """Damping of the shape leaves the momentum constant; a slope and a push along the group do not, and are refused."""
    path, times, mu = lambda t: jnp.sin(t)[None], jnp.linspace(0.0, 1.0, 3), jnp.ones(3)
    poses = reconstruct_with_momentum(Trolley("none"), path, times, mu)
    assert np.all(np.isfinite(poses))
    with pytest.raises(ValueError, match=r"Lagrangian that changes with g.*jaxhamel.simulate"):
        reconstruct_with_momentum(Trolley("uphill"), path, times, mu)
    with pytest.raises(ValueError, match=r"force along the group, of up to 0.3"):
        reconstruct_with_momentum(Trolley("pushed"), path, times, mu)


def test_centre_of_mass_of_added_mass():
    centroidal(Trolley("none"), 0.0, AT_IDENTITY, U)
    with pytest.raises(ValueError, match=r"differs by up to 0.4.*spatial_momentum"):
        centroidal(Trolley("added mass"), 0.0, AT_IDENTITY, U)


class Skate(System):
    """Constraints in the plane that are fixed in space and not in the body."""

    space = Product(SE2(), Euclidean(1))
    n_constraints = 3

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(v, v)

    def frame(self, t, q):
        return jnp.eye(4).at[1, 3].set(jnp.cos(q[0][0])).at[2, 3].set(jnp.sin(q[0][0]))


def test_invariant_constraints():
    """Constraints that are not invariant are found also at the identity. Constraints on only a part of the group define
    no principal connection."""
    with pytest.raises(ValueError, match="are not left-invariant"):
        lagrange_dalembert_poincare(Skate(), 0.0, AT_IDENTITY, jnp.ones(1))
    board = CoupledSnakeboard(2.0, 0.1, 0.1, 0.02, 0.3)
    with pytest.raises(ValueError, match=r"has 2 constraints; here it must have 3.*nonholonomic"):
        principal_connection(board, 0.0, (FLAT, jnp.ones(2)))


def test_coordinates():
    for function in (kinematic_coefficients, kinematic_curvature):
        with pytest.raises(TypeError, match=r"coordinates q = \(s, r\) of Euclidean\(n\)"):
            function(Skate(), 0.0, AT_IDENTITY)


def test_known_solutions():
    """`steady_rate` needs a disk with moments (A, A, C); `glide` needs trucks at rest."""
    with pytest.raises(ValueError, match=r"holds for \(A, A, C\) alone.*relative_equilibrium"):
        RollingDisk(0.3, 2.0, [0.1, 0.2, 0.25]).steady_rate(0.2, 1.0)
    board = CoupledSnakeboard(2.0, 0.1, 0.1, 0.02, 0.3)
    with pytest.raises(ValueError, match=r"`u0\[2\]` is 0.3; it must be 0. Only steady trucks"):
        board.glide(1.0, (FLAT, jnp.ones(2)), jnp.asarray([1.0, 0.0, 0.3]))
