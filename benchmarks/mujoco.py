"""The rolling ball in MuJoCo and MJX and here, at equal accuracy.

    pip install mujoco==3.17.0 mujoco-mjx==3.17.0
    python benchmarks/mujoco.py [--quick]

The ball with two masses for 5 s. MuJoCo is tuned for it: Runge-Kutta, elliptic cone, contact stiffness 2 dt, impratio 1e4;
the masses sit on hinges with an armature of 1e6 kg m² (which does not react on the ball), are pushed by the torque that
their acceleration needs and put back on their path before each step. "Equal accuracy": the cheapest setting here whose
end lies no farther from the exact one than MuJoCo's. One trajectory is timed without what Python costs MuJoCo: as its own
loop in C (`mujoco.rollout`, which cannot put the masses back and is less accurate; that is not held against it).

Figures: `ratio`, one trajectory by `jaxhamel.ensemble.rollout` under jit; `ratio_simulate`, by `jaxhamel.simulate`;
`ratio_ensemble`, trajectories a second, MuJoCo on all cores; without `--quick` `ratio_mjx`, `ratio_mjx_ensemble` and
`ratio_mjx_tangent`, the derivative of the end by one amplitude in forward mode (MJX has no reverse mode through its
solver). Medians of runs that alternate.
"""

import argparse
import json
import os
import sys
import time
from functools import partial

HERE = sys.path.pop(0)  # this file would shadow the package `mujoco`
import diffrax  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

try:
    import mujoco
    from mujoco import rollout as mujoco_rollout
except ImportError:
    sys.exit("mujoco is not installed: pip install mujoco==3.17.0 mujoco-mjx==3.17.0")
sys.path.insert(0, HERE)

from reference_ball import (  # noqa: E402
    AMPLITUDE,
    END,
    SECONDS,
    first_call,
    make_ball,
    median_seconds,
    phases,
    start,
    swing,
)

import jaxhamel  # noqa: E402
from jaxhamel import ensemble  # noqa: E402

jax.config.update("jax_enable_x64", True)
ARMATURE = 1e6
MODEL = f"""
<mujoco>
  <option timestep="{{dt}}" gravity="0 0 -9.81" integrator="{{integrator}}" cone="elliptic" impratio="1e4"
          tolerance="1e-12"/>
  <worldbody>
    <geom type="plane" size="20 20 .1" condim="3" friction="1 0 0" solref="{{stiffness}} 1" solimp=".99 .99 .001"/>
    <body pos="0 0 1">
      <freejoint/>
      <inertial pos="0 0 -.05" mass="4" diaginertia="1 1.1 1.2"/>
      <geom type="sphere" size="1" condim="3" friction="1 0 0" mass="0" solref="{{stiffness}} 1" solimp=".99 .99 .001"/>
      <body>
        <joint name="first" type="hinge" axis="0 -1 0" armature="{ARMATURE}"/>
        <inertial pos=".8 0 0" mass="1" diaginertia="1e-9 1e-9 1e-9"/>
      </body>
      <body>
        <joint name="second" type="hinge" axis="1 0 0" armature="{ARMATURE}"/>
        <inertial pos="0 .8 0" mass="1" diaginertia="1e-9 1e-9 1e-9"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="first" gear="{ARMATURE}"/><motor joint="second" gear="{ARMATURE}"/></actuator>
</mujoco>
"""
PHASE, COUNT = phases(2), os.cpu_count() or 1


def angle(t, amplitude=AMPLITUDE):
    return amplitude * np.sin(2.0 * t + PHASE) - np.pi / 2


def rate(t, amplitude=AMPLITUDE):
    return 2.0 * amplitude * np.cos(2.0 * t + PHASE)


def torque(t, amplitude=AMPLITUDE):
    """Torque per armature [1/s²]: the acceleration at the middle of a step, during which it is constant."""
    return -4.0 * amplitude * np.sin(2.0 * t + PHASE)


