"""Seconds from a fresh process to the first trajectory, and to the first gradient.

    python benchmarks/cold_start.py [--quick]

The rolling ball of the reference trajectory (two masses, 5 s) is simulated in a new Python process: import, trace and
compile, run; then the same for the gradient of its final position with respect to the amplitudes of the masses. Times are
seconds on the clock. The last line is one JSON object. `--quick` measures once instead of three times.
"""

import argparse
import json
import subprocess
import sys
import time

STARTED = time.perf_counter()


def child(what: str) -> None:
    """Runs in a fresh process and prints its seconds as JSON."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import equinox as eqx
    import jax.numpy as jnp

    import jaxhamel.simulate
    from jaxhamel.systems import CircularRails, RollingBall

    imported = time.perf_counter()

    class Swing(eqx.Module):
        amplitude: jax.Array
        phase: jax.Array

        def __call__(self, t):
            return self.amplitude * jnp.sin(2.0 * t + self.phase) - jnp.pi / 2

    normal = jnp.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
    zero = jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    ball = RollingBall(
        radius=jnp.array(1.0),
        shell_mass=jnp.array(4.0),
        shell_inertia=jnp.array([1.0, 1.1, 1.2]),
        shell_com=jnp.array([0.0, 0.0, -0.05]),
        masses=jnp.array([1.0, 1.0]),
        rails=CircularRails(radius=jnp.array([0.8, 0.8]), normal=normal, zero=zero),
        gravity=jnp.array(9.81),
    )
    q0 = (jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(2))
    u0, ts = jnp.zeros(3), jnp.linspace(0.0, 5.0, 51)
    simulate = jaxhamel.simulate if callable(jaxhamel.simulate) else jaxhamel.simulate.simulate

    def final(amplitude):
        control = Swing(amplitude, jnp.array([0.0, 0.5]))
        return jnp.sum(simulate(ball, q0, u0, ts, control).q[1][-1])

    function = final if what == "trajectory" else jax.grad(final)
    amplitude = jnp.array([0.3, 0.3])
    jax.block_until_ready(amplitude)
    built = time.perf_counter()
    jax.block_until_ready(function(amplitude))
    first = time.perf_counter()
    jax.block_until_ready(function(amplitude))
    again = time.perf_counter() - first
    seconds = {
        "import": imported - STARTED,
        "build": built - imported,
        "compile": first - built - again,
        "run": again,
        "total": first - STARTED,
    }
    print(json.dumps({key: round(value, 3) for key, value in seconds.items()}))


def measure(what: str) -> dict:
    started = time.perf_counter()
    command = [sys.executable, __file__, "--child", what]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds = json.loads(out.splitlines()[-1])
    return seconds | {"process": round(time.perf_counter() - started, 3)}


def best(what: str, repeats: int) -> dict:
    """The fastest of a few processes, since other work on the machine only adds time."""
    runs = [measure(what) for _ in range(repeats)]
    fastest = min(runs, key=lambda seconds: seconds["total"])
    print(f"{what:<12}" + "".join(f"{key} {value:.2f} s   " for key, value in fastest.items()))
    return fastest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="measure once, within 30 s")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return child(arguments.child)
    repeats = 1 if arguments.quick else 3
    result = {what: best(what, repeats) for what in ("trajectory", "gradient")}
    seconds = result["trajectory"]["total"]
    print(json.dumps({"benchmark": "cold_start", "seconds": seconds, "target": 8.0, **result}))


if __name__ == "__main__":
    main()
