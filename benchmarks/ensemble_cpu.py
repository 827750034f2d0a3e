"""Ensembles on a CPU: `jaxhamel.ensemble.rollout` beside hand-written C, numba and diffrax under vmap, on the same threads.

    python benchmarks/ensemble_cpu.py [--quick]

Rolling ball with three masses in double precision; each trajectory has its own state and its own amplitudes of the masses'
swing; Runge–Kutta of order 4 in steps of 1 ms, the quaternion divided by its norm after each. The C (`closed_ball.py`) is
the closed form by hand, compiled on the spot by `gcc -O3 -march=native -ffast-math`, vectorised over blocks of 8
trajectories, sines by glibc's vector library, the time's own sines from a table; numba the same text. `rollout` derives its
equations by autodiff. diffrax steps the closed form under vmap: Tsit5, fixed step, against `rollout` by the same method, and
adaptive (rtol 1e-6, to t = 1 s) against `rollout` by the same tolerances (`ratio_diffrax_adaptive`) and in equal RK4 steps
that reach the same error (`ratio_diffrax_equal`). One process for each number of
threads, tied to as many cores; in it the programs alternate, times are medians. The last line is one JSON object; `ratio` is
`rollout` over C on the most threads, `ratio_by_threads` on each number of them in `threads`.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time

BATCH, DT = 65536, 1e-3


def child(threads: int, quick: bool) -> None:
    """Takes all measurements with the given number of threads; prints one line of JSON."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax.numpy as jnp
    import numpy as np
    from closed_ball import compiled_c, compiled_numba
    from rhs_tax import Swing, make_ball, states

    from jaxhamel import ensemble

    steps, repeats = (20, 3) if quick else (100, 7)
    ball, (y, amplitude) = make_ball(), states(BATCH)
    y, amplitude = np.array(y), np.array(amplitude)

    def rollout(batch, end, dt=DT, **options):
        q0 = (y[:4, :batch].T.copy(), y[4:6, :batch].T.copy())
        swing, ts = Swing(jnp.asarray(amplitude[:, :batch].T)), np.array([0.0, end])
        axes, u0 = (None, 0, 0, 0), y[6:, :batch].T.copy()

        def run():
            q, u = ensemble.rollout(ball, q0, u0, ts, swing, dt=dt, in_axes=axes, **options)
            return np.concatenate([q[0][:, -1].T, q[1][:, -1].T, u[:, -1].T])

        return run

    def by_hand(function, batch):
        own, rails = np.ascontiguousarray(y[:, :batch]), np.ascontiguousarray(amplitude[:, :batch])
        return lambda: function(own, rails, steps, DT, threads)

    programs = {"C": by_hand(compiled_c(), BATCH), "rollout": rollout(BATCH, steps * DT)}
    numba = None if quick and threads == 1 else compiled_numba()  # compiling takes ten seconds
    if numba is not None:
        programs["numba"] = by_hand(numba, BATCH)
    seconds, first, end = measure(programs, repeats)
    found = {
        "steps_per_second": {name: round(BATCH * steps / s) for name, s in seconds.items()},
        "ratio": round(seconds["C"] / seconds["rollout"], 3),
        "first_call": {name: round(s, 2) for name, s in first.items()},
        "largest_difference": max(largest(x, end["C"]) for x in end.values()),
    }
    if numba is not None:
        found["ratio_numba"] = round(seconds["numba"] / seconds["rollout"], 2)
    small = {"C": by_hand(compiled_c(), 1024), "rollout": rollout(1024, steps * DT)}
    seconds, _, _ = measure(small, 5 * repeats)
    found["ratio_1024"] = round(seconds["C"] / seconds["rollout"], 3)
    found |= beside_diffrax(rollout, ball, y, amplitude, quick)
    print(json.dumps(found))


