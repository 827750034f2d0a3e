"""A program that tests start: models as text, digested, as another process has them. The last line is JSON.

python -m tests.ensemble.described_programs
"""

import hashlib
import json

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.ensemble import Samples, integrate, rollout
from jaxhamel.ensemble._origin._program_text import program_text
from jaxhamel.systems import RollingBall
from tests.ensemble import many_devices

SAMPLES = Samples(many_devices.SPREAD, 16, 4)[:]
TABLE = np.linspace(0.0, 1.0, 100)
WEIGHTS = {"shift": 0.25, "names": {"a", "b", "c"}}


def on_the_host(x):
    return np.interp(x, TABLE, TABLE**2) + WEIGHTS["shift"]


def called_back(samples):
    x = samples["omega"][:, 0]
    return {"x": jax.pure_callback(on_the_host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)}


def by_tolerance(samples):
    ball = RollingBall(0.1, 1.0, [6e-3] * 3, [0, 0, 0], [], None)
    q0 = (jnp.array([1.0, 0, 0, 0]), jnp.zeros(2))
    axes = (None, None, 0, None)
    q, _ = rollout(ball, q0, samples["omega"], [0.0, 0.5], rtol=1e-4, atol=1e-6, in_axes=axes)
    return {"x": q[1][:, -1, 0]}


def slope(samples):
    def end(p):
        y = integrate(lambda t, y, p: -p * y, jnp.ones((16, 1)), [0.0, 1.0], p, dt=0.1)
        return jnp.sum(y[:, -1])

    return {"slope": jax.grad(end)(samples["omega"][:, 0])}


def table(samples):
    return {"x": jnp.interp(samples["omega"][:, 0], TABLE, jnp.asarray(TABLE) ** 2)}


MODELS = (many_devices.rolled, by_tolerance, slope, table, called_back)


def digests() -> dict[str, str]:
    """SHA-256 digests of the programs' texts, by the names of the models."""
    lines = {model.__name__: program_text(model, SAMPLES) for model in MODELS}
    return {n: hashlib.sha256("\n".join(x).encode()).hexdigest() for n, x in lines.items()}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    print(json.dumps(digests()))
