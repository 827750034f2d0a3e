"""Systems of any size and spelling against diffrax with the equations derived by hand: one trajectory by `simulate`.

    python benchmarks/any_system.py [--quick] [--only N ...]

Planar chains of n links of unit length and mass, whose Lagrangian is written with `jnp.cumsum`, with a matrix product and
with Python sums, and three named systems. Tsit5, double precision, 2 s of motion from rest (named systems: from a turn) at a
tolerance of 1e-9. diffrax integrates the mass matrix and the forces derived by hand, solved by `jnp.linalg.solve`, or the
equations of the book. The runs alternate; times are medians in processor seconds, which other work on the machine changes
less than the clock; `spread` is (largest - smallest) / median. Both ends of the motion are compared.

The last line is one JSON object: `ratio` is diffrax over `simulate` for the slowest case, `ratio_to_12` that of up to twelve
degrees of freedom, `spelling` the slowest spelling over the fastest of the same chain, `first` the most seconds until the
first value. `--quick` takes chains of 4 and 12 links in two spellings and one named system.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

import jaxhamel
from jaxhamel.systems import ChaplyginSleigh, FreeRigidBody, HeavyTop

jax.config.update("jax_enable_x64", True)
TOLERANCE, SECONDS, GRAVITY = 1e-9, 2.0, 9.81
SPELLINGS: dict[str, Callable] = {
    "cumsum": jnp.cumsum,
    "matrix product": lambda x: jnp.tril(jnp.ones((x.size, x.size))) @ x,
    "Python sums": lambda x: jnp.stack([*accumulate(x)]),
}


class Chain(jaxhamel.System):
    """Links of unit length and mass; `sums` are partial sums along the chain, `links` their number."""

    sums: Callable
    links: int

    @property
    def space(self):
        return jaxhamel.Euclidean(self.links)

    def lagrangian(self, t, q, v):
        x, y, height = (self.sums(each) for each in (jnp.cos(q) * v, jnp.sin(q) * v, -jnp.cos(q)))
        return 0.5 * jnp.sum(x * x + y * y) - GRAVITY * jnp.sum(height)


def chain_by_hand(t, y, n):
    """Σ_j w_ij cos(q_i − q_j) q̈_j = −Σ_j w_ij sin(q_i − q_j) q̇_j² − w_ii g sin q_i, w_ij = n − max(i, j)."""
    q, v = jnp.split(y, 2)
    weight = n - np.maximum.outer(np.arange(n), np.arange(n)).astype(float)
    turn = q[:, None] - q[None, :]
    force = -(weight * jnp.sin(turn)) @ (v * v) - GRAVITY * np.diag(weight) * jnp.sin(q)
    return jnp.concatenate([v, jnp.linalg.solve(weight * jnp.cos(turn), force)])


def top_by_hand(t, y, top):
    """I Ω̇ = (I Ω) × Ω + m g Γ × χ, with the quaternion's rate ½ p (0, Ω); a free body without gravity."""
    (w, x, y_, z), omega = y[:4], y[4:]
    up = jnp.stack([2 * (x * z - w * y_), 2 * (y_ * z + w * x), w * w - x * x - y_ * y_ + z * z])
    inertia, com, weight = top
    torque = jnp.cross(inertia * omega, omega) + weight * jnp.cross(up, com)
    vector = jnp.stack([x, y_, z])
    rate = 0.5 * (w * omega + jnp.cross(vector, omega))
    return jnp.concatenate([-0.5 * jnp.dot(vector, omega)[None], rate, torque / inertia])


def sleigh_by_hand(t, y, sleigh):
    """v̇ = a ω², (I + m a²) ω̇ = −m a v ω."""
    (angle, _, _, v, omega), (mass, inertia, offset) = y, sleigh
    turning = -mass * offset * v * omega / (inertia + mass * offset**2)
    along = v * jnp.cos(angle), v * jnp.sin(angle)
    return jnp.stack([omega, *along, offset * omega**2, turning])


class Case(NamedTuple):
    """A system, its start, and the same equations by hand, as a function of (t, (q, u), constants)."""

    name: str
    size: int
    system: jaxhamel.System
    q: np.ndarray
    u: np.ndarray
    by_hand: Callable
    constants: object = None


def chains(n: int, spellings) -> list[Case]:
    q, by_hand = np.linspace(0.3, 1.0, n), partial(chain_by_hand)
    return [
        Case(f"{n} links, {name}", n, Chain(SPELLINGS[name], n), q, np.zeros(n), by_hand, n)
        for name in spellings
    ]


