"""A program that tests start: an ensemble of balls on several devices, or as one of several processes.

    python many_devices.py FOLDER kill              on the devices that XLA was told to have; first a sharded ensemble axis,
                                                    then the run, in the middle of which the process is killed
    python many_devices.py FOLDER PORT PROCESS OF   as one process of several, by jax.distributed on this machine

The last line is the run's statistics as JSON.
"""

import json
import os
import signal
import sys
import warnings

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxhamel.control import FourierSeries
from jaxhamel.ensemble import Distribution, Samples, monte_carlo, rollout
from jaxhamel.systems import CircularRails, RollingBall

TRAJECTORIES, BLOCK = 300, 64
SPREAD = {
    "omega": Distribution("normal", mean=[0.0, 1.0, 0.0], std=0.2),
    "masses": Distribution("lognormal", median=[0.5, 0.4], sigma=0.1),
}
RAILS = {
    "radius": [0.07, 0.07],
    "normal": [[0, -1, 0], [1, 0, 0]],
    "zero": [[1, 0, 0], [0, 1, 0]],
}
SWING = {"mean": [-1.5, -1.5], "cosine": [[0.3, 0.0]], "sine": [[0.0, 0.3]], "period": 2.0}


def rolled(samples):
    """Positions and spins of the balls after half a second, computed in lanes."""
    rails, swing = CircularRails(**RAILS), FourierSeries(**SWING)
    make = lambda m: RollingBall(0.1, 1.0, [6e-3] * 3, [0, 0, 0], m, rails)
    balls = jax.vmap(make)(samples["masses"])
    q0 = (jnp.array([1.0, 0, 0, 0]), jnp.zeros(2))
    axes = (jax.tree.map(lambda x: 0, balls), None, 0, None)
    options = {"dt": 0.1, "method": diffrax.Heun(), "in_axes": axes}
    q, u = rollout(balls, q0, samples["omega"], [0.0, 0.5], swing, **options)
    return {"x": q[1][:, -1, 0], "y": q[1][:, -1, 1], "spin": u[:, -1, 2]}


def run(folder=None, **options):
    """Runs the ensemble in `folder`, with the options of `monte_carlo`."""
    options = {"seed": 4, "batched": True, "block": BLOCK, **options}
    return monte_carlo(rolled, SPREAD, TRAJECTORIES, folder=folder, **options)


def sharded() -> list[float]:
    """Positions of 512 balls whose axis is divided among all devices: the results are divided in the same way, by a
    program without exchange between devices, and `shard_map` gives the same numbers."""
    samples = Samples(SPREAD, 512, 4)[:]
    axis = NamedSharding(Mesh(np.array(jax.devices()), ("ensemble",)), P("ensemble"))
    program = jax.jit(rolled).lower(jax.device_put(samples, axis)).compile()
    found, text = program(jax.device_put(samples, axis)), program.as_text() or ""
    assert found["x"].sharding.spec == P("ensemble"), found["x"].sharding
    exchanges = ("all-gather", "all-reduce", "all-to-all", "permute(")
    assert not [word for word in exchanges if word in text]
    spread = jax.shard_map(
        rolled, mesh=axis.mesh, in_specs=P("ensemble"), out_specs=P("ensemble"), check_vma=False
    )
    np.testing.assert_allclose(jax.jit(spread)(samples)["x"], found["x"], rtol=1e-12)
    return np.asarray(found["x"]).tolist()


def killed(progress):
    """Ends this process by SIGKILL after the second block."""
    if progress.done >= 2 * BLOCK:
        os.kill(os.getpid(), signal.SIGKILL)


def trouble() -> str:
    """The error message of each process if process 1 fails in the middle of a run."""

    def look(progress):
        if jax.process_index() == 1 and progress.done >= 4 * BLOCK:
            raise ValueError("process 1 has enough")

    try:
        monte_carlo(lambda s: {"x": s["omega"][0]}, SPREAD, 10_000, block=BLOCK, progress=look)
    except Exception as error:
        return str(error)
    return "nothing"


def large_numbers() -> list[float]:
    """2²⁴ and 2²⁴ + 1, which single precision cannot tell apart, as the processes exchange them in single precision."""
    with jax.enable_x64(False):
        study = monte_carlo(lambda s: {"n": 2**24 + (s["omega"][0] > 0).astype(int)}, SPREAD, 100)
    return sorted(set(study.values["n"].tolist()))


def main() -> None:
    folder, *rest = sys.argv[1:]
    if len(rest) == 3:
        jax.distributed.initialize(f"localhost:{rest[0]}", int(rest[2]), int(rest[1]))
    if rest == ["kill"]:
        with warnings.catch_warnings(action="error"):
            print(json.dumps(sharded()), flush=True)
    study = run(folder, progress=killed if rest == ["kill"] else None)
    said = {"devices": jax.device_count(), "statistics": study.statistics}
    print(json.dumps(said | {"trouble": trouble(), "large": large_numbers()}))


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