def beside_diffrax(rollout, ball, y, amplitude, quick):
    """Figures of diffrax under `vmap` with the closed form: fixed and adaptive steps."""
    import diffrax
    import jax
    import jax.numpy as jnp
    from rhs_tax import closed_form, on_scalars

    batch, steps = (512, 50) if quick else (2048, 100)
    rate = on_scalars(closed_form(ball))
    term = diffrax.ODETerm(lambda t, y, c: jnp.stack(rate(t, tuple(y), tuple(c))))

    @functools.partial(jax.jit, static_argnums=(2, 3))
    def solve(y, c, end, rtol):
        adaptive = diffrax.PIDController(rtol=rtol or 1, atol=(rtol or 1) * 1e-2)
        one = lambda y, c: diffrax.diffeqsolve(
            term,
            diffrax.Tsit5(),
            0.0,
            end,
            None if rtol else DT,
            y,
            c,
            stepsize_controller=adaptive if rtol else diffrax.ConstantStepSize(),
            adjoint=diffrax.DirectAdjoint(),
            max_steps=None,
        ).ys[0]  # pyright: ignore
        return jax.vmap(one)(y, c).T

    y, c = jnp.asarray(y[:, :batch].T), jnp.asarray(amplitude[:, :batch].T)
    end, given = steps * DT, {"method": diffrax.Tsit5()}
    fixed = {"diffrax": lambda: solve(y, c, end, None), "rollout": rollout(batch, end, **given)}
    seconds, _, ends = measure(fixed, 3)
    found = {
        "ratio_diffrax_fixed": round(seconds["diffrax"] / seconds["rollout"], 1),
        "difference_fixed": largest(ends["diffrax"], ends["rollout"]),
    }
    exact = rollout(batch, 1.0, 0.005, method=diffrax.Dopri8())()
    adaptive = lambda: solve(y, c, 1.0, 1e-6)
    error = largest(adaptive(), exact)
    dt, run = next(
        (dt, run)
        for dt in (1 / 10, 1 / 20, 1 / 40, 1 / 80, 1 / 160, 1 / 320, 1 / 640)
        if largest((run := rollout(batch, 1.0, dt))(), exact) <= error
    )
    by_tolerance = rollout(batch, 1.0, None, rtol=1e-6, atol=1e-8)
    own_error = largest(by_tolerance(), exact)
    named = {"diffrax": adaptive, "by tolerance": by_tolerance, "equal": run}
    seconds, _, _ = measure(named, 5)
    found |= {"ratio_diffrax_adaptive": round(seconds["diffrax"] / seconds["by tolerance"], 1)}
    found |= {"ratio_diffrax_equal": round(seconds["diffrax"] / seconds["equal"], 1)}
    return found | {"errors_adaptive": [error, own_error], "dt_of_that_error": dt}


def largest(one, other) -> float:
    """The largest difference between two final states."""
    return float(abs(one - other).max())


def measure(programs, repeats):
    """Median seconds of each program in turns, seconds of the first call, and the results."""
    first, ends, seconds = {}, {}, {name: [] for name in programs}
    import jax

    for name, program in programs.items():
        started = time.perf_counter()
        ends[name] = jax.block_until_ready(program())
        first[name] = time.perf_counter() - started
    for _ in range(repeats):
        for name, program in programs.items():
            started = time.perf_counter()
            jax.block_until_ready(program())
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(each) for name, each in seconds.items()}, first, ends


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="fewer, shorter runs, most threads only"
    )
    parser.add_argument("--child", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return child(arguments.child, arguments.quick)
    counts = sorted({1, min(2, len(os.sched_getaffinity(0)))})
    counts = counts[-1:] if arguments.quick else counts
    found = {}
    for threads in counts:
        command = [sys.executable, __file__, "--child", str(threads)]
        command += ["--quick"] * arguments.quick
        out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        found[threads] = json.loads(out.splitlines()[-1])
        print(f"{threads} threads: {json.dumps(found[threads], indent=1)}")
    result = {
        "benchmark": "ensemble_cpu",
        "threads": counts,
        "ratio": found[counts[-1]]["ratio"],
        "ratio_by_threads": [found[n]["ratio"] for n in counts],
        "target": 0.8,
        "batch": BATCH,
        **{
            name: [found[n].get(name) for n in counts]
            for name in (
                "ratio_1024",
                "ratio_numba",
                "ratio_diffrax_fixed",
                "ratio_diffrax_adaptive",
                "ratio_diffrax_equal",
                "errors_adaptive",
                "steps_per_second",
            )
        },
    }
    print(json.dumps(result))
    return None


if __name__ == "__main__":
    main()