class MuJoCo:
    """MuJoCo at one step size: the model, samples of the masses' motion, and the ways to run it."""

    def __init__(self, dt: float, integrator: str = "RK4"):
        source = MODEL.format(dt=dt, integrator=integrator, stiffness=2 * dt)
        self.model = mujoco.MjModel.from_xml_string(source)
        self.steps = round(SECONDS / dt)
        at = np.arange(self.steps)[:, None] * dt
        self.angle, self.rate, self.torque = angle(at), rate(at), torque(at + dt / 2)

    def data(self):
        data = mujoco.MjData(self.model)
        data.qpos[7:], data.qvel[6:] = self.angle[0], self.rate[0]
        return data

    def on_rails(self) -> np.ndarray:
        """The ball's final position by a Python loop that resets the masses to their path before each step."""
        data = self.data()
        for n in range(self.steps):
            data.qpos[7:], data.qvel[6:], data.ctrl[:] = self.angle[n], self.rate[n], self.torque[n]
            mujoco.mj_step(self.model, data)
        return data.qpos[:2].copy()

    def in_c(self, size: int, threads: int):
        """A function that runs `size` trajectories by MuJoCo's own loop in C."""
        kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
        state = np.empty(mujoco.mj_stateSize(self.model, kind))
        mujoco.mj_getState(self.model, self.data(), state, kind)
        states = np.tile(state, (size, 1))
        torques = np.tile(self.torque, (size, 1, 1))
        datas = [mujoco.MjData(self.model) for _ in range(threads)]
        return lambda: mujoco_rollout.rollout(self.model, datas, states, torques)[0]


def miss(end) -> float:
    return float(np.linalg.norm(np.asarray(end) - END))


def single(method, dt: float):
    """One trajectory by `rollout`, as a jitted function of the amplitudes."""
    ball, (q0, u0) = make_ball(), start()
    one = jax.tree.map(lambda x: x[None], (q0, u0))
    ts = np.array([0.0, SECONDS])

    def end(control):
        options = {"dt": dt, "method": method, "in_axes": (None, 0, 0, None)}
        return ensemble.rollout(ball, *one, ts, control, **options)[0][1][0, -1]

    return jax.jit(end)


def by_simulate(method, dt: float):
    ball, (q0, u0), ts = make_ball(), start(), jnp.array([0.0, SECONDS])
    options = {"dt": dt, "solver": method}
    return jax.jit(lambda control: jaxhamel.simulate(ball, q0, u0, ts, control, **options).q[1][-1])


def many(method, dt: float, size: int):
    """`size` trajectories, each with its own start and control."""
    ball, (q0, u0), ts = make_ball(), start(), np.array([0.0, SECONDS])
    spread = 1e-3 * np.random.default_rng(0).normal(size=(size, 3))
    rates = u0 + jnp.asarray(spread)
    q = jax.tree.map(lambda x: jnp.tile(x, (size, 1)), q0)
    control = jax.tree.map(lambda x: jnp.tile(x, (size, 1)), swing())
    options = {"dt": dt, "method": method, "in_axes": (None, 0, 0, 0)}
    return jax.jit(partial(ensemble.rollout, ball, q, rates, ts, control, **options))


LADDER = {
    "rk4": ("rk4", (0.1, 1 / 15, 0.05, 0.04, 0.02)),
    "Tsit5": (diffrax.Tsit5(), (0.5, 0.25, 0.2, 0.125, 0.1)),
    "Dopri8": (diffrax.Dopri8(), (1.0, 0.625, 0.5, 0.25)),
}


def good_enough(make, error: float, names=tuple(LADDER)) -> dict:
    """For each method, the longest step whose error is at most `error`: (method, dt), program, error, seconds to
    compile."""
    found = {}
    for name in names:
        method, steps = LADDER[name]
        for dt in steps:
            program = make(method, dt)
            seconds = first_call(program, swing())
            reached = miss(program(swing()))
            if reached <= error:
                found[f"{name}, dt {dt:.3g} s"] = ((method, dt), program, reached, seconds)
                break
    return found


def one_trajectory(peer: MuJoCo, repeats: int) -> dict:
    error, control = miss(peer.on_rails()), swing()
    rollouts = good_enough(single, error)
    simulations = good_enough(by_simulate, error, ("Tsit5", "Dopri8"))
    runs = {"MuJoCo, loop in Python": peer.on_rails, "MuJoCo, loop in C": peer.in_c(1, 1)}
    errors = dict.fromkeys(runs, error)
    for kind, found in (("rollout", rollouts), ("simulate", simulations)):
        for setting, (_, program, reached, _) in found.items():
            runs[f"{kind}, {setting}"] = partial(program, control)
            errors[f"{kind}, {setting}"] = reached
    seconds = median_seconds(runs, repeats)
    for name, each in seconds.items():
        print(f"{name:<28} {1e3 * each:9.3f} ms   {errors[name]:8.1e} m from the exact end")
    fastest = min(rollouts, key=lambda setting: seconds[f"rollout, {setting}"])
    theirs = min(seconds["MuJoCo, loop in Python"], seconds["MuJoCo, loop in C"])
    best = min(seconds[f"simulate, {setting}"] for setting in simulations)
    return {
        "error": error,
        "setting": fastest,
        "ratio": theirs / seconds[f"rollout, {fastest}"],
        "ratio_simulate": theirs / best,
        "compile_seconds": rollouts[fastest][3],
        "chosen": {setting: found[0] for setting, found in rollouts.items()},
    }


