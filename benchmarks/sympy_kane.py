"""The rolling ball by SymPy's Kane equations, lambdified to JAX, and here.

    pip install sympy
    python benchmarks/sympy_kane.py [--quick]

Theirs: `KanesMethod` with body-fixed 1-2-3 angles and two nonholonomic constraints, rails as functions of time,
`lambdify(..., "jax", cse=True)`, `jnp.linalg.solve` of the 5 x 5 equations, integrated by diffrax. Ours: the same ball by
`jaxhamel.simulate` and `jaxhamel.ensemble.rollout`. Both by Dopri8 with tolerances of 1e-9 and 1e-11 for 5 s, gradients of
the end by all parameters in the cheapest way each has (reverse mode with checkpoints, or forward columns), ensembles by
1,024 trajectories of Runge-Kutta steps of 0.01 s.

Figures, each theirs over ours, larger is better for us: `first` (seconds until the first trajectory: derive, lambdify,
compile, run), `run`, `gradient_compile`, `gradient_run`, `ensemble`; `ratio` is the smallest of them. `growth`: seconds
until the first trajectory and milliseconds of a run for 1 to 20 masses. Medians of runs that alternate.
"""

import argparse
import json
import sys
import time
from functools import partial

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from reference_ball import (
    AMPLITUDE,
    END,
    NORMAL,
    SECONDS,
    SHELL_COM,
    SHELL_INERTIA,
    SHELL_MASS,
    ZERO,
    Swing,
    first_call,
    make_ball,
    median_seconds,
    phases,
    radii,
    start,
    swing,
)

import jaxhamel
from jaxhamel import ensemble

try:
    import sympy as sm
    from sympy.physics import mechanics as me
except ImportError:
    sys.exit("sympy is not installed: pip install sympy")

jax.config.update("jax_enable_x64", True)
RTOL, ATOL, STEP = 1e-9, 1e-11, 1e-2


def kane(masses: int):
    """The right-hand side (t, y, parameters) -> dy/dt and the values of the parameters; y = angles, x, y, body rates,
    velocities."""
    t = me.dynamicsymbols._t
    angles, rates = me.dynamicsymbols("a b c"), me.dynamicsymbols("w1:4")
    (x, y), (vx, vy) = me.dynamicsymbols("x y"), me.dynamicsymbols("v1:3")
    r, m0, i1, i2, i3, depth, g = sm.symbols("r m0 i1 i2 i3 depth g")
    weights, swings = sm.symbols(f"m1:{masses + 1}"), sm.symbols(f"s1:{masses + 1}")
    space, body = me.ReferenceFrame("N"), me.ReferenceFrame("B")
    body.orient_body_fixed(space, angles, "123")
    turning = body.ang_vel_in(space)
    omega = sum((w * e for w, e in zip(rates, body, strict=True)), me.Vector(0))
    body.set_ang_vel(space, omega)
    centre = me.Point("C")
    centre.set_vel(space, vx * space.x + vy * space.y)
    slip = centre.vel(space) + omega.cross(-r * space.z)
    kinematic = [(turning - omega).dot(e) for e in body] + [x.diff(t) - vx, y.diff(t) - vy]
    shell = centre.locatenew("S", depth * body.z)
    shell.v2pt_theory(centre, space, body)
    inertia = (me.inertia(body, i1, i2, i3), shell)
    bodies = [me.RigidBody("shell", shell, body, m0, inertia)]
    loads = [(shell, -m0 * g * space.z)]
    planes = np.arange(masses) % 3
    for i, (mass, size) in enumerate(zip(weights, swings, strict=True)):
        theta = size * sm.sin(2 * t + sm.Float(phases(masses)[i])) - sm.pi / 2
        zero = np.array(ZERO[planes[i]]).astype(int)
        side = np.cross(NORMAL[planes[i]], ZERO[planes[i]]).astype(int)
        entries = [
            sm.Float(radii(masses)[i]) * (int(c) * sm.cos(theta) + int(s) * sm.sin(theta))
            for c, s in zip(zero, side, strict=True)
        ]
        place = sum((value * e for value, e in zip(entries, body, strict=True)), me.Vector(0))
        point = centre.locatenew(f"P{i}", place)
        point.set_vel(body, place.dt(body))
        point.v1pt_theory(centre, space, body)
        bodies.append(me.Particle(f"mass{i}", point, mass))
        loads.append((point, -mass * g * space.z))
    method = me.KanesMethod(
        space,
        [*angles, x, y],
        rates,
        kd_eqs=kinematic,
        u_dependent=[vx, vy],
        velocity_constraints=[slip.dot(space.x), slip.dot(space.y)],
    )
    method.kanes_equations(bodies, loads)
    state, parameters = [*angles, x, y, *rates, vx, vy], [r, m0, i1, i2, i3, depth, g]
    parameters += [*weights, *swings]
    qdots = [method.kindiffdict()[q.diff(t)] for q in (*angles, x, y)]
    expressions = (method.mass_matrix, method.forcing, sm.Matrix(qdots))
    function = sm.lambdify([t, state, parameters], expressions, "jax", cse=True)
    values = [1.0, SHELL_MASS, *SHELL_INERTIA, SHELL_COM[2], 9.81, *[1.0] * masses]

    def rate(t, y, parameters):
        matrix, force, slope = function(t, y, parameters)
        return jnp.concatenate([slope[:, 0], jnp.linalg.solve(matrix, force[:, 0])])

    return rate, jnp.array([*values, *[AMPLITUDE] * masses])


