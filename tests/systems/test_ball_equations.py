"""Appendices B and C of Putkaradze and Rogers 2018 as printed, in NumPy, at the accelerations of the package."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.systems import ActuatedDisk, CircularRails
from tests.reference.ball import rotation
from tests.systems.ball import package_of, random_balls, reference_of

TIME = 0.37


def hat(v):
    return np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])


def x(*vectors):
    """Cross products from the right: x(a, b, c) = a × (b × c)."""
    last = vectors[-1]
    for vector in reversed(vectors[:-1]):
        last = np.cross(vector, last)
    return last


@pytest.fixture(scope="module")
def ball():
    """Quantities in the equations: m_i, χ_i and their rates (i = 0 is the shell), I, Ω, the package's Ω̇, Γ, Γ̃, r, g."""
    rng = np.random.default_rng(8)
    parameters, rails, waves, state = random_balls(rng, 1, 3, "circular", False, True)
    alone = lambda tree: jax.tree.map(lambda a: jnp.asarray(a[0]), tree)
    system, (q, z, omega) = package_of(alone(parameters), alone(rails), "circular"), alone(state)
    offset, size, frequency, phase = alone(waves)
    theta = lambda t: offset + size * jnp.sin(frequency * t + phase)
    omega_dot = system.closed_form(TIME, (q, z), omega, theta)
    _, motion = reference_of(parameters, rails, waves, "circular")
    turn = rotation(np.asarray(q))
    rest = np.zeros((1, 3))
    chi, chi1, chi2 = (np.concatenate([rest, moved[0]]) for moved in motion(TIME))
    chi[0] = parameters["shell_com"][0]
    return {
        "m": np.append(parameters["shell_mass"], parameters["masses"][0]),
        "chi": chi,
        "chi1": chi1,
        "chi2": chi2,
        "I": parameters["shell_inertia"][0],
        "W": np.asarray(omega),
        "W1": np.asarray(omega_dot),
        "G": turn[2],
        "F": parameters["external_force"][0] @ turn,
        "r": parameters["radius"][0],
        "g": parameters["gravity"][0],
    }


def first_form(i, b, s):
    """The terms in braces of (B.1)."""
    chi, v, a, W, G, r = b["chi"][i], b["chi1"][i], b["chi2"][i], b["W"], b["G"], b["r"]
    rolling = r * x(G, W)
    return (
        -b["g"] * x(G, chi)
        + x(rolling + v, x(W, s) + v)
        + x(s, x(b["W1"], s) + x(W, rolling + v) + a)
        + x(W, s, x(W, s) + v)
        - x(rolling, x(W, chi) + v)
    )


def second_form(i, b, s):
    """The terms in braces of (B.5)."""
    v, a, W, G = b["chi1"][i], b["chi2"][i], b["W"], b["G"]
    moving = x(b["W1"], s) + x(W, b["r"] * x(G, W)) + a
    return b["g"] * x(s, G) + 2 * x(s, W, v) + x(s, moving) + x(W, s, W, s)


def last_form(i, b, s):
    """The terms in braces of (B.8)."""
    chi, v, a, W = b["chi"][i], b["chi1"][i], b["chi2"][i], b["W"]
    return x(s, b["g"] * b["G"] + x(b["W1"], s) + x(W, x(W, chi) + 2 * v) + a)


@pytest.mark.parametrize("braces", [first_form, second_form, last_form])
def test_the_motion_solves_every_printed_form(ball, braces):
    """(B.1), (B.5) and (B.8) vanish at the package's Ω̇."""
    b = ball
    total = b["I"] @ b["W1"] + x(b["W"], b["I"] @ b["W"]) - b["r"] * x(b["G"], b["F"])
    for i, mass in enumerate(b["m"]):
        total = total + mass * braces(i, b, b["r"] * b["G"] + b["chi"][i])
    np.testing.assert_allclose(total, 0, atol=1e-12 * np.max(np.abs(b["I"] @ b["W1"])) + 1e-12)


def test_identities_between_the_forms(ball):
    """(B.2), (B.3), (B.4), (B.6), (B.7), (B.9), (B.10)."""
    b = ball
    W, G, r, W1 = b["W"], b["G"], b["r"], b["W1"]
    for chi, v in zip(b["chi"], b["chi1"], strict=True):
        s = r * G + chi
        pairs = {
            "B.2": (-b["g"] * x(G, chi), x(s, b["g"] * G)),
            "B.3": (
                x(r * x(G, W) + v, x(W, s) + v) - x(r * x(G, W), x(W, chi) + v),
                x(v, W, s),
            ),
            "B.4": (x(v, W, s) + x(s, W, v) + x(W, s, v), 2 * x(s, W, v)),
            "B.6": (x(W, s, W, s) + x(s, W, s, W), np.zeros(3)),
            "B.7": (x(s, W, r * x(G, W)) + x(W, s, W, s), -x(s, W, chi, W)),
            "B.9": (x(s, W1, s), -hat(s) @ hat(s) @ W1),
        }
        for name, (left, right) in pairs.items():
            np.testing.assert_allclose(left, right, atol=1e-12, err_msg=name)
        a, c, d = s
        square = [[-(c * c + d * d), a * c, a * d], [a * c, -(a * a + d * d), c * d]]
        square.append([a * d, c * d, -(a * a + c * c)])
        np.testing.assert_allclose(hat(s) @ hat(s), square, atol=1e-14)  # (B.10)


def test_disk_is_the_middle_column():
    """(C.1)–(C.5): A⁻¹ e_2 = e_2/a_22, and r/a_22 is what a force F_e,1 does to φ̈ of `ActuatedDisk`."""
    r, d2, phi, theta = 0.8, 0.9, 0.7, np.array([0.4, -1.1])
    rails = CircularRails([0.6, 0.3], [[0.0, -1, 0]] * 2, [[1.0, 0, 0]] * 2)
    parts = {"disk_com": [0.05, 0.0, -0.1], "masses": [1.5, 0.7], "rails": rails}
    gamma = np.array([np.sin(phi), 0.0, np.cos(phi)])
    chi = np.concatenate([[parts["disk_com"]], rails(jnp.asarray(theta))])
    mass = np.array([4.0, *parts["masses"]])
    inertia = np.diag([0.5, d2, 0.6])
    A = sum(m * hat(r * gamma + c) @ hat(r * gamma + c) for m, c in zip(mass, chi, strict=True))
    A = A - inertia
    np.testing.assert_allclose([A[0, 1], A[1, 0], A[1, 2], A[2, 1]], 0, atol=1e-15)  # (C.2)
    block = A[0, 0] * A[2, 2] - A[2, 0] * A[0, 2]
    np.testing.assert_allclose(np.linalg.det(A), A[1, 1] * block, rtol=1e-13)  # (C.3)
    reach = (r * np.sin(phi) + chi[:, 0]) ** 2 + (r * np.cos(phi) + chi[:, 2]) ** 2
    np.testing.assert_allclose(A[1, 1], -mass @ reach - d2, rtol=1e-14)  # (C.4)
    np.testing.assert_allclose(np.linalg.inv(A)[:, 1], [0, 1 / A[1, 1], 0], atol=1e-14)  # (C.5)

    def rate(force):
        disk = ActuatedDisk(r, 4.0, d2, external_force=force, **parts)
        q = (jnp.array([phi]), jnp.zeros(1))
        return disk.closed_form(0.0, q, jnp.array([0.3]), jnp.asarray(theta))[0]

    np.testing.assert_allclose(jax.jit(jax.grad(rate))(1.0), r / A[1, 1], rtol=1e-12)
