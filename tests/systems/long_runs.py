"""10⁶ steps of every named system: the drift of each invariant by each method. By hand, not by pytest:

    python -m tests.systems.long_runs --out long_runs.jsonl [--methods rk4 tsit5] [--steps 1000000] [--dt 0.01] [--table]

Parameters are those of `tests.systems.cases`; the start is drawn from the seed 0 if the case has none. Where that motion
needs ever shorter steps or meets a singular configuration, a second motion of the system is run, too (`REGULAR`). A line
of `--out` is one motion with one method; those that stand in it already are not computed again. A drift is the largest
change of an invariant since the start, relative to its size at the start (absolute if that is below 1e-6), over the first
tenth and all.
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import diffrax  # noqa: E402
import equinox as eqx  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from jaxhamel import CommutatorFree4, ensemble  # noqa: E402
from jaxhamel.geometry import SO3  # noqa: E402
from jaxhamel.mechanics import as_control  # noqa: E402
from jaxhamel.systems import WhippleBicycle  # noqa: E402
from tests.systems.cases import ALL  # noqa: E402

METHODS = {
    "rk4": lambda: "rk4",
    "tsit5": diffrax.Tsit5,
    "dopri8": diffrax.Dopri8,
    "commutator-free": CommutatorFree4,
}
SAMPLES = 100


def _upright_disk(system):
    """A fast wheel, almost upright: the axis along y, a lean of 0.1 rad."""
    q = system.configuration(SO3().exp(jnp.array([np.pi / 2 + 0.1, 0.0, 0.0])), jnp.zeros(2))
    return q, jnp.array([0.1, 0.05, 8.0])


def _bicycle_at(speed):
    def start(system):
        q = system.configuration(0.05, 0.0)
        return q, jnp.array([0.1, 0.0, speed / float(system.rear_radius)])

    return start


def _equal_trucks(system):
    """Trucks that turn at the same rate: the angle between them stays 0.9 rad."""
    return (jnp.array([0.1, -0.2, 0.6]), jnp.array([0.1, -0.5, 0.4])), jnp.array(
        [1.3, 0.9, -0.7, -0.7]
    )


BENCHMARK = {
    f.name: getattr(WhippleBicycle.benchmark(), f.name) for f in dataclasses.fields(WhippleBicycle)
}
REGULAR = {
    "UnderwaterBody": ("neutral", {"displaced_mass": 1.2}, {}),
    "RollingDisk": ("fast and almost upright", {"inertia": None}, {"start": _upright_disk}),
    "RollingPendulumBall": ("no torques", {}, {"still": None}),
    "Snakeboard": ("trucks at the same rate", {}, {"start": _equal_trucks}),
    "WhippleBicycle": (
        "benchmark at 5 m/s",
        BENCHMARK,
        {"start": _bicycle_at(5.0), "still": None},
    ),
    "RigidBody": ("no gravity", {"gravity": 0.0}, {}),
}


def runs():
    """(name, case) of every motion."""
    for case in ALL:
        yield case.name, case
        if case.name in REGULAR:
            words, parameters, others = REGULAR[case.name]
            parameters = case.parameters | parameters
            yield (
                f"{case.name}, {words}",
                dataclasses.replace(case, parameters=parameters, **others),
            )


def start_of(case, system):
    """(q, u) of the case, or a random state."""
    if case.start:
        return case.start(system)
    generator = np.random.default_rng(0)
    q = system.space.exp(jnp.asarray(generator.normal(size=system.space.dim)))
    return q, jnp.asarray(generator.normal(size=system.n_independent))


@eqx.filter_jit
def invariants(system, ts, q, u, control):
    return jax.vmap(lambda t, q, u: system.invariants(t, q, u, control))(ts, q, u)


def drift(values):
    """Over the first tenth and over all."""
    values = np.asarray(values).reshape(len(values), -1)
    change = np.max(np.abs(values - values[:1]), axis=1)
    size = np.max(np.abs(values[0]))
    change = change / (size if size > 1e-6 else 1.0)
    return [float(np.max(change[: SAMPLES // 10 + 1])), float(np.max(change))]


def line(name, case, method, steps, dt):
    system, control = case(), as_control(case.still)
    q, u = start_of(case, system)
    ts = np.linspace(0.0, steps * dt, SAMPLES + 1)
    started = time.process_time()
    one = jax.tree.map(lambda x: x[None], (q, u))
    q, u = ensemble.rollout(
        system,
        *one,
        ts,
        control,
        dt=dt * (1 + 1e-9),  # the intervals divide evenly up to rounding
        method=METHODS[method](),
        in_axes=(None, 0, 0, None),
    )
    q, u = jax.block_until_ready(jax.tree.map(lambda x: x[0], (q, u)))
    kept = invariants(system, jnp.asarray(ts), q, u, control)
    return {
        "system": name,
        "method": method,
        "steps": steps,
        "dt": dt,
        "finite": bool(np.all(np.isfinite(u))),
        "drift": {name: drift(values) for name, values in kept.items()},
        "seconds": round(time.process_time() - started, 1),
    }


def table(rows):
    """One line for each invariant, one column for each method."""
    methods = [name for name in METHODS if any(row["method"] == name for row in rows)]
    order = [name for name, _ in runs()]
    found = {}
    for row in sorted(rows, key=lambda row: order.index(row["system"])):
        for name, (first, whole) in row["drift"].items():
            found.setdefault((row["system"], name), {})[row["method"]] = (
                f"{first:.0e} → {whole:.0e}"
            )
    head = [
        "| system | invariant |" + "".join(f" {m} |" for m in methods),
        "|---" * (2 + len(methods)) + "|",
    ]
    body = [
        f"| {system} | {name} |" + "".join(f" {by.get(m, '')} |" for m in methods)
        for (system, name), by in found.items()
    ]
    return "\n".join([*head, *body])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("long_runs.jsonl"))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["rk4", "tsit5"])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--dt", type=float, default=0.01)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    done = [json.loads(text) for text in lines]
    if options.table:
        print(table(done))
        return
    for method in options.methods:
        for name, case in runs():
            if any((row["system"], row["method"]) == (name, method) for row in done):
                continue
            row = line(name, case, method, options.steps, options.dt)
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            jax.clear_caches()


if __name__ == "__main__":
    main()
