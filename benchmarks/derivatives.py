"""Derivatives of everything that moves, in every order of modes, against differences of values.

    python benchmarks/derivatives.py [--quick] [--only NAME ...] [--markdown FILE]

Each row is a scalar function of two numbers, at one or more points that are hard for derivatives. Columns: the gradient in
forward (`f`) and reverse mode (`r`), and the Hessian times a direction in the four orders of two modes: `fr` is forward over
reverse. A figure is the largest error relative to the largest entry of the reference, which is made of values alone, in
double precision: central differences with two Richardson extrapolations. What is refused has the error's first words.
`seconds` are CPU seconds of tracing and compiling all columns, without LLVM's optimisation. The last line is one JSON
object; `worst` is its largest figure in double precision.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# A third of the time to compile, before JAX starts; nothing is timed that runs.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
)

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxhamel
from jaxhamel import ensemble
from jaxhamel.control import Spline
from jaxhamel.systems import CircularRails, FreeRigidBody, RollingBall, StraightRails

jax.config.update("jax_enable_x64", True)
DIRECTION = np.array([0.6, -0.8])
STEP = 0.04  # of the differences, halved twice


class Pendulum(jaxhamel.System):
    """q̈ = −k sin q + control."""

    stiffness: jax.Array
    space = jaxhamel.Euclidean(1)

    def lagrangian(self, t, q, v):
        return 0.5 * v[0] ** 2 + self.stiffness * jnp.cos(q[0])

    def force(self, t, q, v, control):
        return jnp.zeros_like(v) if control is None else control


class Row(NamedTuple):
    """f(x, point) at x + 0 and several points, whose names are shown."""

    function: Callable
    x: list[float]
    points: dict[str, list[float]]


START = {"t₀ = 0": [0.0], "t₀ = −2": [-2.0]}


def pendulum(x, p, *, times=(0.0, 0.4, 0.9), control=None, **options):
    ts = jnp.stack([p[0] + t for t in times])
    u0 = jnp.stack([x[1]])
    options = {"dt": 0.16, "max_steps": 16} | options
    q0 = jnp.array([0.5], x.dtype)
    return jaxhamel.simulate(Pendulum(x[0]), q0, u0, ts, control, **options)


def end(path):
    return path.q[-1, 0] + path.u[-1, 0] ** 2


def by_times(x, p):
    ts = jnp.stack([p[0], p[0] + x[0], p[0] + x[0] + x[1]])
    system, q0, u0 = Pendulum(jnp.asarray(2.0, x.dtype)), [0.5], [0.1]
    q0, u0 = jnp.array(q0, x.dtype), jnp.array(u0, x.dtype)
    return end(jaxhamel.simulate(system, q0, u0, ts, dt=0.16, max_steps=16))


def event(x, p):
    path = pendulum(x, p, times=(0.0, 2.0), event=lambda t, q, u: q[0] - 0.2)
    return path.t_end - p[0] + path.u_end[0]


def dense(x, p):
    return pendulum(x, p, dense=True).evaluate(p[0] + 0.3)[0][0]


def spline(x, p):
    curve = Spline(
        jnp.outer(jnp.array([0.1, 1.0, -0.5, 0.3, 0.2, 0.1], x.dtype), x[1:]),
        p[0],
        p[0] + 0.9,
        degree=3,
    )
    return end(pendulum(x, p, control=curve))


def of_ensemble(run, **options):
    """Two trajectories, one with the number x₁ as velocity, the other with its half."""

    def function(x, p):
        u0 = jnp.stack([x[1:], 0.5 * x[1:]])
        q0 = jnp.array([0.5], x.dtype)
        q, u = run(
            Pendulum(x[0]),
            q0,
            u0,
            np.array([0.0, 0.4, 0.9]),
            in_axes=(None, None, 0, None),
            **options,
        )
        return jnp.sum(q[:, -1]) * p[0] + jnp.sum(u[:, -1] ** 2)

    return function


def simulated(*args, **options):
    path = ensemble.simulate(*args, **options)
    return path.q, path.u


def integrated(x, p):
    u0 = jnp.stack([x[1], 0.5 * x[1]])
    f = lambda t, y, k: jnp.stack([y[1], -k * jnp.sin(y[0])])  # noqa: E731
    y0 = jnp.stack([jnp.full(2, 0.5, x.dtype), u0], axis=1)
    y = ensemble.integrate(f, y0, np.array([0.0, 0.9]), x[0], dt=0.16, in_axes=(0, None))
    return jnp.sum(y[:, -1, 0]) * p[0] + jnp.sum(y[:, -1, 1] ** 2)


def body(x, p):
    """A rigid body by a moment of inertia and a velocity; the point: quaternion, ratio of velocities, their scale."""
    inertia = jnp.stack([x[0], jnp.asarray(1.5, x.dtype), jnp.asarray(1.8, x.dtype)])
    u0 = jnp.stack([p[4] * x[1], x[1], 0 * x[1]]) * p[5]
    path = jaxhamel.simulate(FreeRigidBody(inertia), p[:4], u0, [0.0, 0.3], dt=0.1, max_steps=4)
    q = path.q[-1]
    return q[1] + q[0] * q[2] + jnp.sum(path.u[-1] ** 3)


ATTITUDES = {
    "identity": [1.0, 0, 0, 0, 0.7, 1.0],
    "half a turn": [0.0, 0, 1, 0, 0.7, 1.0],
    "half a turn, −q": [0.0, -1, 0, 0, 0.7, 1.0],
    "at rest": [1.0, 0, 0, 0, 0.7, 0.0],
}


class Swing(eqx.Module):
    amplitude: jax.Array

    def __call__(self, t):
        return self.amplitude * jnp.sin(1.0 + t)


def ball(rails_of):
    """|Ω̇|² by the amplitude of the masses and a velocity; point: quaternion, scale of Ω, two masses, place, g, t."""

    def function(x, p):
        rails, count = rails_of(x.dtype, p)
        shell = {
            "radius": 1.0,
            "shell_mass": 4.0,
            "shell_inertia": [1.0, 1.1, 1.2],
            "shell_com": [0, 0, -0.05],
        }
        shell = {name: jnp.asarray(value, x.dtype) for name, value in shell.items()}
        system = RollingBall(**shell, masses=p[5 : 5 + count], rails=rails, gravity=p[8])
        q = (p[:4], jnp.zeros(2, x.dtype))
        u = jnp.stack([x[1], 0.3 * x[1], -x[1]]) * p[4]
        control = Swing(jnp.stack([x[0], x[0]])[:count])
        rate = jaxhamel.acceleration(system, p[9], q, u, control)
        return jnp.sum(rate**2)

    return function


def circular(dtype, p):
    """Two rails about one axis: with the second place 0 the masses are always in one point."""
    normal = jnp.array([[0.0, -1.0, 0.0]] * 2, dtype)
    zero = jnp.stack(
        [jnp.array([1.0, 0, 0], dtype), jnp.stack([jnp.cos(p[7]), 0 * p[7], jnp.sin(p[7])])]
    )
    return CircularRails(radius=jnp.full(2, 0.8, dtype), normal=normal, zero=zero), 2


def straight(dtype, p):
    del p
    direction = jnp.array([[1.0, 0, 0], [0, 1.0, 0]], dtype)
    return StraightRails(jnp.zeros((2, 3), dtype), direction), 2


def none(dtype, p):
    del p
    nothing = jnp.zeros((0, 3), dtype)
    return CircularRails(radius=jnp.zeros(0, dtype), normal=nothing, zero=nothing), 0


#                  quaternion, speed, masses, place, gravity, t
BALLS = {
    "identity": [1.0, 0, 0, 0, 1, 1, 0.7, 0.9, 9.81, 0],
    "half a turn": [0.0, 1, 0, 0, 1, 1, 0.7, 0.9, 9.81, 0],
    "at rest": [1.0, 0, 0, 0, 0, 1, 0.7, 0.9, 9.81, 0],
    "a mass of zero": [1.0, 0, 0, 0, 1, 0, 0.7, 0.9, 9.81, 0],
    "coincident masses": [1.0, 0, 0, 0, 1, 1, 0.7, 0, 9.81, 0],
    "no gravity": [1.0, 0, 0, 0, 1, 1, 0.7, 0.9, 0, 0],
    "t₀ = 5": [1.0, 0, 0, 0, 1, 1, 0.7, 0.9, 9.81, 5],
}
X = [2.0, 0.7]
ONE = {"": [1.0]}
ROWS = {
    "simulate, `dt`": Row(lambda x, p: end(pendulum(x, p)), X, START),
    "simulate, tolerance": Row(
        lambda x, p: end(pendulum(x, p, dt=None, rtol=1e-11, atol=1e-13, max_steps=128)), X, START
    ),
    "simulate, by `ts`": Row(by_times, [0.4, 0.5], START),
    "simulate, real event": Row(event, X, START),
    "simulate, dense": Row(dense, X, START),
    "simulate, spline as control": Row(spline, X, START),
    "simulate, rigid body": Row(body, [1.2, 0.7], ATTITUDES),
    "ensemble.simulate, `dt`": Row(of_ensemble(simulated, dt=0.16), X, ONE),
    "ensemble.rollout, `dt`": Row(of_ensemble(ensemble.rollout, dt=0.16), X, ONE),
    "ensemble.rollout, tolerance": Row(
        of_ensemble(ensemble.rollout, rtol=1e-11, atol=1e-13), X, ONE
    ),
    "ensemble.integrate, `dt`": Row(integrated, X, ONE),
    "ball, circular rails": Row(ball(circular), [0.3, 0.7], BALLS),
    "ball, straight rails": Row(
        ball(straight), [0.3, 0.7], {k: v for k, v in BALLS.items() if k == "identity"}
    ),
    "ball without masses": Row(
        ball(none), [0.3, 0.7], {k: v for k, v in BALLS.items() if k == "identity"}
    ),
}
QUICK = ("ensemble.integrate, `dt`",)


def derivatives(f: Callable) -> dict[str, Callable]:
    """Gradients, and the Hessian times a direction, as functions of (x, v)."""
    along = lambda g: lambda x, v: jax.jvp(g, (x,), (v,))[1]  # noqa: E731
    forward, reverse = jax.jacfwd(f), jax.grad(f)
    return {
        "f": lambda x, v: forward(x),
        "r": lambda x, v: reverse(x),
        "ff": lambda x, v: jax.jacfwd(lambda x: along(f)(x, v))(x),
        "fr": along(reverse),
        "rf": lambda x, v: jax.grad(lambda x: along(f)(x, v))(x),
        "rr": lambda x, v: jax.grad(lambda x: reverse(x) @ v)(x),
    }


def extrapolated(by_step: list[np.ndarray]) -> np.ndarray:
    """Two Richardson extrapolations of differences with an error in h² and h⁴, at h, h/2, h/4."""
    a, b, c = by_step
    ab, bc = (4 * b - a) / 3, (4 * c - b) / 3
    return (16 * bc - ab) / 15


def reference(f: Callable, x: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradients and Hessians times the direction at all points, `(P, 2)` each, from values."""
    values = jax.jit(jax.vmap(jax.vmap(f, in_axes=(0, None)), in_axes=(None, 0)))
    gradients, second = [], []
    for h in (STEP, STEP / 2, STEP / 4):
        e, v = h * np.eye(2), h * DIRECTION
        offsets = [*e, *-e, *(v + e), *(v - e), *(e - v), *(-e - v)]
        y = np.asarray(values(jnp.asarray(x + np.array(offsets)), points)).reshape(
            len(points), 6, 2
        )
        gradients.append((y[:, 0] - y[:, 1]) / (2 * h))
        second.append((y[:, 2] - y[:, 3] - y[:, 4] + y[:, 5]) / (4 * h * h))
    return extrapolated(gradients), extrapolated(second)


