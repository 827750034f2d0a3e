"""The result of an optimal control problem, with numbers from one continuous simulation."""

import time
from itertools import pairwise
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.control._problem._limits import values_by_name
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.simulate import Trajectory, simulate
from jaxhamel.systems._rolling import friction_needed


class Certificate(NamedTuple):
    """The evidence that a result is an optimum.

    - `holds`: whether the result is stationary, feasible also between the nodes, transcribed within tolerance, and a minimum
      (isolated or not), and whether its cost would stay without the violations that are left, the barrier of the limits,
      the error of the transcription and switches of limited controls inside of intervals.
    - `stationarity`: largest entry of the Lagrangian's gradient, scaled by the size of the multipliers.
    - `violation`: the largest violation of a constraint, on a grid ten times finer than the mesh, in the constraint's unit.
    - `transcription_error`: largest distance in the tangent space between a node and the motion under the found control,
      integrated from the node before.
    - `second_order`: `"strict minimum"`, `"minimum, not isolated"`, `"not a minimum"` or `"undecided"`.
    - `multipliers_unique`: whether the gradients of the active constraints are independent.
    - `words`: the certificate as sentences, with the name of the constraint that is violated most.
    - `optima`: (J, number of starts that end there) for each distinct optimum found from many starts; None for one start.
    - `agreement`: relative difference from the cost of the indirect solution; None if only one method was used.
    """

    holds: bool
    stationarity: float
    violation: float
    transcription_error: float
    second_order: str
    multipliers_unique: bool
    words: str
    agreement: float | None = None
    optima: tuple[tuple[float, int], ...] | None = None


MOST_DEPARTURE = 1e-3  # largest distance of the open loop from the nodes at which it still counts as the plan's motion


class Result(NamedTuple):
    """The outcome of `solve`.

    - `problem`: the given problem, with the optimal values of its design parameters, which `design` has by name.
    - `control`: the optimised curve. `trajectory`: its motion, simulated continuously in open loop. If an unstable motion
      departs in open loop by more than 1e-3 from the nodes of `Collocation` or `MultipleShooting`, the trajectory is
      integrated anew from each node. `open_loop_departure`: the largest distance of the open loop from the nodes, in the
      tangent space.
    - `cost`, `gradient_norm`: J and the norm of its gradient (for methods with constraints, of the Lagrangian).
    - `tracking_rms`: distance of the simulated output from the path, root mean square [m]; `path_size`: the longer side of
      the box around the path; `path_length`: its length [m].
    - `min_normal_force` [N] and `friction_needed`, for systems with a contact force: the least normal force along the
      trajectory, and the largest coefficient of friction that it needs (inf if the normal force is not positive throughout).
    - `history`: one array for each quantity, with an entry for each iteration. `seconds`: time of the search.
    - `converged`, `status`: whether the tolerances were met, and the reason for the end.

    From `Collocation` only:

    - `ts`: the times of the mesh, `(N+1,)`; `states`: (q, u) at `ts`, with a leading time axis.
    - `costates`: λ = ∂J/∂x at `ts`, `(N+1, n+k)`: from the state (q exp δ_q, u + δ_u) at this time, the optimal cost is
      J + λ·(δ_q, δ_u) to first order. With the rate f of the state, H = ½|r|² + λ·f is the control Hamiltonian.
    - `certificate`: the evidence that the result is an optimum, a `Certificate`; `optimum`: all unknowns and multipliers,
      for `jaxhamel.control.sensitivity`.
    - `mesh_errors`: estimates, `(N,)`, of the distance between the state's polynomials X and the motion in each interval:
      the largest component of ε = ∫ |dX/dτ − h f(X)| dτ, the integrated residual of the equations of motion; in multiples
      of the states' sizes where the search scales these.

    Quantities that do not apply are None.
    """

    problem: ControlProblem
    control: Any
    trajectory: Trajectory
    cost: float
    gradient_norm: float
    tracking_rms: float | None
    path_size: float | None
    path_length: float | None
    min_normal_force: float | None
    friction_needed: float | None
    history: dict[str, np.ndarray]
    seconds: float
    converged: bool
    status: str
    ts: Any = None
    states: Any = None
    costates: Any = None
    certificate: Certificate | None = None
    optimum: Any = None
    mesh_errors: Any = None
    open_loop_departure: float | None = None

    @property
    def design(self) -> dict[str, np.ndarray]:
        """The values found for the problem's design parameters, by their names; empty without any."""
        found = values_by_name(self.problem.system, self.problem.constraints)
        return {name: np.asarray(value) for name, value in found.items()}

    def to_dict(self) -> dict[str, Any]:
        """The numbers and the status, for `summary.json`."""
        keep: dict[str, Any] = {
            k: v for k, v in self._asdict().items() if isinstance(v, int | float | str)
        }
        if self.certificate is not None:
            keep["certificate"] = self.certificate._asdict()
        keep |= {name: value.tolist() for name, value in self.design.items()}
        keep["iterations"] = len(self.history["cost"])
        keep["reached_end"] = bool(self.trajectory.succeeded)
        return keep

    def __str__(self) -> str:
        rows = [
            ("status", self.status),
            ("cost", f"{self.cost:.6g}   (gradient norm {self.gradient_norm:.2g})"),
            ("tracking RMS", _or_none(self.tracking_rms, "{:.3g} m" + self._share())),
            ("smallest normal force", _or_none(self.min_normal_force, "{:.4g} N")),
            ("friction needed", _or_none(self.friction_needed, "{:.3g}")),
            ("iterations", f"{len(self.history['cost'])} in {self.seconds:.1f} s"),
            *((name, f"{value}") for name, value in self.design.items()),
            ("in open loop", self._departure()),
        ]
        lines = [f"  {name:<22} {text}" for name, text in rows if text is not None]
        if self.certificate is not None:
            lines += ["", *(f"  {line}" for line in self.certificate.words.split("\n"))]
        head = "converged" if self.converged else "NOT converged"
        return "\n".join([f"Control of {type(self.problem.system).__name__}: {head}", *lines])

    def _departure(self) -> str | None:
        if self.open_loop_departure is None or self.open_loop_departure <= MOST_DEPARTURE:
            return None
        return (
            f"departs from the nodes by {self.open_loop_departure:.2g}: unstable, or not yet solved"
        )

    def _share(self) -> str:
        if self.path_size is None or self.tracking_rms is None:
            return ""
        percent = 100 * self.tracking_rms / self.path_size
        return f"   ({percent:.2g} % of the path's size {self.path_size:.3g} m)"


