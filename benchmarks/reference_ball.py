"""The ball that the benchmarks share: circular rails of 0.8 m in a ball of 1 m, masses of 1 kg that swing.

With two masses it is the reference trajectory that the tests hold to 1e-9: `END` is where the ball is after 5 s, computed by
DOP853 at a tolerance of 1e-13 from the closed form (B.8) of Putkaradze and Rogers. Further masses repeat the rails' three
planes at smaller radii.
"""

import statistics
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.systems import CircularRails, RollingBall

SECONDS = 5.0
END = np.array([0.5155719853012, 0.7135407689736])
AMPLITUDE, SHELL_MASS, SHELL_COM = 0.3, 4.0, (0.0, 0.0, -0.05)
SHELL_INERTIA = (1.0, 1.1, 1.2)
NORMAL = ((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
ZERO = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0))


def phases(masses: int) -> np.ndarray:
    """The phase of each mass's swing: 0, 0.5, 1, …"""
    return 0.5 * np.arange(masses)


def radii(masses: int) -> np.ndarray:
    """0.8 m for the first three rails, less for further ones."""
    return 0.8 * 0.9 ** (np.arange(masses) // 3)


class Swing(eqx.Module):
    """θ_i = a_i sin(2 t + φ_i) − π/2."""

    amplitude: jax.Array

    def __call__(self, t):
        phase = jnp.asarray(phases(self.amplitude.shape[0]), self.amplitude.dtype)
        return self.amplitude * jnp.sin(2.0 * t + phase) - jnp.pi / 2


def make_ball(masses: int = 2) -> RollingBall:
    planes = np.arange(masses) % 3
    rails = CircularRails(
        radius=jnp.asarray(radii(masses)),
        normal=jnp.asarray(np.array(NORMAL)[planes]),
        zero=jnp.asarray(np.array(ZERO)[planes]),
    )
    return RollingBall(
        radius=jnp.array(1.0),
        shell_mass=jnp.array(SHELL_MASS),
        shell_inertia=jnp.array(SHELL_INERTIA),
        shell_com=jnp.array(SHELL_COM),
        masses=jnp.ones(masses),
        rails=rails,
        gravity=jnp.array(9.81),
    )


def start() -> tuple:
    """The state (q0, u0) at rest."""
    return (jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(2)), jnp.zeros(3)


def swing(masses: int = 2) -> Swing:
    return Swing(jnp.full(masses, AMPLITUDE))


def first_call(program: Callable, *arguments) -> float:
    """Seconds to trace, compile and run a program once."""
    started = time.perf_counter()
    jax.block_until_ready(program(*arguments))
    return time.perf_counter() - started


def median_seconds(programs: dict[str, Callable], repeats: int) -> dict[str, float]:
    """Median seconds of programs that run in turns, so that other work on the machine affects all of them."""
    seconds = {name: [] for name in programs}
    for _ in range(repeats):
        for name, program in programs.items():
            started = time.perf_counter()
            jax.block_until_ready(program())
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(each) for name, each in seconds.items()}
