"""Energy and constraints over 10⁵ steps, for every integrator, on problems that do and do not forgive.

    python benchmarks/long_time.py [--quick] [--steps N] [--out long_time.png]

Five problems, in this order from forgiving to not:

- `top`: an asymmetric heavy top, chaotic, Hamiltonian. Its second quantity is the momentum about the vertical.
- `rod`: a spherical pendulum in R³ whose rod is the one-form q·v = 0. The second quantity is |q|² − 1.
- `contact`: the contact oscillator of McLachlan and Perlmutter 2006, section 5.2, ẋ + y ż = 0, with the coupling x²z²:
  reversible, not integrable.
- `symmetric`, `asymmetric`: a transmission with ratio sin x driven by a turning pendulum x, ẏ + sin x ż = 0, y and z on
  springs. The pendulum moves by itself, and (y, z, w) with w the speed along the constraint turns like a rigid body whose
  angular velocity is a function of x alone: integrable, with y² + z² + w² kept. With the potential −cos x the motion is
  reversible even for a pendulum that goes round; the term −ε sin 2x leaves no reflection that maps the motion onto its
  reverse. This is the way Modin and Verdier 2020 break the standard test problems; numbers and ratio are our own.

The second quantity of the last three is the discrete constraint of one step, A(q_m) ξ with ξ = (q_{k+1} − q_k)/h. The row
`multipliers` is a classical Runge-Kutta method on (q, v) with v̇ from the multipliers, where nothing but the equations
holds the constraints; its second quantity is A(q) v (on the rod |q|² − 1).

Times are microseconds of CPU per step, one trajectory. The last line is one JSON object: for each problem and integrator the
largest relative energy error of the first and the last tenth of the run, and the largest second quantity.
"""

import argparse
import json
import time
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxhamel
from jaxhamel.systems import HeavyTop

jax.config.update("jax_enable_x64", True)
SAMPLES = 1000


class Rod(jaxhamel.System):
    """A unit mass on a unit rod, gravity 1, in R³."""

    space = jaxhamel.Euclidean(3)
    n_constraints = 1

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.sum(v * v) - q[2]

    def frame(self, t, q):
        """q, and two directions across it that never vanish together below the equator."""
        return jnp.stack(
            [
                q,
                jnp.stack([-q[2], jnp.zeros_like(q[0]), q[0]]),
                jnp.stack([jnp.zeros_like(q[0]), -q[2], q[1]]),
            ]
        )


class Contact(jaxhamel.System):
    """ẋ + y ż = 0, V = (x² + y² + z² + ε x² z²)/2; u = (ẏ, ż)."""

    coupling: jax.Array
    space = jaxhamel.Euclidean(3)
    n_constraints = 1

    def lagrangian(self, t, q, v):
        x2, _, z2 = q * q
        return 0.5 * (jnp.sum(v * v) - jnp.sum(q * q) - self.coupling * x2 * z2)

    def frame(self, t, q):
        return jnp.eye(3, dtype=q.dtype).at[0, 2].set(q[1])


class Transmission(jaxhamel.System):
    """ẏ + sin x ż = 0, V = −cos x − ε sin 2x + (y² + z²)/2; u = (ẋ, ż)."""

    asymmetry: jax.Array
    space = jaxhamel.Euclidean(3)
    n_constraints = 1

    def lagrangian(self, t, q, v):
        pendulum = jnp.cos(q[0]) + self.asymmetry * jnp.sin(2 * q[0])
        return 0.5 * jnp.sum(v * v) + pendulum - 0.5 * (q[1] ** 2 + q[2] ** 2)

    def frame(self, t, q):
        first = jnp.stack([jnp.zeros_like(q[0]), jnp.ones_like(q[0]), jnp.sin(q[0])])
        return jnp.stack(
            [first, jnp.array([1.0, 0.0, 0.0], q.dtype), jnp.array([0.0, 0.0, 1.0], q.dtype)]
        )


def problems():
    """Name → (system, q0, u0, dt)."""
    top = HeavyTop(
        inertia=jnp.array([1.0, 1.6, 2.0]), mass=1.0, com=jnp.array([0.2, 0.1, 0.6]), gravity=1.0
    )
    angle, speed = 2.0, 0.4
    rod = jnp.array([jnp.sin(angle), 0.0, jnp.cos(angle)])
    driven = jnp.array([0.0, 1.0, 0.3]), jnp.array([2.6, 0.4])
    return {
        "top": (top, jnp.array([0.6, 0.8, 0.0, 0.0]), jnp.array([0.4, 1.0, 0.8]), 0.1),
        "rod": (Rod(), rod, jnp.array([0.1, speed]), 0.1),
        "contact": (
            Contact(jnp.array(1.0)),
            jnp.array([1.0, 1.0, 0.5]),
            jnp.array([0.3, 0.7]),
            0.1,
        ),
        "symmetric": (Transmission(jnp.array(0.0)), *driven, 0.1),
        "asymmetric": (Transmission(jnp.array(0.3)), *driven, 0.1),
    }