def theirs_until_end(rate, adjoint):
    """A function from the parameters to the final (x, y), by diffrax."""
    ts = jnp.array([0.0, SECONDS])

    def end(parameters):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(rate),
            diffrax.Dopri8(),
            ts[0],
            ts[-1],
            None,
            jnp.zeros(10),
            parameters,
            stepsize_controller=diffrax.PIDController(rtol=RTOL, atol=ATOL),
            adjoint=adjoint,
            max_steps=256,
        )
        return solution.ys[-1][3:5]  # pyright: ignore

    return end


def ball_and_swing(parameters, masses: int):
    """The ball and its control with the values of SymPy's parameters, in their order."""
    r, m0, *inertia, depth, g = parameters[:7]
    weights, amplitude = parameters[7 : 7 + masses], parameters[7 + masses :]
    com = jnp.stack([jnp.zeros_like(depth), jnp.zeros_like(depth), depth])
    ball = make_ball(masses)
    values = (r, m0, jnp.stack(inertia), com, weights, g)
    where = lambda b: (
        b.radius,
        b.shell_mass,
        b.shell_inertia,
        b.shell_com,
        b.masses,
        b.gravity,
    )
    return eqx.tree_at(where, ball, values), Swing(amplitude)


def ours_until_end(masses: int, adjoint=None):
    (q0, u0), ts = start(), jnp.array([0.0, SECONDS])
    options = {"rtol": RTOL, "atol": ATOL, "solver": diffrax.Dopri8(), "max_steps": 256}

    def end(parameters):
        ball, control = ball_and_swing(parameters, masses)
        given = options | ({} if adjoint is None else {"adjoint": adjoint})
        return jaxhamel.simulate(ball, q0, u0, ts, control, **given).q[1][-1]

    return end


def gradients(end, end_forward) -> dict:
    """Gradients of the final x by all parameters: reverse mode and forward columns."""
    return {
        "reverse": jax.jit(jax.grad(lambda p: end(p)[0])),
        "columns": jax.jit(jax.jacfwd(lambda p: end_forward(p)[0])),
    }


def first_trajectories(masses: int) -> dict:
    """Seconds until each program's first trajectory, and the programs."""
    started = time.perf_counter()
    rate, parameters = kane(masses)
    derived = time.perf_counter() - started
    theirs = jax.jit(theirs_until_end(rate, diffrax.ForwardMode()))
    compiled = first_call(theirs, parameters)
    ours = jax.jit(ours_until_end(masses, diffrax.ForwardMode()))
    mine = first_call(ours, parameters)
    difference = float(jnp.max(jnp.abs(theirs(parameters) - ours(parameters))))
    return {
        "rate": rate,
        "parameters": parameters,
        "derived": derived,
        "theirs": derived + compiled,
        "ours": mine,
        "programs": {"theirs": partial(theirs, parameters), "ours": partial(ours, parameters)},
        "difference": difference,
    }


def gradient_figures(rate, parameters, masses: int, repeats: int) -> dict:
    checkpoints = diffrax.RecursiveCheckpointAdjoint()
    sides = {
        "theirs": [theirs_until_end(rate, a) for a in (checkpoints, diffrax.ForwardMode())],
        "ours": [ours_until_end(masses, a) for a in (None, diffrax.ForwardMode())],
    }
    programs, compiled = {}, {}
    for side, ends in sides.items():
        for way, program in gradients(*ends).items():
            name = f"{side}, {way}"
            compiled[name] = first_call(program, parameters)
            programs[name] = partial(program, parameters)
    values = [program() for program in programs.values()]
    seconds = median_seconds(programs, repeats)
    for name, each in seconds.items():
        print(f"gradient, {name:<16} compile {compiled[name]:6.2f} s   run {1e3 * each:8.2f} ms")
    largest = max(float(jnp.max(jnp.abs(v - values[0]))) for v in values)
    best = lambda table, side: min(v for k, v in table.items() if k.startswith(side))
    return {
        "gradient_compile": best(compiled, "theirs") / best(compiled, "ours"),
        "gradient_run": best(seconds, "theirs") / best(seconds, "ours"),
        "gradient_difference": largest,
    }


