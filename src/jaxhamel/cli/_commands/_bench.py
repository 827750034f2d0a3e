"""The command `bench`: measures this machine on the rolling ball with three masses.

Times of programs are medians over several runs. Programs that are compared run in turns, after a first run of each that
compiles it.
"""

import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxhamel._lanes._xla_cpu._jit import cores
from jaxhamel._typing import Time
from jaxhamel.cli._results._outcome import versions
from jaxhamel.cli._scenario._validate import brief
from jaxhamel.cli._start import CONFIGURATION
from jaxhamel.cli._terminal import Terminal
from jaxhamel.ensemble import lanes, rollout
from jaxhamel.mechanics import VectorField, velocity
from jaxhamel.systems import CircularRails, RollingBall

BATCH, STEPS, DT, REPEATS = 1024, 100, 1e-3, 5
COLD = """
import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends with the command, without a traceback
import jax; jax.config.update("jax_enable_x64", True)
from jaxhamel import simulate
from jaxhamel.cli._commands._bench import ball, Swing, initial_values
q, u, amplitude = initial_values(1)
jax.block_until_ready(simulate(ball(), (q[0][0], q[1][0]), u[0], [0.0, 1.0, 5.0], Swing(amplitude[0])).u)
"""


class Figure(NamedTuple):
    """One row of the table: the measured quantity, its value, and its unit."""

    key: str
    words: str
    value: float
    unit: str


class Swing(eqx.Module):
    """A control that moves every mass as θ(t) = a sin 2t − π/2."""

    amplitude: Array

    def __call__(self, t: Time) -> Array:
        return self.amplitude * jnp.sin(2.0 * t) - np.pi / 2


def ball() -> RollingBall:
    """A ball of radius 1 m with a shell of 4 kg and three masses of 1 kg on circles of radius 0.8 m."""
    rails = CircularRails(
        radius=jnp.full(3, 0.8),
        normal=jnp.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
        zero=jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    )
    shell = {"radius": 1.0, "shell_mass": 4.0, "shell_inertia": [1.0, 1.1, 1.2]}
    numbers = {**shell, "shell_com": [0.0, 0.0, -0.05], "masses": [1.0, 1.0, 1.0]}
    given: dict[str, Any] = {name: jnp.array(x) for name, x in numbers.items()}
    return RollingBall(rails=rails, **given)


def initial_values(batch: int):
    """Random initial values (q, u, amplitude) of a batch, with a leading axis for the trajectories."""
    rng = np.random.default_rng(0)
    quaternion = rng.normal(size=(batch, 4))
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    q = (jnp.asarray(quaternion), jnp.asarray(rng.normal(size=(batch, 2))))
    return (
        q,
        jnp.asarray(rng.normal(size=(batch, 3))),
        jnp.asarray(rng.uniform(0.1, 0.5, (batch, 3))),
    )


def run_bench(terminal: Terminal) -> dict[str, Any]:
    """Runs the benchmark and reports its progress; a dictionary with the keys `machine` and `figures`."""
    figures: list[Figure] = []
    for words, measured in MEASUREMENTS.items():
        terminal.say(f"measuring {words} …")
        figures += measured()
    return {"machine": machine(), "figures": figures}


def as_table(found: Mapping[str, Any]) -> str:
    """The results as a Markdown table."""
    where = [f"| {name} | {value} |" for name, value in found["machine"].items()]
    rows = [f"| {f.words} | {f.value:.3g} {f.unit} |" for f in found["figures"]]
    return "\n".join(["| jaxhamel bench | |", "|---|---|", *where, *rows])


def as_json(found: Mapping[str, Any]) -> dict[str, Any]:
    """The results as JSON, with one entry for each figure."""
    return {"machine": found["machine"], **{f.key: f.value for f in found["figures"]}}


def right_hand_side() -> Iterator[Figure]:
    """The time of one evaluation of the right-hand side for one trajectory, by the closed form and by autodiff.

    Both run in `lanes`, in double precision.
    """
    system = ball()
    (quaternion, position), u, amplitude = initial_values(BATCH)

    def closed(t, q, u, control):
        v = velocity(system, t, q, u)
        return system.space.rate(q, v), system.closed_form(t, q, u, control)

    def autodiff(t, q, u, control):
        return VectorField()(t, (q, u), (system, control))

    def program(rate):
        def ahead(t, q, u, amplitude):
            return jax.tree.map(lambda x, k: x + DT * k, (q, u), rate(t, q, u, Swing(amplitude)))

        def step(y, n):
            return lanes(ahead, (None, 0, 0, 0))(n * DT, *y, amplitude), None

        steps = jnp.arange(float(STEPS))
        return jax.jit(lambda *y: jax.lax.scan(step, y, steps)[0])

    y = ((quaternion, position), u)
    seconds = alternating({f.__name__: partial(program(f), *y) for f in (closed, autodiff)})
    each = {name: 1e9 * s / (BATCH * STEPS) for name, s in seconds.items()}
    yield Figure("rhs_closed_form", "right-hand side, closed form", each["closed"], "ns")
    yield Figure("rhs_autodiff", "right-hand side, autodiff", each["autodiff"], "ns")
    ratio = each["autodiff"] / each["closed"]
    yield Figure("rhs_ratio", "autodiff over closed form", ratio, "")