def errors(row: Row, precisions: list[str]) -> tuple[dict, float]:
    """The largest error of each column in each precision, and the CPU seconds of compiling."""
    points = np.array(list(row.points.values()))
    gradient, second = reference(row.function, np.array(row.x), jnp.asarray(points))
    found, seconds = {}, 0.0
    for precision in precisions:
        dtype, found[precision] = np.dtype(precision), {}
        for name in ("f", "r", "ff", "fr", "rf", "rr"):
            wanted = gradient if len(name) == 1 else second
            error, took = error_of(row.function, name, row.x, points, dtype, wanted)
            found[precision][name] = error
            seconds += took
    return found, seconds


def error_of(f, name, x, points, dtype, wanted):
    def one(x, p, v):
        return derivatives(lambda x: f(x, p))[name](x, v)

    at = [jnp.asarray(a, dtype) for a in (x, points, DIRECTION)]
    started = time.process_time()
    try:
        program = jax.jit(jax.vmap(one, in_axes=(None, 0, None))).lower(*at).compile()
    except Exception as error:  # a column that is refused is a result
        return f"refused: {str(error).splitlines()[0][:60]}", 0.0
    took = time.process_time() - started
    got = np.asarray(program(*at), dtype=float)
    return float(np.max(np.abs(got - wanted)) / np.max(np.abs(wanted))), took