def ensemble_ratio(rate, parameters, repeats: int, size: int = 1024) -> float:
    """Trajectory-steps per second of Runge–Kutta steps, for trajectories with random starts."""
    steps = 100
    spread = 1e-2 * np.random.default_rng(0).normal(size=(size, 3))

    @jax.jit
    def theirs(rates):
        def step(y, t):
            k1 = rate(t, y, parameters)
            k2 = rate(t + STEP / 2, y + STEP / 2 * k1, parameters)
            k3 = rate(t + STEP / 2, y + STEP / 2 * k2, parameters)
            k4 = rate(t + STEP, y + STEP * k3, parameters)
            return y + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        def end(rates):  # rolling velocities v = omega x r e3 at zero angles
            y = jnp.zeros(10).at[5:8].set(rates).at[8].set(rates[1]).at[9].set(-rates[0])
            return jax.lax.scan(step, y, jnp.arange(steps) * STEP)[0][3:5]

        return jax.vmap(end)(rates)

    ball, (q0, _), ts = make_ball(), start(), np.array([0.0, steps * STEP])
    together = {"dt": STEP, "in_axes": (None, None, 0, None)}
    run = partial(ensemble.rollout, ball, q0, ts=ts, control=swing(), **together)
    ours = jax.jit(lambda rates: run(u0=rates)[0][1][:, -1])
    rates = jnp.asarray(spread)
    compiled = first_call(theirs, rates), first_call(ours, rates)
    difference = float(jnp.max(jnp.abs(theirs(rates) - ours(rates))))
    seconds = median_seconds({"t": partial(theirs, rates), "o": partial(ours, rates)}, repeats)
    rate_of = {name: size * steps / each for name, each in seconds.items()}
    print(
        f"ensemble: theirs {rate_of['t']:.3g}, ours {rate_of['o']:.3g} trajectory-steps/s; compile "
        f"{compiled[0]:.1f}, {compiled[1]:.1f} s; largest difference {difference:.1e} m"
    )
    return seconds["t"] / seconds["o"]


def growth(counts, repeats: int) -> list[dict]:
    rows = []
    for masses in counts:
        found = first_trajectories(masses)
        seconds = median_seconds(found["programs"], repeats)
        row = {"masses": masses, "derive_s": found["derived"]}
        row |= {"theirs_first_s": found["theirs"], "ours_first_s": found["ours"]}
        row |= {f"{side}_run_ms": 1e3 * each for side, each in seconds.items()}
        row["difference"] = found["difference"]
        rows.append({key: float(f"{value:.3g}") for key, value in row.items()})
        print("  ".join(f"{key} {value:g}" for key, value in rows[-1].items()))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="no growth, fewer runs, within 30 s")
    arguments = parser.parse_args()
    repeats = 5 if arguments.quick else 15
    jax.block_until_ready(jnp.zeros(3) + 1.0)
    found = first_trajectories(2)
    error = float(np.linalg.norm(np.asarray(found["programs"]["theirs"]()) - END))
    print(
        f"derive {found['derived']:.2f} s; until the first trajectory: theirs {found['theirs']:.2f} s, ours "
        f"{found['ours']:.2f} s; apart by {found['difference']:.1e} m, theirs {error:.1e} m from the exact end"
    )
    seconds = median_seconds(found["programs"], repeats)
    ratios = {"first": found["theirs"] / found["ours"], "run": seconds["theirs"] / seconds["ours"]}
    print(f"run: theirs {1e3 * seconds['theirs']:.2f} ms, ours {1e3 * seconds['ours']:.2f} ms")
    ratios |= gradient_figures(found["rate"], found["parameters"], 2, repeats)
    apart = ratios.pop("gradient_difference")
    ratios["ensemble"] = ensemble_ratio(found["rate"], found["parameters"], repeats)
    result = {"ratio": min(ratios.values()), **ratios}
    result = {key: round(value, 3) for key, value in result.items()}
    result |= {"differences": [found["difference"], apart]}
    if not arguments.quick:
        result["growth"] = growth((1, 2, 5, 10, 20), repeats)
    print(json.dumps({"benchmark": "sympy_kane", "target": 1.0, **result}))


if __name__ == "__main__":
    main()
