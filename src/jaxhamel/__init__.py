"""Differentiable dynamics of constrained mechanical systems in JAX.

A Lagrangian, a frame of quasi-velocities u = A(q) v and constraint one-forms, as plain JAX functions, become a right-hand
side that can be jitted, vmapped and differentiated through time:

    d/dt ∂L/∂u^a − E_a(L) + ∂L/∂u^b γ^b_ac u^c = Q_a .
"""

import sys

from jaxhamel._lazy import Package as _Package

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than this whole module
if TYPE_CHECKING:
    # Sub-packages
    from jaxhamel import control as control
    from jaxhamel import ensemble as ensemble
    from jaxhamel import geometry as geometry
    from jaxhamel import identify as identify
    from jaxhamel import mechanics as mechanics
    from jaxhamel import multibody as multibody
    from jaxhamel import systems as systems

    # Citation
    from jaxhamel._citation import citation as citation

    # A page with the animation and plots of a motion
    from jaxhamel._report import report as report

    # Configuration spaces
    from jaxhamel.geometry import SE2 as SE2
    from jaxhamel.geometry import SE3 as SE3
    from jaxhamel.geometry import SO2 as SO2
    from jaxhamel.geometry import SO3 as SO3
    from jaxhamel.geometry import AbstractSpace as AbstractSpace
    from jaxhamel.geometry import Euclidean as Euclidean
    from jaxhamel.geometry import Helical as Helical
    from jaxhamel.geometry import MatrixGroup as MatrixGroup
    from jaxhamel.geometry import Product as Product
    from jaxhamel.geometry import Schoenflies as Schoenflies

    # Quasi-velocities
    from jaxhamel.geometry import hamel_coefficients as hamel_coefficients
    from jaxhamel.geometry import hamel_contraction as hamel_contraction
    from jaxhamel.mechanics import ODE as ODE

    # Systems and their equations of motion
    from jaxhamel.mechanics import Constant as Constant
    from jaxhamel.mechanics import Feedback as Feedback
    from jaxhamel.mechanics import Kinematic as Kinematic
    from jaxhamel.mechanics import MovingParts as MovingParts
    from jaxhamel.mechanics import Points as Points
    from jaxhamel.mechanics import PowerBalance as PowerBalance
    from jaxhamel.mechanics import Recorded as Recorded
    from jaxhamel.mechanics import Spins as Spins
    from jaxhamel.mechanics import System as System
    from jaxhamel.mechanics import VectorField as VectorField
    from jaxhamel.mechanics import acceleration as acceleration
    from jaxhamel.mechanics import constraint_force as constraint_force
    from jaxhamel.mechanics import energy as energy
    from jaxhamel.mechanics import examine as examine
    from jaxhamel.mechanics import momentum as momentum
    from jaxhamel.mechanics import parameter as parameter
    from jaxhamel.mechanics import power_balance as power_balance
    from jaxhamel.mechanics import quasi_velocity as quasi_velocity
    from jaxhamel.mechanics import vector_field as vector_field
    from jaxhamel.mechanics import velocity as velocity

    # Robots from files
    from jaxhamel.multibody import MultibodyTree as MultibodyTree
    from jaxhamel.multibody import read_mjcf as read_mjcf
    from jaxhamel.multibody import read_urdf as read_urdf

    # Simulation
    from jaxhamel.simulate import RESULTS as RESULTS
    from jaxhamel.simulate import AutoAdjoint as AutoAdjoint
    from jaxhamel.simulate import CommutatorFree2 as CommutatorFree2
    from jaxhamel.simulate import CommutatorFree4 as CommutatorFree4
    from jaxhamel.simulate import LieGroup as LieGroup
    from jaxhamel.simulate import Projected as Projected
    from jaxhamel.simulate import Trajectory as Trajectory
    from jaxhamel.simulate import Variational as Variational
    from jaxhamel.simulate import simulate as simulate

    __version__: str

# At run time each of these names is imported on first use, so that `import jaxhamel` takes no time and a command can report
# a wrong scenario before it imports JAX.
_FOLDERS = ("control", "ensemble", "geometry", "identify", "mechanics", "multibody", "systems")
_HOMES = {
    "jaxhamel._citation": ("citation",),
    "jaxhamel._report": ("report",),
    "jaxhamel.geometry": (
        "SE2",
        "SE3",
        "SO2",
        "SO3",
        "AbstractSpace",
        "Euclidean",
        "Helical",
        "MatrixGroup",
        "Product",
        "Schoenflies",
        "hamel_coefficients",
        "hamel_contraction",
    ),
    "jaxhamel.mechanics": (
        "Constant",
        "Feedback",
        "Kinematic",
        "ODE",
        "MovingParts",
        "Points",
        "PowerBalance",
        "Recorded",
        "Spins",
        "System",
        "VectorField",
        "acceleration",
        "constraint_force",
        "energy",
        "examine",
        "momentum",
        "parameter",
        "power_balance",
        "quasi_velocity",
        "vector_field",
        "velocity",
    ),
    "jaxhamel.multibody": ("MultibodyTree", "read_mjcf", "read_urdf"),
    "jaxhamel.simulate": (
        "RESULTS",
        "AutoAdjoint",
        "CommutatorFree2",
        "CommutatorFree4",
        "LieGroup",
        "Projected",
        "Trajectory",
        "Variational",
        "simulate",
    ),
}

if not TYPE_CHECKING:
    __all__ = ["__version__", *_FOLDERS, *(name for names in _HOMES.values() for name in names)]
    sys.modules[__name__].__class__ = _Package
