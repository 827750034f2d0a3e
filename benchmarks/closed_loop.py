"""The figure-eight in closed loop: how many of 1,000 robots with wrong parameters stay on the path.

`python benchmarks/closed_loop.py [--robots N] [--seed S]` prints a table for docs/feedback.md. Masses, shell mass, shell
inertia and rail radii are each 2 % off (standard deviation), the start 5 mm and 0.05 rad/s; the controller is sampled at
100 Hz, its command acts one period later.
"""

import argparse
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxhamel
from jaxhamel import MovingParts, control
from jaxhamel.control import Sampled, closed_loop, regulate
from jaxhamel.control._problem._costs import rate, second_rate
from jaxhamel.systems import CircularRails, RollingBall

PERIOD = 0.01
#              orientation, position,    θ,           Ω,           θ̇
WEIGHTS = [0.0] * 3 + [400.0] * 2 + [1.0] * 3 + [1.0] * 3 + [0.1] * 3


class Acceleration(eqx.Module):
    """θ̈ of a curve."""

    curve: control.Spline

    def __call__(self, t, q=None, u=None):
        return second_rate(self.curve, t)


def robots(key, count, ball, start):
    """Balls and initial states around the nominal ones."""
    keys = jax.random.split(key, 6)
    spread = lambda k, x: x * (1.0 + 0.02 * jax.random.normal(k, (count, *jnp.shape(x))))  # noqa: E731
    rails = ball.rails
    radius = spread(keys[0], rails.radius)

    def make(shell, inertia, masses, radius):
        return RollingBall(
            radius=ball.radius, shell_mass=shell, shell_inertia=inertia, shell_com=ball.shell_com, masses=masses,
            rails=CircularRails(radius, rails.normal, rails.zero), gravity=ball.gravity,
        )  # fmt: skip

    balls = jax.vmap(make)(
        spread(keys[1], ball.shell_mass),
        ball.shell_inertia * (1.0 + 0.02 * jax.random.normal(keys[2], (count, 1))),
        spread(keys[3], ball.masses),
        radius,
    )
    (turned, place, theta), u = start
    wide = lambda x: jnp.broadcast_to(x, (count, *x.shape))  # noqa: E731
    place = wide(place) + 0.005 * jax.random.normal(keys[4], (count, 2))
    u = wide(u) + jnp.array([0.05] * 3 + [0.0] * 3) * jax.random.normal(keys[5], (count, 6))
    return balls, (wide(turned), place, wide(theta)), u


def timed(run):
    """The result, and the seconds of a second run."""
    jax.block_until_ready(run())
    begun = time.perf_counter()
    found = jax.block_until_ready(run())
    return found, time.perf_counter() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    problem, curve = control.figure_eight_solution()
    ball, driven = problem.system, MovingParts(problem.system)
    ts = jnp.linspace(0.0, 20.0, 2001)
    start = driven.state(problem.q0, problem.u0, curve(ts[0]), rate(curve, ts[0]))
    plan = jaxhamel.simulate(driven, *start, ts, Acceleration(curve), dt=PERIOD)
    law, seconds = timed(
        lambda: regulate(
            driven, ts, plan.q, plan.u, Acceleration(curve),
            state_cost=jnp.array(WEIGHTS), control_cost=jnp.full(3, 1e-3), final_cost=jnp.array(WEIGHTS),
        )
    )  # fmt: skip
    print(f"regulator of {len(ts)} times: {seconds:.3f} s")
    balls, q0, u0 = robots(jax.random.key(asked.seed), asked.robots, ball, start)
    path = np.asarray(jax.vmap(problem.tracking.path)(ts))
    for name, law_or_plan in (("open loop", Acceleration(curve)), ("regulator", law)):
        sampled = Sampled(law_or_plan, PERIOD, delay=1, start=law.control(ts[0]))
        run = lambda sampled=sampled: closed_loop(  # noqa: E731
            MovingParts(balls), q0, u0, sampled, 2000, steps=1, in_axes=(0, 0, 0, None)
        )
        found, seconds = timed(run)
        error = np.linalg.norm(np.asarray(found.q[1]) - path, axis=2)
        rms = np.where(np.isfinite(error).all(1), np.sqrt(np.mean(error**2, axis=1)), np.inf)
        steps = asked.robots * 2000 / seconds / 1e6
        print(
            f"{name}: RMS {np.median(rms):.4f} m (median), {np.quantile(rms, 0.95):.4f} m (95 %), "
            f"{np.mean(rms < 0.04):.1%} below 4 cm, {np.mean(rms > 0.1):.1%} over 10 cm; "
            f"{seconds:.2f} s, {steps:.2f} million steps/s"
        )


if __name__ == "__main__":
    main()
