"""Simulation by diffrax, whose solvers, adjoints and results remain accessible."""

from jaxhamel.simulate._adjoint import AutoAdjoint as AutoAdjoint
from jaxhamel.simulate._results import RESULTS as RESULTS
from jaxhamel.simulate._simulate import simulate as simulate
from jaxhamel.simulate._solvers._commutator_free import CommutatorFree2 as CommutatorFree2
from jaxhamel.simulate._solvers._commutator_free import CommutatorFree4 as CommutatorFree4
from jaxhamel.simulate._solvers._lie_group import LieGroup as LieGroup
from jaxhamel.simulate._solvers._projected import Projected as Projected
from jaxhamel.simulate._solvers._variational import Variational as Variational
from jaxhamel.simulate._step_size import FixedStep as FixedStep
from jaxhamel.simulate._step_size import WatchedStep as WatchedStep
from jaxhamel.simulate._trajectory import Trajectory as Trajectory
