"""One case for each named system: generic parameters, a control, and the parameters that must be positive."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import systems
from jaxhamel.mechanics import Constant, System
from tests.systems.ball import Waves
from tests.systems.motion import inertias

_rng = np.random.default_rng(2026)
I1, I2 = (inertia.round(3) for inertia in inertias(_rng, 2))
TURNED = np.array([0.8, 0.5, 0.2, np.sqrt(0.07)])


@dataclass
class Case:
    """A system by its parameters, all of them, and what the general tests need to know beside.

    - `positive`: the parameters that have to be positive; `bare`: those that have no value here, on purpose.
    - `control` for the routes, `value` what the closed form takes for it (by default the same).
    - `still`: a control under which the invariants are kept.
    - `steady`: without control u is constant, and only q moves.
    - `start`: state to start from, where a random one would not do; `seconds` and `steps` of the motion.
    """

    make: Callable[..., System]
    parameters: dict[str, Any]
    positive: tuple[str, ...]
    bare: tuple[str, ...] = ()
    control: Any = None
    value: Any = None
    still: Any = None
    steady: bool = False
    start: Callable[[System], tuple] | None = None
    seconds: float = 1.0
    steps: int = 60

    def __call__(self) -> System:
        return self.make(**self.parameters)

    @property
    def name(self) -> str:
        return self.make.__name__


def _waves(middle, t):
    """Angles that oscillate about `middle`."""
    return middle + 0.4 * jnp.sin(2.0 * t + jnp.arange(middle.size, dtype=middle.dtype))


def _swinging(*middle):
    return jax.tree_util.Partial(_waves, jnp.asarray(middle))


def _hills():
    """Uneven ground with curvatures below 0.3 1/m."""
    rows = [[1.0, 0.3], [-0.4, 1.2], [0.5, -0.7]]
    return Waves(*map(jnp.array, ([0.1, 0.05, 0.08], rows, [0.0, 1.0, 2.0])))


def _rails():
    normal, zero = [[0, -0.6, 0.8], [1, 0, 0]], [[1.0, 0, 0], [0, 0.6, -0.8]]
    return systems.CircularRails([0.8, 0.6], normal, zero, [[0, 0, 0.1], [0.05, 0, 0]])


def _flat_rails():
    return systems.CircularRails([0.5, 0.3], [[0, -1.0, 0]] * 2, [[1.0, 0, 0]] * 2)


def _on_the_ground(system):
    """A leaning and turned configuration with the contact point at (0.1, −0.2)."""
    q = system.configuration(jnp.asarray(TURNED), jnp.array([0.1, -0.2]))
    return q, jnp.array([0.4, 0.9, 3.0])


_BOARD = {
    "mass": 3.0,
    "inertia": 0.11,
    "rotor_inertia": 0.05,
    "wheel_inertia": 0.013,
    "half_length": 0.3,
}

_SOFT = {
    "radius": 0.4,
    "shell_mass": 5.0,
    "shell_inertia": 0.7,
    "centre_mass": 2.0,
    "centre_inertia": 0.05,
    "centre_com": [0.02, -0.06],
    "pendulum_mass": 6.0,
    "pendulum_inertia": 0.2,
    "pendulum_com": [0.03, -0.1],
    "joint_coulomb": 0.3,
    "joint_viscous": 0.2,
    "contact_stiffness": 8.0,
    "rest_angle": 0.1,
    "rolling_coulomb": 0.4,
    "rolling_viscous": 0.5,
    "slip_rate": 0.3,
    "gravity": 9.5,
}
_SOFT_POSITIVE = tuple(
    k for k in _SOFT if k not in ("centre_com", "pendulum_com", "rest_angle", "gravity")
)
_BICYCLE = ("rear", "frame", "fork", "front")


ALL = (
    Case(
        systems.FreeRigidBody,
        {"inertia": I1},
        (),
    ),
    Case(
        systems.HeavyTop,
        {"mass": 1.3, "inertia": I1, "com": [0.1, 0.2, 0.4], "gravity": 9.5},
        ("mass",),
    ),
    Case(
        systems.Suslov,
        {"inertia": I1, "xi": [0.3, -0.5, 0.8]},
        (),
    ),
    Case(
        systems.UnderwaterBody,
        {
            "mass": 1.2,
            "inertia": I1,
            "added_mass": np.diag([0.1, 0.2, 0.3, 0.4, 0.9, 1.1]),
            "displaced_mass": 1.1,
            "com": [0.02, -0.03, -0.1],
            "centre_of_buoyancy": [0.01, 0.02, 0.05],
            "gravity": 9.5,
        },
        ("mass", "displaced_mass"),
    ),
    Case(
        systems.RollingBall,
        {
            "radius": 1.1,
            "shell_mass": 3.0,
            "shell_inertia": I1,
            "shell_com": [0.02, -0.03, -0.1],
            "masses": [0.7, 0.4],
            "rails": _rails(),
            "gravity": 9.5,
            "slope": [0.05, -0.08],
        },
        ("radius", "shell_mass", "masses"),
        bare=("external_force", "ground"),
        control=_swinging(-1.5, 0.4),
        value=_swinging(-1.5, 0.4),
        still=Constant(jnp.array([-1.5, 0.4])),
    ),
    Case(
        systems.ActuatedDisk,
        {
            "radius": 0.7,
            "disk_mass": 2.0,
            "disk_inertia": 0.6,
            "disk_com": [0.02, 0.0, -0.05],
            "masses": [0.7, 0.4],
            "rails": _flat_rails(),
            "gravity": 9.5,
            "external_force": 0.3,
        },
        ("radius", "disk_mass", "disk_inertia", "masses"),
        control=_swinging(-1.5, 0.4),
        value=_swinging(-1.5, 0.4),
        still=Constant(jnp.array([-1.5, 0.4])),
    ),
    Case(
        systems.ChaplyginSphere,
        {"radius": 1.2, "mass": 0.8, "inertia": I1},
        ("radius", "mass"),
    ),
    Case(
        systems.BallOnTurntable,
        {"radius": 0.5, "mass": 2.0, "inertia": 0.3, "turn_rate": -1.7},
        ("radius", "mass", "inertia"),
    ),
    Case(
        systems.NonSpinningBall,
        {"radius": 0.8, "mass": 1.1, "inertia": I1},
        ("radius", "mass"),
        control=Constant(jnp.array([0.3, -0.2])),
        value=jnp.array([0.3, -0.2]),
    ),
    Case(
        systems.RollingDisk,
        {"radius": 0.4, "mass": 1.5, "inertia": I1, "gravity": 9.5},
        ("radius", "mass"),
        start=_on_the_ground,
    ),
    Case(
        systems.Rattleback,
        {
            "surface": [0.6, 0.4, 0.3],
            "mass": 1.5,
            "inertia": I2,
            "com": [0.02, -0.03, 0.05],
            "gravity": 9.5,
        },
        ("surface", "mass"),
        bare=("damping",),
        start=_on_the_ground,
    ),
    Case(
        systems.ChaplyginSleigh,
        {"mass": 2.0, "inertia": 0.3, "offset": -0.4},
        ("mass", "inertia"),
        control=Constant(jnp.array([0.3, -0.2])),
        value=jnp.array([0.3, -0.2]),
    ),
    Case(
        systems.KnifeEdge,
        {"mass": 1.3, "inertia": 0.2, "slope": 0.4, "gravity": 9.5},
        ("mass", "inertia"),
    ),
    Case(
        systems.RollingPendulumBall,
        {
            "radius": 0.7,
            "shell_mass": 1.3,
            "shell_inertia": I1,
            "shell_com": [0.02, -0.03, -0.1],
            "masses": [0.7, 0.4],
            "inertias": [I1 / 10, I2 / 20],
            "pivots": [[0.1, 0, 0.05], [0, -0.1, 0]],
            "axes": [[0, 0.6, 0.8], [1.0, 0, 0]],
            "coms": [[0.3, 0, -0.1], [0.1, -0.2, -0.2]],
            "gravity": 9.5,
            "ground": _hills(),
        },
        ("radius", "shell_mass", "masses"),
        control=Constant(jnp.array([0.3, -0.2])),
        value=jnp.array([0.3, -0.2]),
        still=Constant(jnp.array([0.3, -0.2])),
    ),
    Case(
        systems.RollingRotorBall,
        {
            "radius": 0.7,
            "mass": 1.3,
            "inertia": I1,
            "axes": [[0, 0.6, 0.8], [1.0, 0, 0]],
            "rotor_inertias": [0.05, 0.07],
            "com": [0.02, -0.03, -0.1],
            "gravity": 9.5,
        },
        ("radius", "mass", "rotor_inertias"),
        bare=("ground",),
        control=Constant(jnp.array([0.3, -0.2])),
        value=jnp.array([0.3, -0.2]),
    ),
    Case(
        systems.Snakeboard,
        _BOARD,
        tuple(_BOARD),
        control=Constant(jnp.array([0.4, -0.3, 0.2])),
        value=jnp.array([0.4, -0.3, 0.2]),
    ),
    Case(
        systems.CartPole,
        {"cart_mass": 1.2, "pole_mass": 0.4, "length": 0.7, "gravity": 9.5},
        ("cart_mass", "pole_mass", "length"),
        control=Constant(jnp.array([0.4])),
    ),
    Case(
        systems.FallingCat,
        {"mass": 1.4, "length": 0.13, "axial_inertia": 0.003, "transverse_inertia": 0.009},
        ("mass", "length", "axial_inertia", "transverse_inertia"),
        control=Constant(jnp.array([0.4, -0.3])),
        steps=120,
    ),
    Case(
        systems.TwoWheelSatellite,
        {"inertia": I1, "wheel_inertia": 0.3},
        ("wheel_inertia",),
        control=Constant(jnp.array([0.4, -0.3])),
        steady=True,
    ),
    Case(
        systems.CoupledSnakeboard,
        _BOARD,
        tuple(_BOARD),
        control=Constant(jnp.array([0.4, -0.3])),
        value=jnp.array([0.4, -0.3]),
    ),
    Case(
        systems.SpaceRobot,
        {
            "base_mass": 10.0,
            "base_inertia": 1.3,
            "mount": [0.4, 0.1],
            "lengths": [0.6, 0.5],
            "coms": [0.3, 0.2],
            "masses": [2.0, 1.0],
            "inertias": [0.06, 0.03],
        },
        ("base_mass", "base_inertia", "masses", "inertias"),
        control=Constant(jnp.array([0.7, -1.1])),
        value=jnp.array([0.7, -1.1]),
    ),
    Case(
        systems.SoftRollingPendulum,
        _SOFT,
        _SOFT_POSITIVE,
    ),
    Case(
        systems.PendulumInStand,
        _SOFT,
        _SOFT_POSITIVE,
    ),
    Case(
        systems.WhippleBicycle,
        {
            "wheel_base": 1.05,
            "trail": 0.07,
            "steer_axis_tilt": 0.3,
            "rear_radius": 0.31,
            "rear_mass": 2.1,
            "rear_inertia": [0.06, 0.11, 0.07],
            "frame_mass": 60.0,
            "frame_com": [0.35, 0.02, 0.9],
            "frame_inertia": 9 * I1,
            "fork_mass": 4.2,
            "fork_com": [0.9, -0.01, 0.7],
            "fork_inertia": I2 / 10,
            "front_radius": 0.34,
            "front_mass": 2.9,
            "front_inertia": [0.14, 0.27, 0.15],
            "gravity": 9.5,
        },
        ("wheel_base", "rear_radius", "front_radius", *(f"{part}_mass" for part in _BICYCLE)),
        control=Constant(jnp.array([5.0, -0.7, 3.0])),
        start=lambda system: (
            system.configuration(0.1, -0.15, 0.3, [0.1, -0.2]),
            jnp.array([0.4, 0.3, 14.0]),
        ),
        seconds=0.4,
    ),
    Case(
        systems.RigidBody,
        {
            "mass": 1.3,
            "inertia": I1,
            "com": [0.1, 0.2, 0.4],
            "gravity": 9.5,
            "representation": "spatial",
        },
        ("mass",),
    ),
    Case(
        systems.InhomogeneousBall,
        {"radius": 1.2, "mass": 0.8, "inertia": I1, "gravity": 9.5},
        ("radius", "mass"),
    ),
    Case(
        systems.Satellite,
        {
            "wheel_axes": [[0, 0.6, 0.8], [1.0, 0, 0]],
            "wheel_inertias": [0.05, 0.07],
            "mass": 5.0,
            "inertia": I1,
            "com": [0.02, -0.03, -0.1],
            "wheel_masses": [0.4, 0.5],
            "wheel_positions": [[0.2, 0.1, 0], [0, -0.3, 0.1]],
            "wheel_transverse_inertias": [0.03, 0.04],
        },
        ("wheel_inertias", "mass", "wheel_masses", "wheel_transverse_inertias"),
        control=Constant(jnp.array([0.3, -0.2])),
        value=jnp.array([0.3, -0.2]),
    ),
    Case(
        systems.SatelliteMixed,
        {
            "wheel_axes": [[0, 0.6, 0.8], [1.0, 0, 0]],
            "wheel_inertias": [0.05, 0.07],
            "mass": 5.0,
            "inertia": I1,
        },
        ("wheel_inertias", "mass"),
        control=Constant(jnp.array([0.3, -0.2])),
        value=jnp.array([0.3, -0.2]),
    ),
)