def integrators():
    return {
        "CommutatorFree2": jaxhamel.CommutatorFree2(),
        "CommutatorFree4": jaxhamel.CommutatorFree4(),
        "LieGroup(Tsit5)": jaxhamel.LieGroup(diffrax.Tsit5(), jaxhamel.SO3()),
        "Variational(2)": jaxhamel.Variational(),
        "Variational(4)": jaxhamel.Variational(order=4),
    }


@eqx.filter_jit
def run(system, solver, y0, dt, steps):
    """Energy and second quantity at SAMPLES times."""
    term, args = diffrax.ODETerm(jaxhamel.vector_field), (system, None)
    zero = jnp.zeros_like(dt)

    def step(k, carry):
        (_, y, state), t = carry, k * dt
        y1, _, _, state, _ = solver.step(term, t, t + dt, y, args, state, False)
        return y, y1, state

    def sample(carry, i):
        stride = steps // SAMPLES
        carry = jax.lax.fori_loop(i * stride, (i + 1) * stride, step, carry)
        (q0, _), (q, u), _ = carry
        return carry, (jaxhamel.energy(system, 0.0, q, u), second_quantity(system, q0, q, u, dt))

    state = solver.init(term, zero, dt, y0, args)
    return jax.lax.scan(sample, (y0, y0, state), jnp.arange(SAMPLES))[1]


def second_quantity(system, q0, q1, u, dt):
    if isinstance(system, HeavyTop):
        return system.invariants(0.0, q1, u, None)["vertical angular momentum"]
    if isinstance(system, Rod):
        return jnp.sum(q1 * q1) - 1
    xi = (q1 - q0) / dt
    return system.frame(0.0, (q0 + q1) / 2)[0] @ xi


