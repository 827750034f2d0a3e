"""The rolling ball: its ten inertial parameters, of which motion alone leaves a common factor undetermined."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import identify
from jaxhamel.control import FourierSeries
from jaxhamel.systems import CircularRails, RollingBall

RAILS = CircularRails(
    [0.07, 0.07], [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
)
SWING = FourierSeries([-1.5, -1.5], [[0.5, 0.2]], [[0.1, 0.6]], 1.5)
INERTIA = np.array([[6.5, 0.2, -0.1], [0.2, 6.9, 0.15], [-0.1, 0.15, 6.2]]) * 1e-3
MEASUREMENTS = (
    identify.Position(noise=1e-3),
    identify.AngularRate(noise=1e-2),
    identify.Orientation(noise=1e-2),
)


@pytest.fixture(scope="module")
def run():
    ball = RollingBall(0.1, 1.0, INERTIA, [0.002, -0.003, -0.004], [0.5, 0.4], RAILS)
    q0, u0 = (jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(2)), jnp.array([0.3, -0.5, 1.0])
    motion = jaxhamel.simulate(ball, q0, u0, jnp.linspace(0, 4, 101), SWING, rtol=1e-9, atol=1e-10)
    rng = np.random.default_rng(0)
    values = {
        "position": np.asarray(motion.q[1]) + 1e-3 * rng.normal(size=(101, 2)),
        "orientation": np.asarray(motion.q[0]),
        "angular_rate": np.asarray(motion.u) + 1e-2 * rng.normal(size=(101, 3)),
    }
    return identify.Run(motion.ts, values, SWING)


def test_a_common_factor_of_all_masses_is_said_to_be_undetermined(run):
    """The equations of motion are linear in the inertial parameters, so a common factor changes no motion."""
    drawing = RollingBall(0.1, 1.1, 0.9 * INERTIA, [0.0, 0.0, 0.0], [0.55, 0.4], RAILS)
    body = identify.BodyInertia("shell_mass", "shell_com", "shell_inertia")
    masses = identify.Positive("masses", unit="kg")
    found = identify.fit(identify.Problem(drawing, [body, masses], MEASUREMENTS, [run]))
    (said,) = [flat.words for flat in found.flat]
    assert said.startswith("Only the ratios of shell_mass, shell_inertia.xx,")
    assert said.endswith(
        "masses[0] and masses[1] are determined: a common factor of all of them is not."
    )
    assert "shell_com" not in said
    determined = np.isfinite(found.errors)
    assert dict(zip(found.names, determined, strict=True)) == {
        name: name.startswith("shell_com") for name in found.names
    }
    np.testing.assert_array_less(
        np.abs(found.values[1:4] - [0.002, -0.003, -0.004]), 4 * found.errors[1:4]
    )
    np.testing.assert_allclose(found.values[-1] / found.values[-2], 0.8, rtol=0.05)
