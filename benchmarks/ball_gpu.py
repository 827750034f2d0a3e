"""The ball with three masses by the ensemble's kernel: its share of a GPU's peak by counted operations.

    python benchmarks/ball_gpu.py [--quick] [--json FILE] [--kernel auto|on|off] [--block 64,128,256] [--size N]
                                  [--peak32 67e12] [--peak64 34e12]

1,000 Runge-Kutta steps (order 4) of 1 ms of the rolling ball by Gauss' principle, first and last state kept, each
trajectory with a state and a control of its own. Operations are those of the lane program that the kernel is made from,
for one trajectory and step: additions, subtractions, multiplications, divisions, roots, sines and cosines as one each
(a sine takes some 15 instructions), what all lanes share not at all. `share` is operations per second over the card's
peak, which counts a fused multiply-add as two: by the median of the runs, with the best block. Without a GPU the program
runs in lanes.

Peaks are those of the makers' data sheets for the SXM boards: H200 and H100 67 and 34, A100 19.5 and 9.7, V100 15.7 and 7.8
Tflop/s (32 and 64 bits, without tensor cores); for other cards give them.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rhs_tax import Swing, make_ball

from jaxhamel import ensemble
from jaxhamel._lanes._program import scalarise
from jaxhamel.mechanics import VectorField

jax.config.update("jax_enable_x64", True)
STEPS, TIMES = 1000, np.array([0.0, 1.0])
PEAK = {
    "H200": (67e12, 34e12),
    "H100": (67e12, 34e12),
    "A100": (19.5e12, 9.7e12),
    "V100": (15.7e12, 7.8e12),
}
COUNTED = {"add", "sub", "mul", "div", "sqrt", "rsqrt", "sin", "cos", "square", "integer_pow"}


def cast(tree, dtype):
    return jax.tree.map(lambda x: jnp.asarray(x).astype(dtype) if eqx.is_array(x) else x, tree)


def members(size: int, dtype):
    """The ball, and configurations, velocities and controls of all trajectories."""
    rng = np.random.default_rng(0)
    q = rng.normal(size=(size, 4))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    given = (
        (q, rng.normal(size=(size, 2))),
        rng.normal(size=(size, 3)),
        rng.uniform(0.1, 0.5, (size, 3)),
    )
    q0, u0, amplitude = jax.tree.map(lambda x: jnp.asarray(x, dtype), given)
    return cast(make_ball(), dtype), q0, u0, Swing(amplitude)


def roll(ball, q0, u0, control, kernel):
    q, u = ensemble.rollout(
        ball, q0, u0, TIMES, control, dt=1 / STEPS, in_axes=(None, 0, 0, 0), kernel=kernel
    )
    return q[0][:, -1], q[1][:, -1], u[:, -1]


def operations(dtype) -> int:
    """Number of operations of a step of one trajectory: four right-hand sides, the method's own sums, the quaternion's
    norm."""
    ball, *batches = members(1, dtype)
    q0, u0, control = jax.tree.map(lambda x: x[0], batches)

    def rate(ball, q, u, amplitude):
        return VectorField()(0.0 * u[0], (q, u), (ball, Swing(amplitude)))

    inputs = (ball, q0, u0, control.amplitude)
    closed = jax.make_jaxpr(rate)(*inputs)
    shared = len(jax.tree.leaves(inputs[0]))
    varies = [False] * shared + [True] * (len(closed.in_avals) - shared)
    program = scalarise(closed, varies)
    nodes = program.graph.nodes
    needed = program.graph.needed(x for out in program.outputs for x in out.ravel().tolist())
    once = sum(
        nodes[i].batched and nodes[i].primitive is not None and nodes[i].primitive.name in COUNTED
        for i in needed
    )
    numbers = sum(x.size for x in jax.tree.leaves((q0, u0)))
    return 4 * once + 14 * numbers + 12


def measured(dtype, kernel, size: int, runs: int) -> float:
    """Median seconds of a run after the first, which compiles."""
    program = jax.jit(lambda *given: roll(*given, kernel))
    given = members(size, dtype)
    jax.block_until_ready(program(*given))
    found = []
    for _ in range(runs):
        started = time.perf_counter()
        jax.block_until_ready(program(*given))
        found.append(time.perf_counter() - started)
    return statistics.median(found)


def peaks(arguments) -> tuple:
    known = (pair for name, pair in PEAK.items() if name in jax.devices()[0].device_kind)
    given = (arguments.peak32, arguments.peak64)
    return tuple(a or b for a, b in zip(given, next(known, (None, None)), strict=True))


def options():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1,024 trajectories, few runs")
    parser.add_argument("--json", type=Path, help="write the whole table there")
    parser.add_argument("--kernel", choices=["auto", "on", "off"], default="auto")
    parser.add_argument("--block", default="64,128,256", help="lanes in a block, to be tried")
    parser.add_argument("--size", type=int, help="trajectories")
    parser.add_argument("--peak32", type=float, help="of the device in single precision [flop/s]")
    parser.add_argument("--peak64", type=float, help="of the device in double precision [flop/s]")
    return parser.parse_args()


def main() -> None:
    arguments = options()
    gpu = jax.default_backend() == "gpu"
    on = arguments.kernel == "on" or (arguments.kernel == "auto" and gpu)
    blocks = [int(block) for block in arguments.block.split(",")]
    tried = {b: ensemble.Kernel(block=b) for b in blocks} if on else {"lanes": False}
    size = arguments.size or (1024 if arguments.quick or not gpu else 2**20)
    rows = []
    for bits, peak in zip((32, 64), peaks(arguments), strict=True):
        dtype = np.dtype(f"float{bits}")
        counted = operations(dtype)
        for name, kernel in tried.items():
            found = measured(dtype, kernel, size, 3 if arguments.quick else 10)
            rate = size * STEPS / found
            share = counted * rate / peak if peak else None
            rows.append(
                {"bits": bits, "block": name, "seconds": found, "rate": rate, "share": share}
            )
            print(
                f"float{bits} {name!s:>6} {found * 1e3:9.2f} ms {rate:9.3g} steps/s, {counted} operations a step"
            )
    best = {
        bits: max((r for r in rows if r["bits"] == bits), key=lambda r: r["rate"])
        for bits in (32, 64)
    }
    result = {
        "benchmark": "ball_gpu",
        "share": best[32]["share"],
        "target": 0.3,
        "share_float64": best[64]["share"],
        "steps_per_second": best[32]["rate"],
        "steps_per_second_float64": best[64]["rate"],
        "operations_per_step": operations(np.dtype(np.float32)),
        "trajectories": size,
        "kernel": on,
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps({**result, "runs": rows}, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
