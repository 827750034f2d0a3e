"""Gradients through adaptive steps of a Lie-group solver, by columns, by checkpoints and by differences."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.simulate import AutoAdjoint, simulate
from tests.simulate.small_systems import Body

COLUMNS = AutoAdjoint(forward_up_to=1000, tape_from=1001)
CHECKPOINTS = AutoAdjoint(forward_up_to=0)


def test_adaptive_steps_and_a_group():
    """Derivatives of the final attitude and Ω of a body by its inertia and its initial Ω."""
    q0, u0 = jnp.array([0.6, 0.0, 0.8, 0.0]), jnp.array([0.3, 1.0, 0.2])

    def final(inertia, u0, adjoint=None):
        options = {"rtol": 1e-10, "atol": 1e-12, "adjoint": adjoint}
        path = simulate(Body(inertia), q0, u0, [0.0, 3.0], **options)
        return path.q[-1, 1] + path.u[-1, 0] ** 2

    inertia = jnp.array([1.0, 2.0, 2.5])
    gradients = [
        jax.jit(jax.grad(lambda i, u: final(i, u, adjoint), (0, 1)))(inertia, u0)  # noqa: B023
        for adjoint in (COLUMNS, CHECKPOINTS)
    ]
    for columns, checkpoints in zip(*gradients, strict=True):
        np.testing.assert_allclose(columns, checkpoints, atol=1e-7)
    h, e = 1e-5, jnp.array([0.0, 1.0, 0.0])
    for k, difference in enumerate(
        [
            (final(inertia + h * e, u0) - final(inertia - h * e, u0)) / (2 * h),
            (final(inertia, u0 + h * e) - final(inertia, u0 - h * e)) / (2 * h),
        ]
    ):
        np.testing.assert_allclose(gradients[0][k][1], difference, atol=1e-7)
