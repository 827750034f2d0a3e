"""The built-in problems of optimal control, each with a known optimum: docs/optimal_control_problems.md."""

from jaxhamel.control._built_in._ball_design import ball_design as ball_design
from jaxhamel.control._built_in._balls import ball_obstacle as ball_obstacle
from jaxhamel.control._built_in._balls import ball_to_point as ball_to_point
from jaxhamel.control._built_in._balls import pendulum_ball_to_point as pendulum_ball_to_point
from jaxhamel.control._built_in._planar import cart_pole as cart_pole
from jaxhamel.control._built_in._planar import disk_obstacle as disk_obstacle
from jaxhamel.control._built_in._planar import disk_to_point as disk_to_point
from jaxhamel.control._built_in._planar import sleigh_park as sleigh_park
from jaxhamel.control._built_in._planar import snakeboard_park as snakeboard_park
from jaxhamel.control._built_in._planar import unicycle_sideways as unicycle_sideways
from jaxhamel.control._built_in._turning import falling_cat as falling_cat
from jaxhamel.control._built_in._turning import plate_ball as plate_ball
from jaxhamel.control._built_in._turning import satellite_turn as satellite_turn
from jaxhamel.systems import CartPole as CartPole
from jaxhamel.systems import FallingCat as FallingCat
from jaxhamel.systems import TwoWheelSatellite as TwoWheelSatellite
