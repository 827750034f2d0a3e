"""Chains, a floating tree and a robot in MuJoCo and here, at equal accuracy: one trajectory, and ensembles.

    pip install mujoco
    python benchmarks/mujoco_links.py [--quick]

Planar chains of 5, 10 and 20 links of unit length with unit masses at the ends, and a binary tree of twelve such links that
hangs from a floating body (two slides and a hinge, 15 degrees of freedom), 1 s under gravity, chains from rest. A robot of
rigid bodies in space: a free base and a binary tree of twelve hinges with different axes, written to a file that MuJoCo and
`read_mjcf` read (18 degrees of freedom; masses and lengths are arguments of the compiled motion here, too). MuJoCo: RK4
without contacts, its own loop in C, with steps of 0.01 and 0.0025 s. Here: `simulate` (Tsit5) at the largest tolerance of
a ladder of tens whose error is no larger. An error is the largest of all angles and places at the end, against `simulate`
at a tolerance of 1e-13. Medians of runs in turns, processor seconds.

Ensembles: 1,024 trajectories whose initial rates have a spread of 0.1 rad/s, by `ensemble.rollout` with RK4 under
`ensemble.jit`, and 16 of them by MuJoCo, one after the other, both with steps of 0.01 s. Errors are the largest of these 16.
Processor seconds of all threads give the speed per core.

The last line is one JSON object: `ratio` is MuJoCo over `simulate` for the slowest case, `ratio_ensemble` trajectories a
second of `rollout` over MuJoCo's, `rows` and `ensembles` have all. `--quick`: 5 links. `--case NAME`: this one alone.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

HERE = sys.path.pop(0)  # a file of this folder would shadow the package `mujoco`
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

try:
    import mujoco
except ImportError:
    sys.exit("mujoco is not installed: pip install mujoco")
sys.path.insert(0, HERE)

from families import GRAVITY, Links, tree_matrix  # noqa: E402

import jaxhamel  # noqa: E402
from jaxhamel import ensemble  # noqa: E402

jax.config.update("jax_enable_x64", True)
SECONDS, STEPS, JOINTS = 1.0, (0.01, 0.0025), 12
MASS, INERTIA, LEVER = (
    2.0,
    0.5,
    0.5,
)  # size of the floating body; its links begin at this distance from its centre
LANES, FEW = 1024, 16  # trajectories of an ensemble, and how many of them MuJoCo runs
LADDER = [10.0**-k for k in range(4, 13)]


class FloatingTree(jaxhamel.System):
    """A body with (x, z, angle), from which a tree of links hangs; all angles are from the vertical."""

    space = jaxhamel.Euclidean(3 + JOINTS)

    def lagrangian(self, t, q, v):
        a = jnp.asarray(tree_matrix(JOINTS))
        x, z = (
            v[i] + LEVER * f(q[2]) * v[2] + a @ (f(q[3:]) * v[3:])
            for i, f in ((0, jnp.cos), (1, jnp.sin))
        )
        height = q[1] - LEVER * jnp.cos(q[2]) - a @ jnp.cos(q[3:])
        body = (
            0.5 * MASS * (v[0] ** 2 + v[1] ** 2) + 0.5 * INERTIA * v[2] ** 2 - MASS * GRAVITY * q[1]
        )
        return body + 0.5 * jnp.sum(x * x + z * z) - GRAVITY * jnp.sum(height)


class Case:
    """A system, its start, its parents (−1 for links at the root), and the MuJoCo model."""

    def __init__(self, name: str, system: jaxhamel.System, parents: list[int], floats: bool):
        self.name, self.system, self.parents, self.floats = name, system, parents, floats
        angles = np.linspace(0.3, 1.0, len(parents))
        body = np.zeros(3 * floats)
        self.q = np.concatenate([body, angles])
        self.u = np.concatenate([body, floats * np.linspace(-2.0, 3.0, len(parents))])
        self.ts = jnp.array([0.0, SECONDS])

    def model(self, dt: float):
        links = "".join(self._link(k) for k, parent in enumerate(self.parents) if parent < 0)
        if self.floats:
            slides = '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>'
            own = (
                f'<inertial pos="0 0 0" mass="{MASS}" diaginertia="{INERTIA} {INERTIA} {INERTIA}"/>'
            )
            links = f'<body>{slides}<joint type="hinge" axis="0 -1 0"/>{own}{links}</body>'
        option = f'<option timestep="{dt}" gravity="0 0 -{GRAVITY}" integrator="RK4"><flag contact="disable"/></option>'
        return mujoco.MjModel.from_xml_string(
            f"<mujoco>{option}<worldbody>{links}</worldbody></mujoco>"
        )

    def _link(self, k: int) -> str:
        inside = "".join(self._link(j) for j, parent in enumerate(self.parents) if parent == k)
        below = 1.0 if self.parents[k] >= 0 else LEVER * self.floats
        mass = '<inertial pos="0 0 -1" mass="1" diaginertia="1e-13 1e-13 1e-13"/>'
        hinge = f'<joint name="{k}" type="hinge" axis="0 -1 0"/>'
        return f'<body pos="0 0 -{below}">{hinge}{mass}{inside}</body>'

    def theirs(self, dt: float) -> Callable[[], np.ndarray]:
        """The end by MuJoCo's loop in C."""
        model = self.model(dt)
        data, count = mujoco.MjData(model), round(SECONDS / dt)
        joints = [model.joint(str(k)) for k in range(len(self.parents))]
        places, slots = [x.qposadr[0] for x in joints], [x.dofadr[0] for x in joints]
        start, rates = np.zeros(model.nq), np.zeros(model.nv)
        start[places] = self._relative(self.q)

        def run(u: np.ndarray = self.u):
            rates[slots] = self._relative(u)
            mujoco.mj_resetData(model, data)
            data.qpos[:], data.qvel[:] = start, rates
            mujoco.mj_step(model, data, nstep=count)
            first = data.qpos[:3].copy() if self.floats else np.zeros(0)
            found = np.concatenate([first, np.zeros(len(self.parents))])
            for k, place in enumerate(places):
                self._angles(found)[k] = data.qpos[place] + self._of_parent(found, k)
            return found

        return run

    def _relative(self, q: np.ndarray) -> list[float]:
        return [angle - self._of_parent(q, k) for k, angle in enumerate(self._angles(q))]

    def _angles(self, q: np.ndarray) -> np.ndarray:
        return q[3:] if self.floats else q

    def _of_parent(self, q: np.ndarray, k: int) -> float:
        if self.parents[k] >= 0:
            return self._angles(q)[self.parents[k]]
        return q[2] if self.floats else 0.0

    def ours(self) -> Callable:
        """The end as a jitted function of the tolerance and the initial rates."""
        run = partial(jaxhamel.simulate, self.system, jnp.asarray(self.q))
        end = jax.jit(lambda x, u: run(u, self.ts, rtol=x, atol=x).q_end)
        return lambda tolerance, u=self.u: end(tolerance, u)

    def start(self) -> tuple[jaxhamel.System, Any]:
        return self.system, jnp.asarray(self.q)

    def places(self, q):
        """The numbers of a configuration that are compared."""
        return q