def ensembles(peer: MuJoCo, chosen: dict, size: int, repeats: int) -> float:
    theirs = 16 * COUNT
    runs = {"MuJoCo": peer.in_c(theirs, COUNT)}
    for setting, method in chosen.items():
        runs[setting] = many(*method, size)
        first_call(runs[setting])
    seconds = median_seconds(runs, repeats)
    per_second = {n: (theirs if n == "MuJoCo" else size) / each for n, each in seconds.items()}
    for name, each in per_second.items():
        print(f"ensemble, {name:<18} {each:9.0f} trajectories/s")
    return max(per_second[setting] for setting in chosen) / per_second["MuJoCo"]


def mjx_figures(peer: MuJoCo, chosen, repeats: int) -> dict:
    """Figures of MJX: Runge–Kutta in double precision with the same model, whose masses are reset before each step."""
    from mujoco import mjx

    model, first = mjx.put_model(peer.model), mjx.put_data(peer.model, peer.data())
    dt = peer.model.opt.timestep
    at = jnp.arange(peer.steps) * dt

    def end(amplitude):
        def step(data, t):
            both = jnp.asarray(PHASE)
            qpos = data.qpos.at[7:].set(amplitude * jnp.sin(2 * t + both) - jnp.pi / 2)
            qvel = data.qvel.at[6:].set(2 * amplitude * jnp.cos(2 * t + both))
            push = -4 * amplitude * jnp.sin(2 * (t + dt / 2) + both)
            later = mjx.step(model, data.replace(qpos=qpos, qvel=qvel, ctrl=push))
            # in double precision MJX returns some integers in another width than its input
            return jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), later, data), None

        return jax.lax.scan(step, first, at)[0].qpos[:2]

    amplitude = jnp.full(2, AMPLITUDE)
    direction = jnp.array([1.0, 0.0])
    size = 64
    batch = jnp.tile(amplitude, (size, 1))
    theirs = jax.jit(end)
    tangent = jax.jit(lambda a: jax.jvp(end, (a,), (direction,))[1])
    together = jax.jit(jax.vmap(end))
    ours, control = single(*chosen), swing()
    moved = jax.jit(lambda c: jax.jvp(ours, (c,), (jax.tree.map(lambda _: direction, c),))[1])
    mine = many(*chosen, 1024)
    compiled = {
        "MJX": first_call(theirs, amplitude),
        "MJX tangent": first_call(tangent, amplitude),
        "MJX ensemble": first_call(together, batch),
        "tangent": first_call(moved, control),
        "ensemble": first_call(mine),
    }
    first_call(ours, control)
    print(f"MJX: {miss(theirs(amplitude)):.1e} m from the exact end; first calls [s]: {compiled}")
    print(f"d end/d amplitude: MJX {tangent(amplitude)}, ours {moved(control)}")
    seconds = median_seconds(
        {
            "MJX": lambda: theirs(amplitude),
            "ours": lambda: ours(control),
            "MJX tangent": lambda: tangent(amplitude),
            "tangent": lambda: moved(control),
            "MJX ensemble": lambda: together(batch),
            "ensemble": mine,
        },
        repeats,
    )
    print("   ".join(f"{name} {1e3 * each:.3f} ms" for name, each in seconds.items()))
    return {
        "ratio_mjx": seconds["MJX"] / seconds["ours"],
        "ratio_mjx_tangent": seconds["MJX tangent"] / seconds["tangent"],
        "ratio_mjx_ensemble": seconds["MJX ensemble"] / size / (seconds["ensemble"] / 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="without MJX, fewer runs, within 30 s")
    arguments = parser.parse_args()
    started, repeats = time.perf_counter(), 5 if arguments.quick else 15
    peer = MuJoCo(1e-2)
    result = one_trajectory(peer, repeats)
    chosen = result.pop("chosen")
    result["ratio_ensemble"] = ensembles(peer, chosen, 1024 if arguments.quick else 4096, repeats)
    if not arguments.quick:
        result |= mjx_figures(peer, chosen[result["setting"]], 3)
    result |= {"versions": {"mujoco": mujoco.__version__, "jax": jax.__version__}}
    result |= {"targets": {"ratio": 25, "ratio_ensemble": 300}, "threads": COUNT}
    result["seconds"] = time.perf_counter() - started
    figures = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in result.items()}
    print(json.dumps({"benchmark": "mujoco", **figures}))


if __name__ == "__main__":
    main()