def named() -> list[Case]:
    upright, turn = np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.3, 1.0, 5.0])
    moments, com = np.array([0.3, 0.4, 0.5]), np.array([0.0, 0.1, 0.5])
    inertia, one, gravity = jnp.asarray(moments), jnp.array(1.0), jnp.array(GRAVITY)
    body, top = FreeRigidBody(inertia), HeavyTop(one, inertia, jnp.asarray(com), gravity)
    numbers = one, jnp.array(0.1), jnp.array(0.2)
    sleigh = ChaplyginSleigh(*numbers)
    return [
        Case("heavy top", 3, top, upright, turn, top_by_hand, (moments, com, GRAVITY)),
        Case("free rigid body", 3, body, upright, turn, top_by_hand, (moments, com, 0.0)),
        Case("Chaplygin sleigh", 3, sleigh, np.zeros(3), np.ones(2), sleigh_by_hand, numbers),
    ]


def ours(case: Case) -> Callable:
    ts = jnp.array([0.0, SECONDS])

    def end(q, u):
        run = jaxhamel.simulate(case.system, q, u, ts, rtol=TOLERANCE, atol=TOLERANCE)
        return jnp.concatenate([jnp.ravel(run.q_end), run.u_end])

    return partial(jax.jit(end), jnp.asarray(case.q), jnp.asarray(case.u))


def theirs(case: Case) -> Callable:
    static = isinstance(case.constants, int)
    field = (lambda t, y, _: case.by_hand(t, y, case.constants)) if static else case.by_hand
    steps = diffrax.PIDController(TOLERANCE, TOLERANCE)

    def end(y, constants):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Tsit5(),
            0.0,
            SECONDS,
            None,
            y,
            constants,
            stepsize_controller=steps,
            max_steps=100_000,
        )
        return solution.ys[-1]  # pyright: ignore[reportOptionalSubscript]

    y = jnp.concatenate([jnp.asarray(case.q), jnp.asarray(case.u)])
    return partial(jax.jit(end), y, None if static else case.constants)


def processor_seconds(program: Callable) -> float:
    started = time.process_time()
    jax.block_until_ready(program())
    return time.process_time() - started


def measured(cases: list[Case], repeats: int) -> list[dict]:
    """One row for each case; the programs of all cases in turns. Cases of the same size share the one by hand."""
    programs = {case.name: ours(case) for case in cases}
    of_case = {c.name: f"{c.size} links" if isinstance(c.system, Chain) else c.name for c in cases}
    programs |= {f"by hand: {of_case[case.name]}": theirs(case) for case in cases}
    first = {name: processor_seconds(program) for name, program in programs.items()}
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(repeats):
        for name, program in programs.items():
            times[name].append(processor_seconds(program))
    median = {name: statistics.median(each) for name, each in times.items()}
    rows = []
    for case in cases:
        hand = f"by hand: {of_case[case.name]}"
        apart = float(np.abs(np.asarray(programs[case.name]()) - programs[hand]()).max())
        each = times[case.name]
        spread = (max(each) - min(each)) / median[case.name]
        found = {"seconds": median[case.name], "by_hand": median[hand], "first": first[case.name]}
        found |= {"ratio": median[hand] / median[case.name], "spread": spread, "apart": apart}
        rows.append({"name": case.name, "size": case.size} | found)
    return rows


def spelling(rows: list[dict]) -> float:
    """The slowest spelling over the fastest, the largest of all sizes."""
    sizes: dict[int, list[float]] = {}
    for row in rows:
        if "links" in row["name"]:
            sizes.setdefault(row["size"], []).append(row["seconds"])
    return max(max(each) / min(each) for each in sizes.values())


def main() -> None:
    parser = argparse.ArgumentParser(description="Any system against diffrax by hand.")
    parser.add_argument("--quick", action="store_true", help="few cases, within 30 s")
    parser.add_argument("--only", type=int, nargs="*", help="chains of these numbers of links")
    given = parser.parse_args()
    sizes = given.only or ((4, 12) if given.quick else (2, 4, 6, 8, 12, 16, 20))
    spellings = list(SPELLINGS)[:2] if given.quick else list(SPELLINGS)
    cases = [case for n in sizes for case in chains(n, spellings)]
    cases += [] if given.only else named()[: 1 if given.quick else None]
    rows = measured(cases, 5 if given.quick else 15)
    print(f"{'':28}{'ms':>8}{'by hand':>9}{'ratio':>7}{'spread':>8}{'first s':>9}{'apart':>9}")
    for r in rows:
        times = f"{1e3 * r['seconds']:8.2f}{1e3 * r['by_hand']:9.2f}{r['ratio']:7.1f}"
        print(f"{r['name']:28}{times}{r['spread']:8.2f}{r['first']:9.1f}{r['apart']:9.0e}")
    small = [row["ratio"] for row in rows if row["size"] <= 12]
    result = {"benchmark": "any_system", "ratio": min(row["ratio"] for row in rows)}
    result |= {"ratio_to_12": min(small, default=None), "spelling": spelling(rows)}
    print(json.dumps(result | {"first": max(row["first"] for row in rows), "rows": rows}))


if __name__ == "__main__":
    main()
