"""Equations of motion: one family of equations per file, named as in the literature."""

from jaxhamel.mechanics._acceleration import ROUTES as ROUTES
from jaxhamel.mechanics._acceleration import VectorField as VectorField
from jaxhamel.mechanics._acceleration import acceleration as acceleration
from jaxhamel.mechanics._acceleration import constraint_force as constraint_force
from jaxhamel.mechanics._acceleration import quasi_velocity as quasi_velocity
from jaxhamel.mechanics._acceleration import vector_field as vector_field
from jaxhamel.mechanics._acceleration import velocity as velocity
from jaxhamel.mechanics._constraints._holonomic import close_loops as close_loops
from jaxhamel.mechanics._controls._control import Constant as Constant
from jaxhamel.mechanics._controls._control import Feedback as Feedback
from jaxhamel.mechanics._controls._control import as_control as as_control
from jaxhamel.mechanics._controls._kinematic import Kinematic as Kinematic
from jaxhamel.mechanics._controls._moving_parts import MovingParts as MovingParts
from jaxhamel.mechanics._controls._ode import ODE as ODE
from jaxhamel.mechanics._controls._recorded import Recorded as Recorded
from jaxhamel.mechanics._description._declarations import Output as Output
from jaxhamel.mechanics._description._declarations import Part as Part
from jaxhamel.mechanics._description._declarations import State as State
from jaxhamel.mechanics._description._drawing import Shape as Shape
from jaxhamel.mechanics._description._fields import Parameter as Parameter
from jaxhamel.mechanics._description._fields import parameters_of as parameters_of
from jaxhamel.mechanics._description._parameters import parameter as parameter
from jaxhamel.mechanics._equations._chaplygin import chaplygin as chaplygin
from jaxhamel.mechanics._equations._chaplygin import hamel_chaplygin as hamel_chaplygin
from jaxhamel.mechanics._equations._chaplygin import (
    kinematic_coefficients as kinematic_coefficients,
)
from jaxhamel.mechanics._equations._chaplygin import kinematic_curvature as kinematic_curvature
from jaxhamel.mechanics._equations._chaplygin import voronets as voronets
from jaxhamel.mechanics._equations._euler_poincare import EulerPoincareSystem as EulerPoincareSystem
from jaxhamel.mechanics._equations._euler_poincare import coadjoint as coadjoint
from jaxhamel.mechanics._equations._euler_poincare import diamond as diamond
from jaxhamel.mechanics._equations._euler_poincare import euler_poincare as euler_poincare
from jaxhamel.mechanics._equations._euler_poincare import (
    infinitesimal_action as infinitesimal_action,
)
from jaxhamel.mechanics._equations._exponential_coordinates import (
    body_acceleration as body_acceleration,
)
from jaxhamel.mechanics._equations._exponential_coordinates import (
    coriolis_matrix as coriolis_matrix,
)
from jaxhamel.mechanics._equations._exponential_coordinates import (
    velocity_transformation as velocity_transformation,
)
from jaxhamel.mechanics._equations._gauss import Points as Points
from jaxhamel.mechanics._equations._gauss import Spins as Spins
from jaxhamel.mechanics._examination._examine import Examination as Examination
from jaxhamel.mechanics._examination._examine import examine as examine
from jaxhamel.mechanics._gauss_function import gauss_function as gauss_function
from jaxhamel.mechanics._invariants import PowerBalance as PowerBalance
from jaxhamel.mechanics._invariants import energy as energy
from jaxhamel.mechanics._invariants import momentum as momentum
from jaxhamel.mechanics._invariants import power_balance as power_balance
from jaxhamel.mechanics._reduction._lagrange_dalembert_poincare import (
    lagrange_dalembert_poincare as lagrange_dalembert_poincare,
)
from jaxhamel.mechanics._reduction._lagrange_dalembert_poincare import (
    principal_connection as principal_connection,
)
from jaxhamel.mechanics._reduction._lagrange_poincare import (
    LagrangePoincareTerms as LagrangePoincareTerms,
)
from jaxhamel.mechanics._reduction._lagrange_poincare import lagrange_poincare as lagrange_poincare
from jaxhamel.mechanics._reduction._lagrange_poincare import (
    lagrange_poincare_terms as lagrange_poincare_terms,
)
from jaxhamel.mechanics._reduction._lagrange_poincare import lagrange_routh as lagrange_routh
from jaxhamel.mechanics._reduction._mechanical_connection import LockedFrame as LockedFrame
from jaxhamel.mechanics._reduction._mechanical_connection import MassBlocks as MassBlocks
from jaxhamel.mechanics._reduction._mechanical_connection import (
    MechanicalConnection as MechanicalConnection,
)
from jaxhamel.mechanics._reduction._mechanical_connection import ZeroMomentum as ZeroMomentum
from jaxhamel.mechanics._reduction._mechanical_connection import locked_inertia as locked_inertia
from jaxhamel.mechanics._reduction._mechanical_connection import locked_velocity as locked_velocity
from jaxhamel.mechanics._reduction._mechanical_connection import mass_blocks as mass_blocks
from jaxhamel.mechanics._reduction._mechanical_connection import (
    mechanical_connection as mechanical_connection,
)
from jaxhamel.mechanics._reduction._momentum import Centroidal as Centroidal
from jaxhamel.mechanics._reduction._momentum import centroidal as centroidal
from jaxhamel.mechanics._reduction._momentum import (
    reconstruct_with_momentum as reconstruct_with_momentum,
)
from jaxhamel.mechanics._reduction._momentum import spatial_momentum as spatial_momentum
from jaxhamel.mechanics._reduction._nonholonomic_momentum import (
    MomentumEquations as MomentumEquations,
)
from jaxhamel.mechanics._reduction._nonholonomic_momentum import (
    NonholonomicConnection as NonholonomicConnection,
)
from jaxhamel.mechanics._reduction._nonholonomic_momentum import (
    nonholonomic_connection as nonholonomic_connection,
)
from jaxhamel.mechanics._reduction._nonholonomic_momentum import (
    nonholonomic_momentum_equations as nonholonomic_momentum_equations,
)
from jaxhamel.mechanics._small_solve import inverse as inverse
from jaxhamel.mechanics._small_solve import symmetric_solve as symmetric_solve
from jaxhamel.mechanics._stability._follow import Branch as Branch
from jaxhamel.mechanics._stability._follow import follow_equilibria as follow_equilibria
from jaxhamel.mechanics._stability._linearise import Linearisation as Linearisation
from jaxhamel.mechanics._stability._linearise import linearise as linearise
from jaxhamel.mechanics._stability._modes import Modes as Modes
from jaxhamel.mechanics._stability._modes import modes as modes
from jaxhamel.mechanics._stability._relative_equilibrium import (
    RelativeEquilibrium as RelativeEquilibrium,
)
from jaxhamel.mechanics._stability._relative_equilibrium import (
    relative_equilibrium as relative_equilibrium,
)
from jaxhamel.mechanics._stability._riemann import levi_civita as levi_civita
from jaxhamel.mechanics._stability._riemann import neighbouring_motion as neighbouring_motion
from jaxhamel.mechanics._stability._riemann import riemann_curvature as riemann_curvature
from jaxhamel.mechanics._stability._riemann import sectional_curvature as sectional_curvature
from jaxhamel.mechanics._stability._riemann import stability_matrix as stability_matrix
from jaxhamel.mechanics._stability._symmetry import Symmetry as Symmetry
from jaxhamel.mechanics._system import System as System
