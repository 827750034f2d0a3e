"""Configuration spaces, frames and their Hamel coefficients: no time, no Lagrangian."""

# Spaces
from jaxhamel.geometry._euclidean import Euclidean as Euclidean
from jaxhamel.geometry._helical import Helical as Helical
from jaxhamel.geometry._matrix_group import MatrixGroup as MatrixGroup
from jaxhamel.geometry._product import Product as Product
from jaxhamel.geometry._schoenflies import Schoenflies as Schoenflies
from jaxhamel.geometry._se2 import SE2 as SE2
from jaxhamel.geometry._se3 import SE3 as SE3
from jaxhamel.geometry._selection import selection_matrix as selection_matrix
from jaxhamel.geometry._so2 import SO2 as SO2
from jaxhamel.geometry._so3 import SO3 as SO3
from jaxhamel.geometry._space import AbstractSpace as AbstractSpace

# isort: split
# Frames of quasi-velocities
from jaxhamel.geometry._completed_frame import completed_frame as completed_frame
from jaxhamel.geometry._completed_frame import differential as differential
from jaxhamel.geometry._hamel import hamel_coefficients as hamel_coefficients
from jaxhamel.geometry._hamel import hamel_contraction as hamel_contraction
from jaxhamel.geometry._twist_frames import body_frame as body_frame
from jaxhamel.geometry._twist_frames import euler_frame as euler_frame
from jaxhamel.geometry._twist_frames import hybrid_frame as hybrid_frame
from jaxhamel.geometry._twist_frames import mixed_frame as mixed_frame
from jaxhamel.geometry._twist_frames import spatial_frame as spatial_frame

# isort: split
# Distributions of allowed velocities
from jaxhamel.geometry._distribution import Distribution as Distribution
from jaxhamel.geometry._distribution import distribution as distribution
from jaxhamel.geometry._distribution import frobenius as frobenius
from jaxhamel.geometry._distribution import lie_bracket as lie_bracket

# isort: split
# Connections: constraints along the fibre of a bundle
from jaxhamel.geometry._connection import bundle_curvature as bundle_curvature
from jaxhamel.geometry._connection import bundle_frame as bundle_frame
from jaxhamel.geometry._connection import curvature as curvature
from jaxhamel.geometry._connection import fibre_velocity as fibre_velocity
from jaxhamel.geometry._connection import kinematic_connection as kinematic_connection
from jaxhamel.geometry._connection import principal_frame as principal_frame
from jaxhamel.geometry._phase import geometric_phase as geometric_phase
from jaxhamel.geometry._phase import group_motion as group_motion
from jaxhamel.geometry._phase import loop_area as loop_area
from jaxhamel.geometry._phase import reconstruct as reconstruct
from jaxhamel.geometry._phase import small_loop_phase as small_loop_phase

# isort: split
# Surfaces in space
from jaxhamel.geometry._surface import principal_curvatures as principal_curvatures
from jaxhamel.geometry._surface import surface_axes as surface_axes
from jaxhamel.geometry._surface import surface_point as surface_point

# isort: split
# Quaternions and vectors of three
from jaxhamel.geometry._quaternion import cross as cross
from jaxhamel.geometry._quaternion import hat as hat
from jaxhamel.geometry._quaternion import quaternion_conjugate as quaternion_conjugate
from jaxhamel.geometry._quaternion import quaternion_matrix as quaternion_matrix
from jaxhamel.geometry._quaternion import quaternion_multiply as quaternion_multiply
from jaxhamel.geometry._quaternion import quaternion_normalise as quaternion_normalise
from jaxhamel.geometry._quaternion import quaternion_rate as quaternion_rate
from jaxhamel.geometry._quaternion import quaternion_rotate as quaternion_rotate
from jaxhamel.geometry._quaternion import quaternion_velocity as quaternion_velocity

# isort: split
# Order of twists
from jaxhamel.geometry._twist_frames import angular_first as angular_first
from jaxhamel.geometry._twist_frames import angular_first_matrix as angular_first_matrix
from jaxhamel.geometry._twist_frames import linear_first as linear_first
from jaxhamel.geometry._twist_frames import linear_first_matrix as linear_first_matrix
