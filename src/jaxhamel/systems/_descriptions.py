"""Parts of the state and outputs that several systems share."""

from typing import Any

from jaxtyping import Array

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.mechanics._description._declarations import OMEGA, ORIENTATION, Output, Part, State

FORCE_NAMES = ("force_x", "force_y", "force_z")
ON_PLANE = Part("position", ("x", "y"), "m", "of the centre over the ground")
IN_SPACE = Part("position", ("x", "y", "z"), "m", "of the centre of mass")
POSE = Part("pose", ("angle", "x", "y"), "rad, m", "angle and position in the plane")
TURNING = State((ORIENTATION,), (OMEGA,))
SPIN = OMEGA._replace(chart=False)  # of a rolling body, path and contact force are plotted instead
ROLLING = State((ORIENTATION, ON_PLANE), (SPIN,))
ROLLING_IN_SPACE = State((ORIENTATION, IN_SPACE), (SPIN,))


def driven(name: str, unit: str = "rad") -> State:
    """The parts of the state of a rolling ball with drives: one angle and one rate for each drive."""
    angles = Part("angles", name, unit, "of the drives")
    rates = Part("rates", f"{name}_rate", "rad/s", "of the drives")
    torques = Part("torques", "torque", "N m", "of the ball on the drives")
    return State((*ROLLING.q, angles), (SPIN, rates), (torques,))


def ground_force(
    system: Any, t: Time, q: Configuration, u: QuasiVelocity, control: Control, weight: Array
) -> Output:
    """The output with the force of the ground on a body, in space axes [N]; `weight` is its reference value."""
    force = system.contact_force(t, q, u, control)
    return Output(force, "forces", FORCE_NAMES, "N", "Force of the ground", weight)


def rail_parameters(system: Any, t: Time, control: Control) -> tuple[Output, ...]:
    """The output with θ of every mass that moves on a rail; empty for a body without masses."""
    if not system.n_masses:
        return ()
    names = tuple(f"theta_{i + 1}" for i in range(system.n_masses))
    title = "Position of the masses on their rails"
    return (Output(control(t), "angles", names, system.unit_of_parts, title),)
