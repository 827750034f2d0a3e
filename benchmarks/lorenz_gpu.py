"""The Lorenz ensemble of GPUODEBenchmarks in its setting: trajectory-steps per second of the ensemble's kernel.

    python benchmarks/lorenz_gpu.py [--quick] [--json FILE] [--kernel auto|on|off] [--block 64,128,256]

Setting (github.com/utkarsh530/GPUODEBenchmarks, GPU_ODE_Julia/bench_lorenz_gpu.jl; Utkarsh et al., Computer Methods in
Applied Mechanics and Engineering 419, 2024, 116591): single precision, sigma = 10, beta = 8/3 (2.666 there, 8/3 in their
program for JAX), rho on an even grid over [0, 21], one value a trajectory; start (1, 0, 0), t from 0 to 1 in 1,000 equal
steps of Tsitouras' method of order 5, first and last state kept; 8, 32, ... 8,388,608 trajectories. They report the least
time of many runs, here stand that and the median. A step is a step of the same method: six evaluations (the seventh serves
the error estimate, which nobody asks for). Parameters are on the device before the clock starts, as there. Their figure
(data/Julia_times_unadaptive.txt): 145.3 ms for 8,388,608 trajectories, 5.8e10 steps/s.

On a machine without a GPU the same program runs in XLA's lanes. The last line is one JSON object; `steps_per_second` is
by the median time of the largest ensemble, with the best block; `largest_error` compares with double precision.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import ensemble

STEPS, TIMES = 1000, np.array([0.0, 1.0])
LARGEST = {"gpu": 8_388_608, "cpu": 131_072}


def lorenz(t, y, rho):
    u1, u2, u3 = y
    return 10.0 * (u2 - u1), rho * u1 - u2 - u1 * u3, u1 * u2 - (8.0 / 3.0) * u3


def ends(rho, kernel):
    """The final states, `(N, 3)`."""
    start = (jnp.ones_like(rho[0]), jnp.zeros_like(rho[0]), jnp.zeros_like(rho[0]))
    y = ensemble.integrate(
        lorenz,
        start,
        TIMES,
        rho,
        dt=1 / STEPS,
        in_axes=(None, 0),
        method=diffrax.Tsit5(),
        kernel=kernel,
    )
    return jnp.stack([x[:, -1] for x in y], axis=-1)


def largest_error(kernel) -> float:
    """Largest error of 64 trajectories against the same steps in double precision without the kernel; states are of the
    order of 10."""
    rho = jnp.linspace(0.0, 21.0, 64, dtype=jnp.float32)
    found = np.asarray(jax.jit(lambda rho: ends(rho, kernel))(rho), float)
    with jax.enable_x64(True):
        wanted = np.asarray(ends(jnp.asarray(rho, jnp.float64), False))
    return float(np.max(np.abs(found - wanted)))


def seconds(program, rho, runs: int) -> list[float]:
    """Seconds of each run after the first, which compiles."""
    jax.block_until_ready(program(rho))
    found = []
    for _ in range(runs):
        started = time.perf_counter()
        jax.block_until_ready(program(rho))
        found.append(time.perf_counter() - started)
    return found


def kernels(arguments) -> dict:
    """The variants to try, by name; only lanes without a GPU."""
    on = arguments.kernel == "on" or (arguments.kernel == "auto" and jax.default_backend() == "gpu")
    blocks = [int(block) for block in arguments.block.split(",")]
    return {block: ensemble.Kernel(block=block) for block in blocks} if on else {"lanes": False}


def measured(name, kernel, sizes, runs) -> list[dict]:
    program = jax.jit(lambda rho: ends(rho, kernel))
    rows = []
    for size in sizes:
        times = seconds(program, jnp.linspace(0.0, 21.0, size, dtype=jnp.float32), runs)
        median, least = statistics.median(times), min(times)
        rows.append({"block": name, "trajectories": size, "median": median, "least": least})
        rate = size * STEPS / median
        print(
            f"{name!s:>6} {size:9} {median * 1e3:10.3f} ms  least {least * 1e3:10.3f} ms  {rate:9.3g}/s"
        )
    return rows


def options():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="up to 8,192 trajectories, few runs")
    parser.add_argument("--json", type=Path, help="write the whole table there")
    parser.add_argument("--kernel", choices=["auto", "on", "off"], default="auto")
    parser.add_argument("--block", default="64,128,256", help="lanes in a block, to be tried")
    return parser.parse_args()


def main() -> None:
    arguments = options()
    largest = 8192 if arguments.quick else LARGEST.get(jax.default_backend(), 131_072)
    sizes = [8 * 4**k for k in range(11) if 8 * 4**k <= largest]
    tried = kernels(arguments)
    rows = [
        row
        for name, kernel in tried.items()
        for row in measured(name, kernel, sizes, 5 if arguments.quick else 20)
    ]
    last = min((row for row in rows if row["trajectories"] == sizes[-1]), key=lambda r: r["median"])
    result = {
        "benchmark": "lorenz_gpu",
        "steps_per_second": sizes[-1] * STEPS / last["median"],
        "target": 2e11,
        "trajectories": sizes[-1],
        "block": last["block"],
        "kernel": last["block"] != "lanes",
        "device": jax.devices()[0].device_kind,
        "largest_error": largest_error(tried[last["block"]]),
        "jax": jax.__version__,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps({**result, "runs": rows}, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