@eqx.filter_jit
def run_multipliers(system, y0, dt, steps):
    """The same by classical Runge–Kutta on (q, v), unit mass matrix."""

    def rate(y):
        q, v = y
        constraint = lambda q: system.frame(0.0, q)[0]
        a, a_dot = jax.jvp(constraint, (q,), (v,))
        force = jax.grad(lambda q: system.lagrangian(0.0, q, jnp.zeros_like(q)))(q)
        return v, force - a * ((a @ force + a_dot @ v) / (a @ a))

    def step(_, y):
        ahead = lambda h, k: jax.tree.map(lambda y, k: y + h * k, y, k)
        k1 = rate(y)
        k2 = rate(ahead(dt / 2, k1))
        k3 = rate(ahead(dt / 2, k2))
        k4 = rate(ahead(dt, k3))
        return jax.tree.map(
            lambda y, a, b, c, d: y + dt / 6 * (a + 2 * b + 2 * c + d), y, k1, k2, k3, k4
        )

    def sample(y, _):
        q, v = y = jax.lax.fori_loop(0, steps // SAMPLES, step, y)
        energy = v @ v - system.lagrangian(0.0, q, v)
        residual = q @ q - 1 if isinstance(system, Rod) else system.frame(0.0, q)[0] @ v
        return y, (energy, residual)

    q, u = y0
    y0 = q, jaxhamel.velocity(system, 0.0, q, u)
    return jax.lax.scan(sample, y0, None, length=SAMPLES)[1]


def measure(program):
    """The histories, and CPU seconds of a second run, since the first one compiles."""
    jax.block_until_ready(program(SAMPLES))
    started = time.process_time()
    histories = jax.block_until_ready(program(None))
    return [np.asarray(h) for h in histories], time.process_time() - started


def programs(name, quick):
    """Integrator → a function of the number of steps."""
    system, q0, u0, dt = problems()[name]
    chosen = integrators()
    if quick:
        chosen = {n: chosen[n] for n in ("CommutatorFree4", "Variational(2)")}
    if not isinstance(system, HeavyTop) and not quick:
        chosen["multipliers"] = None

    def make(solver):
        if solver is None:
            return lambda steps: run_multipliers(system, (q0, u0), jnp.asarray(dt), steps)
        if isinstance(solver, jaxhamel.LieGroup):
            solver = jaxhamel.LieGroup(solver.solver, system.space)
        else:
            solver = solver.on(system.space)
        return lambda steps: run(system, solver, (q0, u0), jnp.asarray(dt), steps)

    return {n: make(solver) for n, solver in chosen.items()}


def scale_of_energy(system, q0, u0):
    """Kinetic energy at the start [J], the unit of the errors."""
    v = jaxhamel.velocity(system, 0.0, q0, u0)
    still = system.lagrangian(0.0, q0, jnp.zeros_like(v))
    return float(system.lagrangian(0.0, q0, v) - still)


def errors_of(name, histories):
    system, q0, u0, _ = problems()[name]
    energy, second = histories
    start = float(jaxhamel.energy(system, 0.0, q0, u0))
    if isinstance(system, HeavyTop):
        second = second - float(second_quantity(system, q0, q0, u0, 1.0))
    return (energy - start) / scale_of_energy(system, q0, u0), second


def figures(energy, second) -> dict[str, Any]:
    tenth = len(energy) // 10

    def largest(x) -> float | None:
        """The largest absolute value; None if the run diverged."""
        size = float(np.max(np.abs(x)))
        return float(f"{size:.2e}") if np.isfinite(size) else None

    return {
        "energy_first_tenth": largest(energy[:tenth]),
        "energy_last_tenth": largest(energy[-tenth:]),
        "second": largest(second),
    }


TITLES = {
    "top": ("asymmetric heavy top", "vertical momentum"),
    "rod": ("pendulum, rod as one-form", "|q|² − 1"),
    "contact": ("contact oscillator, reversible", "A ξ of a step"),
    "symmetric": ("transmission, reversible", "A ξ of a step"),
    "asymmetric": ("transmission, not reversible", "A ξ of a step"),
}


def draw(histories, steps, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(name for name, _ in histories))
    grid, axes = plt.subplots(
        len(names), 2, figsize=(11, 2.5 * len(names) + 0.9), sharex=True, squeeze=False
    )
    labels = list(dict.fromkeys(label for _, label in histories))
    colours = dict(zip(labels, plt.get_cmap("tab10").colors, strict=False))
    at = np.arange(1, SAMPLES + 1) * (steps / SAMPLES)
    for row, name in zip(axes, names, strict=True):
        for (problem, label), errors in histories.items():
            if problem != name:
                continue
            for axis, error in zip(row, errors, strict=True):
                # the running maximum of the error: a flat curve has stopped growing
                curve = np.maximum.accumulate(np.abs(error))
                axis.loglog(at, np.maximum(curve, 1e-17), color=colours[label], label=label, lw=1.4)
        for axis, what in zip(row, ("energy error", TITLES[name][1]), strict=True):
            axis.set_title(f"{TITLES[name][0]}: {what}", fontsize=9)
            axis.grid(alpha=0.3)
            axis.set_ylim(1e-17, 1e2)
    for axis in axes[-1]:
        axis.set_xlabel("steps")
    handles = {
        h.get_label(): h for row in axes for a in row for h in a.get_legend_handles_labels()[0]
    }
    grid.legend(handles.values(), handles.keys(), ncols=6, loc="upper center", fontsize=8)
    grid.tight_layout(rect=(0, 0, 1, 1 - 0.5 / (2.5 * len(names) + 0.9)))
    grid.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two problems, few steps, within 30 s")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--out", default="long_time.png", help="the figure")
    arguments = parser.parse_args()
    steps = 5000 if arguments.quick else arguments.steps
    histories, numbers, started = {}, {}, time.perf_counter()
    for name in ("rod", "asymmetric") if arguments.quick else problems():
        for label, program in programs(name, arguments.quick).items():
            raw, seconds = measure(lambda n, p=program: p(jnp.asarray(steps if n is None else n)))
            histories[name, label] = errors_of(name, raw)
            row = figures(*histories[name, label])
            row["us_per_step"] = round(seconds / steps * 1e6, 1)
            numbers.setdefault(name, {})[label] = row
            print(
                f"{name:<11} {label:<16} {row['us_per_step']:7.1f} us/step   energy "
                f"{row['energy_first_tenth']} -> {row['energy_last_tenth']}   "
                f"second {row['second']}",
                flush=True,
            )
    draw(histories, steps, arguments.out)
    result = {
        "benchmark": "long_time",
        "steps": steps,
        "seconds": round(time.perf_counter() - started, 1),
        "figures": numbers,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
