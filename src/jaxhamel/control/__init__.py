"""Optimal control: problems, methods that solve them, gaits, and closed loops with feedback and estimators."""

# Control curves
from jaxhamel.control._problem._curves import AbstractCurve as AbstractCurve
from jaxhamel.control._problem._curves import FourierSeries as FourierSeries
from jaxhamel.control._problem._curves import Limited as Limited
from jaxhamel.control._problem._curves import Spline as Spline
from jaxhamel.control._problem._curves import free_parameters as free_parameters

# isort: split
# Reference paths
from jaxhamel.control._problem._paths import Circle as Circle
from jaxhamel.control._problem._paths import FigureEight as FigureEight
from jaxhamel.control._problem._paths import Line as Line

# isort: split
# Costs and constraints
from jaxhamel.control._problem._costs import AbstractConstraint as AbstractConstraint
from jaxhamel.control._problem._costs import AbstractCost as AbstractCost
from jaxhamel.control._problem._costs import ContactLimits as ContactLimits
from jaxhamel.control._problem._costs import ControlAt as ControlAt
from jaxhamel.control._problem._costs import ControlEnergy as ControlEnergy
from jaxhamel.control._problem._costs import Endpoint as Endpoint
from jaxhamel.control._problem._costs import MassAcceleration as MassAcceleration
from jaxhamel.control._problem._costs import RailLimits as RailLimits
from jaxhamel.control._problem._costs import Running as Running
from jaxhamel.control._problem._costs import StateAtEnd as StateAtEnd
from jaxhamel.control._problem._costs import Tracking as Tracking

# isort: split
# Collocation
from jaxhamel.control._collocation._collocation import Collocation as Collocation
from jaxhamel.control._collocation._points import PiecewisePolynomial as PiecewisePolynomial
from jaxhamel.control._derivatives_of_optima._neighbour import (
    NeighbouringOptimum as NeighbouringOptimum,
)
from jaxhamel.control._derivatives_of_optima._neighbour import neighbouring as neighbouring
from jaxhamel.control._derivatives_of_optima._sensitivity import sensitivity as sensitivity
from jaxhamel.control._problem._boundary import BoundaryConditions as BoundaryConditions
from jaxhamel.control._problem._boundary import FreeInitialState as FreeInitialState
from jaxhamel.control._problem._boundary import Periodic as Periodic
from jaxhamel.control._problem._limits import DesignParameter as DesignParameter
from jaxhamel.control._problem._limits import FreeEndTime as FreeEndTime
from jaxhamel.control._problem._limits import PathLimit as PathLimit
from jaxhamel.control._problem._scalar_costs import FinalCost as FinalCost
from jaxhamel.control._problem._scalar_costs import InitialCost as InitialCost
from jaxhamel.control._problem._scalar_costs import RunningCost as RunningCost

# isort: split
# Phases
from jaxhamel.control._phases._phases import Phase as Phase
from jaxhamel.control._phases._phases import phases as phases
from jaxhamel.control._phases._phases import phases_of as phases_of

# isort: split
# IPOPT
from jaxhamel.control._ipopt._ipopt import Ipopt as Ipopt

# isort: split
# Pontryagin's conditions
from jaxhamel.control._indirect._continuation import ExtremalBranch as ExtremalBranch
from jaxhamel.control._indirect._continuation import continuation as continuation
from jaxhamel.control._indirect._indirect import Indirect as Indirect

# isort: split
# Problems, methods, results
from jaxhamel._search._loop import Progress as Progress
from jaxhamel.control._families._family import Family as Family
from jaxhamel.control._families._family_progress import FamilyProgress as FamilyProgress
from jaxhamel.control._methods._gradient_descent import GradientDescent as GradientDescent
from jaxhamel.control._methods._multiple_shooting import MultipleShooting as MultipleShooting
from jaxhamel.control._methods._single_shooting import SingleShooting as SingleShooting
from jaxhamel.control._methods._single_shooting import residual as residual
from jaxhamel.control._problem._problem import ControlProblem as ControlProblem
from jaxhamel.control._problem._problem import TrackingProblem as TrackingProblem
from jaxhamel.control._result import Certificate as Certificate
from jaxhamel.control._result import Result as Result
from jaxhamel.control._result import replay as replay
from jaxhamel.control._solve import perturbed_starts as perturbed_starts
from jaxhamel.control._solve import solve as solve
from jaxhamel.control._solve import solve_family as solve_family
from jaxhamel.control._solve import solve_many as solve_many

# isort: split
# Gaits
from jaxhamel.control._gaits._gait import GaitProblem as GaitProblem
from jaxhamel.control._gaits._gait import GaitResult as GaitResult
from jaxhamel.control._gaits._gait import elliptic_gait as elliptic_gait
from jaxhamel.control._gaits._gait import optimise_gait as optimise_gait
from jaxhamel.control._gaits._gait_motion import gait_displacement as gait_displacement
from jaxhamel.control._gaits._gait_motion import gait_motion as gait_motion

# isort: split
# Closed loops
from jaxhamel.control._loop._closed_loop import closed_loop as closed_loop
from jaxhamel.control._loop._estimators._kalman import Belief as Belief
from jaxhamel.control._loop._estimators._kalman import KalmanFilter as KalmanFilter
from jaxhamel.control._loop._estimators._moving_horizon import (
    MovingHorizonEstimator as MovingHorizonEstimator,
)
from jaxhamel.control._loop._estimators._moving_horizon import MovingWindow as MovingWindow
from jaxhamel.control._loop._on_time import OnTime as OnTime
from jaxhamel.control._loop._plan import MotionPlan as MotionPlan
from jaxhamel.control._loop._plan import plan_of as plan_of
from jaxhamel.control._loop._receding_horizon import HorizonMemory as HorizonMemory
from jaxhamel.control._loop._receding_horizon import RecedingHorizon as RecedingHorizon
from jaxhamel.control._loop._region import Region as Region
from jaxhamel.control._loop._region import region as region
from jaxhamel.control._loop._regulator import Regulator as Regulator
from jaxhamel.control._loop._regulator import regulate as regulate
from jaxhamel.control._loop._sampled import Held as Held
from jaxhamel.control._loop._sampled import Sampled as Sampled
from jaxhamel.control._loop._sampled import Sensors as Sensors
from jaxhamel.control._loop._stability._growth import LoopGrowth as LoopGrowth
from jaxhamel.control._loop._stability._growth import loop_growth as loop_growth
from jaxhamel.control._loop._stability._loop_stability import LoopStability as LoopStability
from jaxhamel.control._loop._stability._loop_stability import loop_stability as loop_stability
from jaxhamel.control._loop._stability._multipliers import loop_multipliers as loop_multipliers
from jaxhamel.control._loop._state_sensors import StateSensors as StateSensors
from jaxhamel.control._loop._train import Training as Training
from jaxhamel.control._loop._train import tail_mean as tail_mean
from jaxhamel.control._loop._train import train as train

# isort: split
# The built-in problems
from jaxhamel.control import problems as problems
from jaxhamel.control._built_in._parts import ConditionsAtEnd as ConditionsAtEnd
from jaxhamel.control._figure_eight import figure_eight as figure_eight
from jaxhamel.control._figure_eight import figure_eight_ball as figure_eight_ball
from jaxhamel.control._figure_eight import figure_eight_method as figure_eight_method
from jaxhamel.control._figure_eight import figure_eight_solution as figure_eight_solution
from jaxhamel.control._figure_eight import rolling_along as rolling_along
