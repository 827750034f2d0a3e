"""Named systems: one body per file, with its parameters, invariants, known solutions, source."""

from jaxhamel.systems._actuated_disk import ActuatedDisk as ActuatedDisk
from jaxhamel.systems._ball_on_turntable import BallOnTurntable as BallOnTurntable
from jaxhamel.systems._chaplygin_sleigh import ChaplyginSleigh as ChaplyginSleigh
from jaxhamel.systems._chaplygin_sphere import ChaplyginSphere as ChaplyginSphere
from jaxhamel.systems._coupled_snakeboard import CoupledSnakeboard as CoupledSnakeboard
from jaxhamel.systems._free_rigid_body import FreeRigidBody as FreeRigidBody
from jaxhamel.systems._heavy_top import HeavyTop as HeavyTop
from jaxhamel.systems._knife_edge import KnifeEdge as KnifeEdge
from jaxhamel.systems._non_spinning_ball import NonSpinningBall as NonSpinningBall
from jaxhamel.systems._pendulum_in_stand import PendulumInStand as PendulumInStand
from jaxhamel.systems._rails import CircularRails as CircularRails
from jaxhamel.systems._rails import EllipticRails as EllipticRails
from jaxhamel.systems._rails import FigureEightRails as FigureEightRails
from jaxhamel.systems._rails import MixedRails as MixedRails
from jaxhamel.systems._rails import StraightRails as StraightRails
from jaxhamel.systems._rattleback import Rattleback as Rattleback
from jaxhamel.systems._rolling_ball import RollingBall as RollingBall
from jaxhamel.systems._rolling_disk import RollingDisk as RollingDisk
from jaxhamel.systems._rolling_pendulum_ball import RollingPendulumBall as RollingPendulumBall
from jaxhamel.systems._rolling_rotor_ball import RollingRotorBall as RollingRotorBall
from jaxhamel.systems._snakeboard import Snakeboard as Snakeboard
from jaxhamel.systems._soft_rolling_pendulum import SoftRollingPendulum as SoftRollingPendulum
from jaxhamel.systems._space_robot import SpaceRobot as SpaceRobot
from jaxhamel.systems._suslov import Suslov as Suslov
from jaxhamel.systems._underwater_body import UnderwaterBody as UnderwaterBody