def table(results: dict) -> str:
    """The results in Markdown: a row for each precision."""
    head = "| motion, points | precision | f | r | ff | fr | rf | rr |"
    lines = [head, "|" + "---|" * 8]
    for name, found in results.items():
        points = ", ".join(p for p in ROWS[name].points if p)
        title = f"{name}: {points}" if points else name
        for precision, columns in found.items():
            cells = [f"{c:.0e}" if isinstance(c, float) else c for c in columns.values()]
            lines.append(f"| {title} | {precision} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one row, within 30 s")
    parser.add_argument(
        "--only", nargs="*", default=None, help="rows whose names begin with one of these"
    )
    parser.add_argument("--precision", nargs="*", default=["float64", "float32"])
    parser.add_argument("--markdown", type=Path, help="where the table is written")
    options = parser.parse_args()
    begin = tuple(options.only or (QUICK if options.quick else ("",)))
    results, seconds = {}, {}
    for name in [name for name in ROWS if name.startswith(begin)]:
        results[name], seconds[name] = errors(ROWS[name], options.precision)
        print(f"{name} ({seconds[name]:.0f} s): {results[name]}", flush=True)
    if options.markdown:
        options.markdown.write_text(table(results) + "\n")
    worst = [
        c
        for found in results.values()
        for c in found.get("float64", {}).values()
        if isinstance(c, float)
    ]
    refused = sum(
        isinstance(c, str)
        for found in results.values()
        for each in found.values()
        for c in each.values()
    )
    report = {"benchmark": "derivatives", "worst": max(worst, default=None), "refused": refused}
    print(json.dumps(report | {"results": results, "seconds": seconds}))


if __name__ == "__main__":
    main()