def ensembles() -> Iterator[Figure]:
    """Runge–Kutta steps per second of `rollout`, with one program on one core and with one on each core."""
    for precision, double in {"float64": True, "float32": False}.items():
        with jax.enable_x64(double):
            run, arguments = _ensemble()
            compiled = run.lower(*arguments).compile()
            one = partial(compiled, *arguments)
            alone = alternating({"one": one})["one"]
            rate = BATCH * STEPS / alone
            words = f"trajectory-steps, {precision}, batch {BATCH}"
            yield Figure(f"steps_per_second_{precision}", words, rate, "1/s")
            if cores() > 1 and jax.default_backend() == "cpu":
                rate = _on_all_cores(one)
                words = f"the same, {cores()} threads"
                yield Figure(f"steps_per_second_{precision}_all_cores", words, rate, "1/s")


def gradients() -> Iterator[Figure]:
    """The time of a cost with its reverse-mode gradient, over the time of the cost alone.

    The gradient is taken with respect to initial velocities, masses and control amplitudes.
    """
    run, arguments = _ensemble()

    def cost(*x):
        return jnp.mean(run(*x) ** 2)

    forward, backward = jax.jit(cost), jax.jit(jax.value_and_grad(cost, (0, 1, 2)))
    seconds = alternating(
        {"run": partial(forward, *arguments), "gradient": partial(backward, *arguments)}
    )
    ratio = seconds["gradient"] / seconds["run"]
    yield Figure("gradient_ratio", "reverse-mode gradient over the run", ratio, "")


def cold_start() -> Iterator[Figure]:
    """Seconds that a fresh Python process takes to import, compile and run its first trajectory of 5 s."""
    started = time.perf_counter()
    _ends_well([sys.executable, "-c", COLD])
    yield Figure(
        "cold_start", "fresh process to first trajectory", time.perf_counter() - started, "s"
    )


def _ends_well(program: list[str]) -> None:
    """Runs a program without JAX's debugging settings in its environment, as commands run (`jaxhamel.cli._start`).

    **Raises:** `OSError` with the last line of its output if the program fails.
    """
    aids = {name.upper() for name in CONFIGURATION}
    kept = {name: value for name, value in os.environ.items() if name not in aids}
    found = subprocess.run(program, env=kept, stderr=subprocess.PIPE, check=False)
    if found.returncode:
        words = found.stderr.decode("utf-8", "replace").split("\n")
        said = next((line for line in reversed(words) if line.strip()), "without a message")
        raise OSError(f"the fresh process ended with status {found.returncode}: {brief(said, 200)}")


MEASUREMENTS: dict[str, Callable[[], Iterator[Figure]]] = {
    "right-hand sides": right_hand_side,
    "ensembles": ensembles,
    "the gradient": gradients,
    "a cold start": cold_start,
}


def alternating(programs: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Median time [s] of each program; the programs run in turns, and the first round is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for repeat in range(REPEATS + 1):
        for name, program in programs.items():
            started = time.perf_counter()
            jax.block_until_ready(program())
            if repeat:
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(each) for name, each in seconds.items()}


def _ensemble():
    """(a function of angular velocities, masses and amplitudes that gives the balls' positions after STEPS steps, its
    arguments)."""
    q, u, amplitude = initial_values(BATCH)
    masses = jnp.asarray(np.random.default_rng(1).uniform(0.5, 1.5, (BATCH, 3)), u.dtype)
    balls, swings = eqx.tree_at(lambda b: b.masses, ball(), masses), Swing(amplitude)
    axes = eqx.tree_at(lambda b: b.masses, jax.tree.map(lambda x: None, balls), 0, is_leaf=_absent)

    @jax.jit
    def run(u, masses, amplitude):
        system = eqx.tree_at(lambda b: b.masses, balls, masses)
        ts = np.linspace(0.0, STEPS * DT, 11)
        control = eqx.tree_at(lambda s: s.amplitude, swings, amplitude)
        return rollout(system, q, u, ts, control, dt=DT, in_axes=(axes, 0, 0, 0))[0][1][:, -1]

    return run, (u, masses, amplitude)


def _absent(x) -> bool:
    return x is None


def _on_all_cores(program: Callable[[], Any]) -> float:
    """Steps per second over all trajectories, with the program running in one thread for each core at once."""

    def several(_):
        for _ in range(REPEATS):
            jax.block_until_ready(program())

    started = time.perf_counter()
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(several, range(cores())))
    return cores() * REPEATS * BATCH * STEPS / (time.perf_counter() - started)


def machine() -> dict[str, str]:
    """Processor, accelerator, system and versions, by name."""
    known = versions()
    return {
        "processor": _processor(),
        "cores": str(cores()),
        "device": f"{jax.device_count()} × {jax.devices()[0].device_kind}",
        "system": f"{platform.system()} {platform.machine()}",
        "versions": ", ".join(f"{name} {known[name]}" for name in ("jaxhamel", "jax", "python")),
    }


def _processor() -> str:
    """Name of the processor: from /proc/cpuinfo on Linux, from `platform` elsewhere."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()
