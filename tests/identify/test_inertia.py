"""The pseudo-inertia and its coordinates: bodies made of mass points; every coordinate vector is a possible body."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxhamel.identify import BodyInertia, RotationalInertia, from_log_cholesky, log_cholesky
from jaxhamel.identify import pseudo_inertia as pseudo
from jaxhamel.systems import FreeRigidBody, HeavyTop, RollingBall

COORDINATES = st.lists(st.floats(-2, 2), min_size=10, max_size=10)


def cloud(seed, count=6):
    """Mass, centre, inertia and pseudo-inertia of mass points, as sums over the points."""
    rng = np.random.default_rng(seed)
    mass, place = rng.uniform(0.1, 1.0, count), rng.normal(size=(count, 3))
    total, centre = mass.sum(), mass @ place / mass.sum()
    arm = place - centre
    square = np.sum(arm**2, axis=1)
    inertia = sum(
        m * (s * np.eye(3) - np.outer(a, a)) for m, s, a in zip(mass, square, arm, strict=True)
    )
    matrix = sum(m * np.outer([*x, 1], [*x, 1]) for m, x in zip(mass, place, strict=True))
    return total, centre, inertia, matrix


@pytest.mark.parametrize("seed", range(4))
def test_pseudo_inertia_is_the_sum_over_points(seed):
    *body, matrix = cloud(seed)
    np.testing.assert_allclose(pseudo(*body), matrix, atol=1e-13)


@pytest.mark.parametrize("seed", range(4))
def test_log_cholesky_is_a_factor_of_the_pseudo_inertia(seed):
    *body, matrix = cloud(seed)
    alpha, *rest = np.asarray(log_cholesky(*body))
    d, (s12, s23, s13), t = rest[:3], rest[3:6], rest[6:]
    upper = np.diag([*np.exp(d), 1.0])
    upper[0, 1], upper[1, 2], upper[0, 2], upper[:3, 3] = s12, s23, s13, t
    np.testing.assert_allclose(np.exp(2 * alpha) * upper @ upper.T, matrix, atol=1e-13)
    for found, given_ in zip(from_log_cholesky(log_cholesky(*body)), body, strict=True):
        np.testing.assert_allclose(found, given_, rtol=1e-12, atol=1e-13)


@given(COORDINATES)
def test_every_coordinate_is_a_body_that_can_exist(theta):
    mass, com, inertia = (np.asarray(x) for x in from_log_cholesky(jnp.array(theta)))
    moments = np.linalg.eigvalsh(inertia)
    assert mass > 0
    assert moments[0] > 0
    assert moments[0] + moments[1] > moments[2] * (1 - 1e-12)
    np.testing.assert_allclose(log_cholesky(mass, com, inertia), theta, atol=1e-5)


def ball(seed):
    mass, com, inertia, _ = cloud(seed)
    return RollingBall(1.0, mass, inertia, com, [])


def test_body_coordinates_put_back_give_the_same_body_and_reach_any_other():
    body = BodyInertia("shell_mass", "shell_com", "shell_inertia").resolved(ball(0))
    for seed in (0, 1):
        there = body.put(ball(0), body.coordinates(ball(seed)))
        np.testing.assert_allclose(
            body.quantities(there), body.quantities(ball(seed)), rtol=1e-12, atol=1e-14
        )


def test_parts_that_are_frozen_stay():
    for frozen, same in (("mass", slice(0, 1)), ("com", slice(1, 4)), ("inertia", slice(4, 10))):
        body = BodyInertia("shell_mass", "shell_com", "shell_inertia", frozen=(frozen,))
        body = body.resolved(ball(0))
        z = body.coordinates(ball(0)) + 0.3
        old, new = body.quantities(ball(0)), body.quantities(body.put(ball(0), z))
        moved = np.abs(np.asarray(new - old)) > 1e-6
        assert not moved[same].any()
        assert moved.sum() == 10 - len(range(10)[same])
        assert body.is_frozen() == [bool(x) for x in ~moved]


def test_inertia_about_the_pivot_moves_with_the_centre_of_mass():
    mass, com, inertia, _ = cloud(3)
    steiner = lambda m, c: m * (c @ c * np.eye(3) - np.outer(c, c))
    top = HeavyTop(mass, inertia + steiner(mass, com), com)
    body = BodyInertia("mass", "com", "inertia", about_com=False, frozen=("inertia",)).resolved(top)
    moved = body.put(top, body.coordinates(top) + 0.1)
    own = moved.inertia - steiner(float(moved.mass), np.asarray(moved.com))
    np.testing.assert_allclose(own, inertia, atol=1e-12)
    assert float(moved.mass) == pytest.approx(mass * np.exp(0.2))


@pytest.mark.parametrize("principal", [True, False])
def test_rotational_inertia_round_trip_and_triangle_inequality(principal):
    inertia = np.array([2.0, 3.0, 4.0]) if principal else cloud(1)[2]
    system = FreeRigidBody(inertia)
    part = RotationalInertia("inertia").resolved(system)
    z = part.coordinates(system)
    assert z.shape == ((3,) if principal else (6,))
    np.testing.assert_allclose(part.put(system, z).inertia, inertia, rtol=1e-13, atol=1e-14)
    far = part.put(system, z + jnp.linspace(-3, 3, z.shape[0]))
    moments = np.sort(np.asarray(far.inertia) if principal else np.linalg.eigvalsh(far.inertia))
    assert 0 < moments[0] < moments[2] < moments[0] + moments[1]


def test_coordinates_differentiate_as_complex_step_of_the_matrix_says():
    """d(m, c, I)/dθ by jacfwd against central differences of the factored matrix."""
    theta = np.linspace(-0.4, 0.5, 10)
    flat = lambda x: jnp.concatenate([jnp.ravel(part) for part in from_log_cholesky(x)])
    J = jax.jacfwd(flat)(jnp.array(theta))
    for i, step in enumerate(np.eye(10) * 1e-5):
        slope = (flat(jnp.array(theta + step)) - flat(jnp.array(theta - step))) / 2e-5
        np.testing.assert_allclose(J[:, i], slope, rtol=1e-6, atol=1e-8)


def test_flat_body_and_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"`theta` has shape \(9,\); it must have shape \(10,\)"):
        from_log_cholesky(jnp.zeros(9))
    with pytest.raises(ValueError, match="of a flat body"):
        log_cholesky(1.0, np.zeros(3), [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"`mass` is -1.*; it must be positive"):
        log_cholesky(-1.0, np.zeros(3), [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="it may name 'mass', 'com', 'inertia'"):
        BodyInertia("shell_mass", "shell_com", "shell_inertia", frozen=("Mass",)).resolved(ball(0))
    with pytest.raises(
        ValueError, match="`shell_mas` is no parameter of RollingBall; it has radius"
    ):
        BodyInertia("shell_mas", "shell_com", "shell_inertia").resolved(ball(0))