def _or_none(value, text: str) -> str | None:
    return None if value is None else text.format(value)


def report_times(ts: ArrayLike, per_interval: int = 16) -> np.ndarray:
    """Times of the reported trajectory: each interval of `ts` is divided into `per_interval` equal parts."""
    ts = np.asarray(ts)
    parts = [np.linspace(a, b, per_interval, endpoint=False) for a, b in pairwise(ts)]
    return np.concatenate([*parts, ts[-1:]])


def replay(
    problem: ControlProblem, control: Any, ts: ArrayLike | None = None, **options: Any
) -> Trajectory:
    """Simulates a control continuously, in open loop, with small adaptive tolerances.

    **Arguments:** `problem`; `control`: a callable pytree t -> `(n,)`, `Result.control` for instance; `ts`: times, default
    a fine grid; `options`: for `jaxhamel.simulate`. **Returns:** a `Trajectory`.
    """
    ts = report_times(problem.ts) if ts is None else ts
    tight = problem.u0.dtype == jnp.float64 and "dt" not in options
    tolerances = {"rtol": 1e-10, "atol": 1e-12} if tight else {}
    options = {"solver": diffrax.Dopri8(), **tolerances, **options}
    return simulate(problem.system, problem.q0, problem.u0, ts, control, **options)


def report(
    problem: ControlProblem,
    control,
    cost: float,
    gradient_norm: float,
    history: dict[str, np.ndarray],
    began: float,
    converged: bool,
    status: str,
    trajectory: Trajectory | None = None,
) -> Result:
    """Assembles the result of a search.

    `began`: when the search began, by `time.monotonic` [s]; `trajectory`: the motion, by default simulated by `replay`.
    """
    trajectory = replay(problem, control) if trajectory is None else trajectory
    numbers = measure(problem, trajectory, control)
    if not bool(trajectory.succeeded):
        converged, status = False, f"{status}; its simulation broke down"
    return Result(
        problem=problem,
        control=control,
        trajectory=trajectory,
        cost=cost,
        gradient_norm=gradient_norm,
        **numbers,  # pyright: ignore[reportArgumentType]
        history=history,
        seconds=time.monotonic() - began,
        converged=converged,
        status=status,
    )


def measure(problem: ControlProblem, trajectory: Trajectory, control) -> dict[str, float | None]:
    """The tracking error, the path's size and length, and the contact forces along a trajectory, as fields of `Result`."""
    tracking, contact = _measurements(problem, trajectory.ts, trajectory.q, trajectory.u, control)
    numbers: dict[str, float | None] = dict.fromkeys(
        ("tracking_rms", "path_size", "path_length", "min_normal_force", "friction_needed")
    )
    if tracking is not None:
        path, error = tracking
        numbers |= _tracking_numbers(np.asarray(path), np.asarray(error), np.asarray(trajectory.ts))
    if contact is not None:
        force = np.asarray(contact)
        numbers["min_normal_force"] = float(np.min(force[:, 2]))
        numbers["friction_needed"] = float(np.max(friction_needed(contact)))
    return numbers


@compiled_with(QUICK)
def _measurements(problem, ts, qs, us, control):
    tracking = contact = None
    if problem.tracking is not None:
        tracking = jax.vmap(problem.tracking.path)(ts), jax.vmap(problem.tracking.error)(ts, qs)
    if hasattr(problem.system, "contact_force"):

        def force(t, q, u):
            return problem.system.contact_force(t, q, u, control)

        contact = jax.vmap(force)(ts, qs, us)
    return tracking, contact


def _tracking_numbers(path, error, ts):
    squared = np.sum(error**2, axis=1)
    return {
        "tracking_rms": float(np.sqrt(np.trapezoid(squared, ts) / (ts[-1] - ts[0]))),
        "path_size": float(np.max(np.ptp(path, axis=0))),
        "path_length": float(np.sum(np.linalg.norm(np.diff(path, axis=0), axis=1))),
    }
