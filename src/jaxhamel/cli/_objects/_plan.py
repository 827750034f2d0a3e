"""Builds the problem and the method of a task that collocation solves."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.cli._objects._prepared import PreparedRun
from jaxhamel.cli._objects._system import named, state_in
from jaxhamel.cli._scenario._plan_schema import TO_POINT
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.control import (
    Collocation,
    ConditionsAtEnd,
    ControlEnergy,
    ControlProblem,
    FreeEndTime,
    PathLimit,
    StateAtEnd,
    problems,
)
from jaxhamel.control._checks._problem_parts import check_free
from jaxhamel.control._problem._costs import without
from jaxhamel.mechanics import Constant, Kinematic, MovingParts, System
from jaxhamel.mechanics._system import controls_of
from jaxhamel.systems import (
    ActuatedDisk,
    CartPole,
    ChaplyginSleigh,
    CoupledSnakeboard,
    FallingCat,
    KnifeEdge,
    NonSpinningBall,
    RollingBall,
    RollingPendulumBall,
    TwoWheelSatellite,
)

PROBLEMS: dict[str, tuple[Callable[..., ControlProblem], type[System]]] = {
    "disk-to-point": (problems.disk_to_point, ActuatedDisk),
    "disk-obstacle": (problems.disk_obstacle, ActuatedDisk),
    "ball-to-point": (problems.ball_to_point, RollingBall),
    "ball-design": (problems.ball_design, RollingBall),
    "ball-obstacle": (problems.ball_obstacle, RollingBall),
    "pendulum-ball-to-point": (problems.pendulum_ball_to_point, RollingPendulumBall),
    "plate-ball": (problems.plate_ball, NonSpinningBall),
    "unicycle-sideways": (problems.unicycle_sideways, KnifeEdge),
    "sleigh-park": (problems.sleigh_park, ChaplyginSleigh),
    "snakeboard-park": (problems.snakeboard_park, CoupledSnakeboard),
    "satellite-turn": (problems.satellite_turn, TwoWheelSatellite),
    "falling-cat": (problems.falling_cat, FallingCat),
    "cart-pole": (problems.cart_pole, CartPole),
}


class ControlValue(eqx.Module):
    """The function h(t, q, u, control) = control(t) of a path limit, for limits on the control itself."""

    def __call__(self, t: Time, q: Configuration, u: QuasiVelocity, control: Control) -> Array:
        return control(t)  # pyright: ignore[reportOptionalCall]


class PartsAtEnd(eqx.Module):
    """The residuals θ − target and θ̇ of the parts of a `MovingParts`: zero if they rest at their target."""

    target: Array

    def __call__(self, q: Configuration, u: QuasiVelocity) -> Array:
        rates = u[u.shape[0] - self.target.shape[0] :]
        return jnp.concatenate([q[-1] - self.target, rates])


class OwnStateAtEnd(eqx.Module):
    """The residuals log(q*⁻¹ q) and u − u* of the state (q, u) of the system inside a `MovingParts`.

    Either of the targets q*, u* (the fields `q` and `u`) may be None; its residual is then left out, as are the entries
    `free_q` and `free_u`.
    """

    driven: MovingParts
    q: Any
    u: Any
    free_q: tuple[int, ...] = eqx.field(static=True)
    free_u: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, q: Configuration, u: QuasiVelocity) -> Array:
        own, k = self.driven.system, self.driven.system.n_independent
        inside = q[:-1] if isinstance(self.q, tuple) or self.q is None else q[0]
        parts = [] if self.q is None else [without(own.space.local(self.q, inside), self.free_q)]
        if self.u is not None:
            parts.append(without(u[:k] - self.u, self.free_u))
        return jnp.concatenate(parts)


def build_plan(run: PreparedRun) -> ControlProblem:
    """The control problem of `[task]`. **Raises:** `ScenarioError` if the system does not fit the task."""
    task = run.scenario["task"]
    with named("task"):
        if task["path"] == TO_POINT:
            return _to_point(run, task)
        make, kind = PROBLEMS[task["path"]]
        if not isinstance(run.system, kind):
            raise ScenarioError(
                f'`system` is a {type(run.system).__name__}; the task "{task["path"]}" is for a {kind.__name__}. '
                f'Take that, or path = "{TO_POINT}".'
            )
        return make(**{k: v for k, v in task.items() if k != "path"}, system=run.system)


def build_collocation(scenario: Scenario, max_seconds: float) -> Collocation:
    """The collocation method of `[method]`, with `max_seconds` as its time limit."""
    method = {k: v for k, v in scenario["method"].items() if k != "indirect"}
    method |= {"max_seconds": max_seconds, "error": method["error"] or None}
    method |= {"intervals": method["intervals"] or "auto"}
    with named("method"):
        return Collocation(**method)


def _to_point(run: PreparedRun, task: Mapping[str, Any]) -> ControlProblem:
    system, q0, u0 = _driven(run, task)
    m = controls_of(system)
    if not m:
        raise ScenarioError(
            f"`system` is a {type(run.system).__name__} and has no `n_controls`; a task needs a control. State "
            'n_controls in its class, or set task.drive="velocities".'
        )
    ends = _ends(run, task, system)
    if not ends:
        raise ScenarioError("`task.q` is missing; give the state to reach, `q`, `u` or both.")
    longest = task["longest"]
    if longest:
        ends.append(FreeEndTime(task["duration"], longest))
    ts = jnp.linspace(0.0, task["duration"], 2)
    cost = ControlEnergy(task["effort_weight"])
    curve = Constant(jnp.zeros(m))
    return ControlProblem(system, q0, u0, ts, curve, (cost,), (*ends, *_control_limits(task, m)))


def _driven(run: PreparedRun, task: Mapping[str, Any]) -> tuple[System, Configuration, Any]:
    """The system with the drive `task.drive` added (`Kinematic` or `MovingParts`), and its initial state (q, u)."""
    match task["drive"]:
        case "velocities":
            return Kinematic(run.system), run.q0, jnp.zeros(0)
        case "parts":
            driven = MovingParts(run.system)
            parts = _per_part("parts", task["parts"] or [0.0] * driven.n_controls, driven)
            return driven, *driven.state(run.q0, run.u0, parts, jnp.zeros_like(parts))
    return run.system, run.q0, run.u0


def _ends(run: PreparedRun, task: Mapping[str, Any], system: System) -> list[Any]:
    q, u = state_in(run.system, {k: task[k] for k in ("q", "u") if k in task}, "task")
    q, u = (q if "q" in task else None), (u if "u" in task else None)
    if isinstance(system, Kinematic) and u is not None:
        raise ScenarioError("`task.u` has no meaning with drive = velocities, its control.")
    free = {name: tuple(task[name]) for name in ("free_q", "free_u")}
    check_free(TO_POINT, "q", q, free["free_q"], run.system.space.dim)
    check_free(TO_POINT, "u", u, free["free_u"], run.system.n_independent)
    if not isinstance(system, MovingParts):
        return [] if q is None and u is None else [StateAtEnd(q, u, **free)]
    found: list[Any] = []
    if q is not None or u is not None:
        found.append(ConditionsAtEnd(OwnStateAtEnd(system, q, u, **free), "state at the end"))
    if task["parts_end"]:
        parts = _per_part("parts_end", task["parts_end"], system)
        found.append(ConditionsAtEnd(PartsAtEnd(parts), "parts at the end"))
    return found


def _per_part(key: str, value: list[float], driven: MovingParts) -> Array:
    if len(value) != driven.n_controls:
        raise ScenarioError(
            f"`task.{key}` has {len(value)} entries; it must have {driven.n_controls}, one for each moving part."
        )
    return jnp.asarray(value, dtype=float)


def _control_limits(task: Mapping[str, Any], m: int) -> tuple[PathLimit, ...]:
    for key in ("lower", "upper"):
        if task[key] and len(task[key]) != m:
            raise ScenarioError(
                f"`task.{key}` has {len(task[key])} entries; it must have {m}, one for each control."
            )
    if not task["lower"] and not task["upper"]:
        return ()
    low = jnp.asarray(task["lower"] or [-jnp.inf] * m, dtype=float)
    high = jnp.asarray(task["upper"] or [jnp.inf] * m, dtype=float)
    return (PathLimit(ControlValue(), low, high, name="limits of the control"),)