class Robot:
    """A free base with a tree of hinges, from one file for both."""

    name = "robot of 12 joints"

    def __init__(self):
        rng = np.random.default_rng(0)
        self.axes, self.offsets = rng.normal(size=(2, JOINTS, 3))
        self.offsets *= 0.3 / np.linalg.norm(self.offsets, axis=1)[:, None]
        self.u = np.concatenate([0.3 * rng.normal(size=6), np.linspace(-2.0, 3.0, JOINTS)])

    def text(self, dt: float) -> str:
        option = f'<option timestep="{dt}" integrator="RK4"><flag contact="disable"/></option>'
        inertial = '<inertial pos=".02 0 .1" mass="2" diaginertia=".05 .06 .07"/>'
        inside = f"<freejoint/>{inertial}{self._links(-1)}"
        return f"<mujoco>{option}<worldbody><body>{inside}</body></worldbody></mujoco>"

    def _links(self, parent: int) -> str:
        """The links on a link; the first one is on the base."""
        on = [k for k in range(JOINTS) if ((k - 1) // 2 if k else -1) == parent]
        return "".join(map(self._link, on))

    def _link(self, k: int) -> str:
        place, axis = (" ".join(map(str, x[k])) for x in (self.offsets, self.axes))
        inertial = '<inertial pos="0 .05 .15" mass=".5" diaginertia=".004 .005 .002"/>'
        hinge = f'<joint name="{k}" axis="{axis}"/>'
        return f'<body pos="{place}">{hinge}{inertial}{self._links(k)}</body>'

    def theirs(self, dt: float) -> Callable[[], np.ndarray]:
        """The end by MuJoCo's loop in C."""
        model = mujoco.MjModel.from_xml_string(self.text(dt))
        data, count = mujoco.MjData(model), round(SECONDS / dt)
        slots = [model.joint(name).dofadr[0] for name in self.system().joint_names]
        places = [model.joint(name).qposadr[0] for name in self.system().joint_names]

        def run(u: np.ndarray = self.u):
            mujoco.mj_resetData(model, data)
            data.qvel[slots] = u[6:]
            data.qvel[:6] = np.roll(u[:6], 3)  # the base's axes are those of space at first
            mujoco.mj_step(model, data, nstep=count)
            return np.concatenate([data.qpos[:3], data.qpos[places]])

        return run

    def system(self) -> jaxhamel.System:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "robot.xml")
            path.write_text(self.text(STEPS[0]))
            return jaxhamel.read_mjcf(path)

    def ours(self) -> Callable:
        """The end as a function of the tolerance and the initial rates; the robot's numbers are arguments of the program."""
        (system, q), ts = self.start(), jnp.array([0.0, SECONDS])

        @jax.jit
        def run(system, tolerance, u):
            end = jaxhamel.simulate(system, q, u, ts, rtol=tolerance, atol=tolerance).q_end
            return self.places(end)

        return lambda tolerance, u=self.u: run(system, tolerance, u)

    def start(self) -> tuple[jaxhamel.System, Any]:
        system = self.system()
        return system, system.initial_state()[0]

    def places(self, q):
        """The numbers of a configuration that are compared."""
        return jnp.concatenate([q[0][..., 4:], q[1]], axis=-1)


def cases(quick: bool) -> list[Case | Robot]:
    """The chains, the floating tree, and the robot."""

    def chain(n: int) -> Case:
        return Case(f"chain of {n}", Links(jnp.cumsum, n), list(range(-1, n - 1)), floats=False)

    tree = [-1, *((k - 1) // 2 for k in range(1, JOINTS))]
    found: list[Case | Robot] = [chain(5)] if quick else [*map(chain, (5, 10, 20))]
    return (
        found
        if quick
        else [*found, Case("floating tree", FloatingTree(), tree, floats=True), Robot()]
    )


def processor_seconds(run: Callable) -> float:
    started = time.process_time()
    jax.block_until_ready(run())
    return time.process_time() - started


def compared(case: Case | Robot, ours: Callable, dt: float, repeats: int) -> dict[str, Any]:
    theirs = case.theirs(dt)
    exact = np.asarray(ours(1e-13))
    miss = lambda end: float(np.abs(np.asarray(end) - exact).max())
    error = miss(theirs())
    tolerance = next(x for x in LADDER if miss(ours(x)) <= error)
    runs = {"MuJoCo": theirs, "simulate": partial(ours, tolerance)}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            times[name].append(processor_seconds(run))
    median = {name: statistics.median(each) for name, each in times.items()}
    row = {"name": case.name, "dt": dt, "error": error, "tolerance": tolerance, **median}
    return row | {"ratio": median["MuJoCo"] / median["simulate"]}


def ensembles(case: Case | Robot, single: Callable, repeats: int) -> dict[str, Any]:
    """Trajectories per processor second of both; `single`: the function of `ours`."""
    spread = np.random.default_rng(1).normal(size=(LANES, len(case.u)))
    rates, theirs = case.u + 0.1 * spread, case.theirs(STEPS[0])
    ours = partial(rolled_out(case), jnp.asarray(rates))
    exact = np.stack([single(1e-12, u) for u in rates[:FEW]])
    run_theirs = lambda: np.stack([theirs(u) for u in rates[:FEW]])
    miss = lambda ends: float(np.abs(np.asarray(ends)[:FEW] - exact).max())
    first = processor_seconds(ours)
    errors = {"MuJoCo": miss(run_theirs()), "rollout": miss(ours())}
    times: dict[str, list[float]] = {"MuJoCo": [], "rollout": []}
    for _ in range(repeats):
        times["MuJoCo"].append(processor_seconds(run_theirs) / FEW)
        times["rollout"].append(processor_seconds(ours) / LANES)
    each = {name: 1.0 / statistics.median(seconds) for name, seconds in times.items()}
    row = {"name": case.name, "errors": errors, "first_value": first, "per_second": each}
    return row | {"ratio": each["rollout"] / each["MuJoCo"]}


def rolled_out(case: Case | Robot) -> Callable:
    """The ends of an ensemble as a function of its initial rates, by RK4."""
    (system, q), ts = case.start(), np.array([0.0, SECONDS])

    @ensemble.jit
    def run(system, u):
        options = {"dt": STEPS[0], "in_axes": (None, None, 0, None)}
        found, _ = ensemble.rollout(system, q, u, ts, None, **options)
        return case.places(jax.tree.map(lambda x: x[:, -1], found))

    return partial(run, system)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="five links, within 30 s")
    parser.add_argument("--case", help="the name of one case")
    given, rows, many = parser.parse_args(), [], []
    for case in (x for x in cases(given.quick) if given.case in (None, x.name)):
        ours = case.ours()
        for dt in STEPS:
            row = compared(case, ours, dt, 11 if given.quick else 25)
            rows.append(row)
            both = f"{1e3 * row['MuJoCo']:8.3f} and {1e3 * row['simulate']:.3f} ms"
            print(
                f"{case.name:15} dt {dt:<7} error {row['error']:.1e}{both}{row['ratio']:7.1f}",
                flush=True,
            )
        many.append(ensembles(case, ours, 5))
        print(many[-1], flush=True)
    ratio = min(row["ratio"] for row in rows)
    result = {"benchmark": "mujoco_links", "ratio": ratio, "version": mujoco.__version__}
    result["ratio_ensemble"] = min(row["ratio"] for row in many)
    print(json.dumps(result | {"rows": rows, "ensembles": many}))


if __name__ == "__main__":
    main()
