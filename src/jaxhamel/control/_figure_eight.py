"""The built-in control problem: a ball of radius 0.1 m with three masses rolls along a figure-eight of 2 m × 1 m."""

import json
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxhamel._compiled import compiled
from jaxhamel.control._methods._multiple_shooting import MultipleShooting
from jaxhamel.control._problem._costs import ControlAt, rate
from jaxhamel.control._problem._curves import Spline
from jaxhamel.control._problem._paths import FigureEight
from jaxhamel.control._problem._problem import ControlProblem, TrackingProblem
from jaxhamel.geometry import SO3, quaternion_matrix
from jaxhamel.systems import CircularRails, RollingBall

# Angles with the masses at +x, −z, −x: their centre of mass is below the ball's centre.
_REST = (0.0, -np.pi / 2, -np.pi / 2)


def figure_eight_ball() -> RollingBall:
    """A ball of radius 0.1 m and 1 kg with three masses of 0.5 kg on circles of 0.07 m in the planes xy, yz, zx (24.5 N)."""
    radius, shell, gravity = (jnp.asarray(x, dtype=float) for x in (0.1, 1.0, 9.81))
    thin_shell = 2 / 3 * shell * radius**2
    return RollingBall(
        radius=radius,
        shell_mass=shell,
        shell_inertia=jnp.full(3, thin_shell),
        shell_com=jnp.zeros(3),
        masses=jnp.full(3, 0.5),
        rails=CircularRails(
            radius=jnp.full(3, 0.07),
            normal=jnp.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
            zero=jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        ),
        gravity=gravity,
    )


def figure_eight(
    *,
    width: float = 2.0,
    height: float = 1.0,
    period: float = 20.0,
    ramp: float = 3.0,
    duration: float | None = None,
    n_coefficients: int = 60,
    system: RollingBall | None = None,
    rest: ArrayLike | Sequence[float] = _REST,
    tracking_weight: float = 5e4,
    acceleration_weight: float = 1e-6,
) -> ControlProblem:
    """The `ControlProblem` of rolling once along a figure-eight in the time `period`, from rest at the origin.

    **Arguments:**

    - `width`, `height` [m], `period`, `ramp` [s]: see `FigureEight`; `duration`: the last time of the problem [s], by
      default `period`.
    - `n_coefficients`: number of spline coefficients of each mass for a whole period; a shorter problem has fewer.
    - `system`: another rolling ball; `rest`: the angles of its masses in equilibrium, at which they start [rad].
    - `tracking_weight` [1/(m² s)], `acceleration_weight` [s³]: weights of the two costs.

    **Returns:** a `ControlProblem`, for `figure_eight_method()`. **Raises:** `ValueError` for invalid numbers.
    """
    system = figure_eight_ball() if system is None else system
    rest = jnp.asarray(rest, dtype=system.radius.dtype)
    path = FigureEight(width=width, height=height, period=period, ramp=ramp)
    duration = period if duration is None else duration
    n_coefficients = 5 + max(2, round((n_coefficients - 5) * duration / period))
    curve = Spline.constant(rest, 0.0, duration, n_coefficients)
    ts = jnp.linspace(0.0, duration, curve.n_segments + 1)
    guess = rolling_along(path, ts, system.radius)
    return TrackingProblem(
        system,
        q0=(jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(2)),
        u0=jnp.zeros(3),
        ts=ts,
        curve=curve,
        path=path,
        tracking_weight=tracking_weight,
        acceleration_weight=acceleration_weight,
        constraints=(ControlAt(value=rest, rate=jnp.zeros_like(rest)),),
        guess=guess,
    )


def figure_eight_method(max_seconds: float = 90.0, goal: float = 5e-4) -> MultipleShooting:
    """The method for `figure_eight`: multiple shooting that ends when the RMS tracking error falls below `goal` [m].

    **Arguments:** `max_seconds` [s], `goal` [m]: as for `MultipleShooting`; the default goal is 0.025 % of the path's size.

    **Returns:** the method.
    """
    # Over 20 s, four steps of Dopri8 per 0.36 s are within 1e-5 m of an accurate simulation, six within 3e-7 m.
    return MultipleShooting(steps=4, max_seconds=max_seconds, goal=goal, cost_tolerance=0.02)


def rolling_along(
    path: Callable[..., Any], ts: ArrayLike, radius: ArrayLike, steps: int = 20
) -> tuple[tuple[Array, Array], Array]:
    """(q, u) at `ts` of a ball that rolls along `path` without spin about the vertical:

        ω = e_3 × ẋ / r ,   Λ(t + h) = exp(h ω) Λ(t) ,   Ω = Λᵀ ω .

    **Arguments:** `path`: t -> `(2,)` [m]; `ts`: `(N+1,)` [s]; `radius`: r [m]; `steps`: number of integration steps of Λ
    between two times.

    **Returns:** ((quaternions `(N+1, 4)`, positions `(N+1, 2)`), Ω `(N+1, 3)`): a `guess` for `ControlProblem`.
    """
    return _rolling_along(path, jnp.asarray(ts), radius, steps)


@compiled
def _rolling_along(path, ts, radius, steps):
    group = SO3()

    def omega(t):
        x, y = rate(path, t)
        return jnp.stack([-y, x, jnp.zeros_like(x)]) / radius

    def interval(q, ends):
        h = (ends[1] - ends[0]) / steps

        def turn(i, q):
            return group.compose(group.exp(h * omega(ends[0] + (i + 0.5) * h)), q)

        q = jax.lax.fori_loop(0, steps, turn, q)
        return q, q

    first = group.identity(ts.dtype)
    _, rest = jax.lax.scan(interval, first, jnp.stack([ts[:-1], ts[1:]], axis=1))
    turns = jnp.concatenate([first[None], rest])
    body = jax.vmap(lambda q, t: quaternion_matrix(q).T @ omega(t))(turns, ts)
    return (turns, jax.vmap(path)(ts)), body


def figure_eight_solution() -> tuple[ControlProblem, Spline]:
    """The stored solution of `figure_eight`: (the problem, its optimal control).

    `replay(*figure_eight_solution())` simulates it without a search.
    """
    return figure_eight(**_stored_coefficients()["problem"]), figure_eight_curve()


def figure_eight_curve() -> Spline:
    """The control of the stored solution. It is there without the problem because this takes half a second to set up."""
    stored = _stored_coefficients()
    return Spline(jnp.array(stored["coefficients"]), 0.0, stored["problem"]["period"])


def _stored_coefficients() -> dict[str, Any]:
    text = resources.files("jaxhamel.control").joinpath("data/figure_eight.json").read_text()
    return json.loads(text)


def stored_text(problem: dict[str, Any], result) -> str:
    """The text of `data/figure_eight.json` for a result; numbers are written so that they read back exactly."""
    rows = [[float(x) for x in row] for row in np.asarray(result.control.coefficients)]
    stored = {"problem": problem, "reached": result.to_dict(), "coefficients": rows}
    return json.dumps(stored, indent=1) + "\n"
