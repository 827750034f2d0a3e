"""A simulation prepared from a scenario: its objects and the path of its task, built once for all functions of a command."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._typing import Configuration, Control, QuasiVelocity
from jaxhamel.cli._objects._build import build_control, build_times, solver_options
from jaxhamel.cli._objects._system import build_initial, build_system, named
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.control import Circle, FigureEight, Line
from jaxhamel.mechanics import System
from jaxhamel.simulate import Trajectory
from jaxhamel.viz._motion._run import ShownMotion

PATHS = {
    "figure-eight": (FigureEight, ("width", "height")),
    "circle": (Circle, ("radius",)),
    "line": (Line, ("end",)),
}


def build_path(scenario: Scenario) -> Any:
    """The path of `[task]`, t -> `(2,)`; None without a task or for a task without a path."""
    task = scenario["task"]
    if task is None or task["path"] not in PATHS:
        return None
    make, sizes = PATHS[task["path"]]
    period = task["period"] or scenario["time"]["end"]
    with named("task"):
        return make(period=period, ramp=task["ramp"], **{key: task[key] for key in sizes})


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """The objects of a scenario's simulation: system, initial state, control, times, solver options and path.

    `path` is the path t -> `(d,)` of the task, or None; `options` are keyword arguments of `jaxhamel.simulate`.
    """

    scenario: Scenario
    system: System
    q0: Configuration
    u0: QuasiVelocity
    control: Control
    ts: np.ndarray
    options: dict[str, Any]
    path: Any

    @classmethod
    def of(cls, scenario: Scenario) -> "PreparedRun":
        """Builds and checks all objects of a scenario.

        **Raises:** `ScenarioError` before anything is computed.
        """
        system = build_system(scenario)
        control = build_control(scenario, system)
        q0, u0 = build_initial(scenario, system)
        check_lagrangian_is_scalar(system, q0)
        ts, options = build_times(scenario), solver_options(scenario)
        return cls(scenario, system, q0, u0, control, ts, options, build_path(scenario))

    def but(
        self, system: System, q0: Configuration, u0: QuasiVelocity, control: Control
    ) -> "PreparedRun":
        """The same run with another system, initial state and control, for one member of an ensemble."""
        return replace(self, system=system, q0=q0, u0=u0, control=control)

    def standing(self) -> ShownMotion:
        """A motion that stays at the initial state. The programs for the figures are compiled with it early."""

        def repeat(x):
            return np.broadcast_to(x, (len(self.ts), *np.shape(x)))

        q, u = jax.tree.map(repeat, (self.q0, self.u0))
        return self._with_task(ShownMotion(self.system, self.control, self.ts, q, u))

    def shown(self, trajectory: Trajectory, control: Control = None) -> ShownMotion:
        """The motion of a trajectory together with the path of the task; `control` replaces the scenario's control."""
        control = self.control if control is None else control
        return self._with_task(run_of(trajectory, self.system, control))

    def _with_task(self, run: ShownMotion) -> ShownMotion:
        task = self.scenario["task"]
        if task is None:
            return run
        return replace(run, path=self.path, friction_limit=task.get("friction_limit") or None)


def run_of(trajectory: Trajectory, system: System, control: Control) -> ShownMotion:
    """The motion of a trajectory as arrays. **Raises:** `ScenarioError` if the trajectory has no first step."""
    try:
        return ShownMotion.of(trajectory, system, control)
    except ValueError as error:
        raise ScenarioError(str(error)) from None


def check_lagrangian_is_scalar(system: System, q0: Configuration) -> None:
    """Checks that the Lagrangian is a scalar: a parameter of a wrong shape is reported before derivatives are taken."""
    if system.prescribed_motion:
        return
    v = jnp.zeros(system.space.dim)
    found = jax.eval_shape(lambda q, v: system.lagrangian(jnp.zeros(()), q, v), q0, v)
    if getattr(found, "shape", None) == ():
        return
    shapes = {k: np.shape(x) for k, x in vars(system).items() if hasattr(x, "shape")}
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    raise ScenarioError(
        f"`system`: the Lagrangian of {type(system).__name__} has shape "
        f"{getattr(found, 'shape', None)}; it must be one number, of shape (). The parameters have "
        f"the shapes {listed}."
    )
