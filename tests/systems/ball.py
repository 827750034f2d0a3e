"""Rolling balls for the tests, each built for the package and for the NumPy reference; uneven ground."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.systems import (
    CircularRails,
    EllipticRails,
    FigureEightRails,
    MixedRails,
    RollingBall,
    StraightRails,
)
from tests.reference import ball as rb
from tests.reference import rails as rr
from tests.systems.motion import inertias, unit_pairs, unit_quaternions


def plane_parameters(rng, batch, n, size_shape=()):
    """Size, normal, zero direction and centre of n plane rails, for each ball of a batch."""
    size = rng.uniform(0.2, 0.9, size=(batch, n, *size_shape))
    return size, *unit_pairs(rng, batch, n), 0.2 * rng.normal(size=(batch, n, 3))


def line_parameters(rng, batch, n):
    direction, _ = unit_pairs(rng, batch, n)
    return 0.4 * rng.normal(size=(batch, n, 3)), direction


def one_of_each(rng, batch, n):
    """Parameters of a circle, an ellipse, a figure-eight and a line."""
    return (
        plane_parameters(rng, batch, 1),
        plane_parameters(rng, batch, 1, (2,)),
        plane_parameters(rng, batch, 1),
        line_parameters(rng, batch, 1),
    )


def make_mixed(circle, ellipse, eight, line):
    return MixedRails(
        CircularRails(*circle),
        EllipticRails(*ellipse),
        FigureEightRails(*eight),
        StraightRails(*line),
    )


def reference_mixed(theta, circle, ellipse, eight, line):
    each = [theta[..., i : i + 1] for i in range(4)]
    return rr.join(
        rr.circle(each[0], *circle),
        rr.ellipse(each[1], *ellipse),
        rr.figure_eight(each[2], *eight),
        rr.line(each[3], *line),
    )


# kind: random parameters (rng, batch, n), rails of the package from one set of them, reference
RAILS = {
    "none": (lambda rng, b, n: (), lambda: None, rr.none),
    "circular": (plane_parameters, CircularRails, rr.circle),
    "elliptic": (lambda rng, b, n: plane_parameters(rng, b, n, (2,)), EllipticRails, rr.ellipse),
    "figure-eight": (plane_parameters, FigureEightRails, rr.figure_eight),
    "straight": (line_parameters, StraightRails, rr.line),
    "mixed": (one_of_each, make_mixed, reference_mixed),
}


def random_balls(rng, batch, n, kind, principal, pushed):
    """A batch of random balls: parameters, rails' parameters, motions of the masses, states."""
    tensor = inertias(rng, batch)
    ball = {
        "radius": rng.uniform(0.5, 1.5, batch),
        "shell_mass": rng.uniform(0.5, 4.0, batch),
        "shell_inertia": np.linalg.eigvalsh(tensor) if principal else tensor,
        "shell_com": 0.1 * rng.normal(size=(batch, 3)),
        "masses": rng.uniform(0.1, 2.0, (batch, n)),
        "gravity": rng.uniform(1.0, 10.0, batch),
        "external_force": rng.normal(size=(batch, 3)) if pushed else None,
    }
    waves = (
        rng.uniform(-3, 3, (batch, n)),
        rng.uniform(0.1, 0.8, (batch, n)),
        rng.uniform(0.5, 4.0, (batch, n)),
        rng.uniform(0, 6, (batch, n)),
    )
    state = (
        unit_quaternions(rng, batch),
        rng.normal(size=(batch, 2)),
        2 * rng.normal(size=(batch, 3)),
    )
    return ball, RAILS[kind][0](rng, batch, n), waves, state


def reference_of(ball, rail_parameters, waves, kind):
    """The reference's ball and t -> (χ, χ̇, χ̈), from the same parameters."""
    inertia = np.asarray(ball["shell_inertia"])
    if ball["radius"].ndim + 1 == inertia.ndim:
        inertia = inertia[..., :, None] * np.eye(3)
    force = ball["external_force"]
    made = rb.Ball(
        ball["radius"],
        ball["shell_mass"],
        inertia,
        ball["shell_com"],
        ball["masses"],
        ball["gravity"],
        (0.0, 0.0, 0.0) if force is None else force,
    )
    rails = lambda theta: RAILS[kind][2](theta, *rail_parameters)
    return made, rb.moving(rails, rb.waves(*waves))


def package_of(ball, rail_parameters, kind):
    """The package's ball."""
    return RollingBall(**ball, rails=RAILS[kind][1](*rail_parameters))


def two_mass_ball(**changes):
    """The ball of the regression trajectory: two masses on circles in the planes x-z and y-z."""
    parameters = {
        "radius": 1.0,
        "shell_mass": 4.0,
        "shell_inertia": [1.0, 1.1, 1.2],
        "shell_com": [0.0, 0.0, -0.05],
        "masses": [1.0, 1.0],
        "rails": CircularRails([0.8, 0.8], [[0.0, -1, 0], [1.0, 0, 0]], [[1.0, 0, 0], [0.0, 1, 0]]),
        "gravity": 9.81,
    }
    return RollingBall(**(parameters | changes))


class Waves(eqx.Module):
    """The height Σ a sin(k·x + φ)."""

    a: jax.Array
    k: jax.Array
    phase: jax.Array

    def __call__(self, x):
        return jnp.sum(self.a * jnp.sin(self.k @ x + self.phase))
