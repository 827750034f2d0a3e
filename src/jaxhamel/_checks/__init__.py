"""Every check of what a user passes: the message names the argument, what it got, what it accepts
and what to do.

Values are checked where they are concrete, at the boundary (construction, the call of `simulate`),
never inside a right-hand side, where one check by value costs a factor of three in time.
"""

from jaxhamel._checks._bodies import check_added_mass as check_added_mass
from jaxhamel._checks._bodies import check_frame_axis as check_frame_axis
from jaxhamel._checks._bodies import check_inertia as check_inertia
from jaxhamel._checks._bodies import check_inertias as check_inertias
from jaxhamel._checks._bodies import check_pendula as check_pendula
from jaxhamel._checks._bodies import check_rails as check_rails
from jaxhamel._checks._bodies import check_rotors as check_rotors
from jaxhamel._checks._control import check_control_problem as check_control_problem
from jaxhamel._checks._control import check_fourier as check_fourier
from jaxhamel._checks._control import check_limits as check_limits
from jaxhamel._checks._control import check_method as check_method
from jaxhamel._checks._control import check_optimiser as check_optimiser
from jaxhamel._checks._control import check_ramp as check_ramp
from jaxhamel._checks._control import check_samples as check_samples
from jaxhamel._checks._control import check_samples_per_interval as check_samples_per_interval
from jaxhamel._checks._control import check_shooting as check_shooting
from jaxhamel._checks._control import check_spline as check_spline
from jaxhamel._checks._ensemble import check_batch as check_batch
from jaxhamel._checks._ensemble import check_trajectories as check_trajectories
from jaxhamel._checks._gaits import check_gait_problem as check_gait_problem
from jaxhamel._checks._gaits import check_mechanism as check_mechanism
from jaxhamel._checks._pictures import check_frames as check_frames
from jaxhamel._checks._simulation import check_adjoint as check_adjoint
from jaxhamel._checks._simulation import check_control_along as check_control_along
from jaxhamel._checks._simulation import check_dense as check_dense
from jaxhamel._checks._simulation import check_lie_group as check_lie_group
from jaxhamel._checks._simulation import check_lie_group_state as check_lie_group_state
from jaxhamel._checks._simulation import check_options as check_options
from jaxhamel._checks._simulation import check_simulation as check_simulation
from jaxhamel._checks._simulation import check_steps as check_steps
from jaxhamel._checks._simulation import check_times as check_times
from jaxhamel._checks._spaces import check_coordinates as check_coordinates
from jaxhamel._checks._spaces import check_dimension as check_dimension
from jaxhamel._checks._spaces import check_frame_matrix as check_frame_matrix
from jaxhamel._checks._spaces import check_generators as check_generators
from jaxhamel._checks._spaces import check_independent_rows as check_independent_rows
from jaxhamel._checks._spaces import check_regular as check_regular
from jaxhamel._checks._spaces import check_space_kind as check_space_kind
from jaxhamel._checks._spaces import check_spaces as check_spaces
from jaxhamel._checks._spaces import check_tuple as check_tuple
from jaxhamel._checks._spaces import check_unit_quaternion as check_unit_quaternion
from jaxhamel._checks._systems import check_bundle as check_bundle
from jaxhamel._checks._systems import check_constraint_count as check_constraint_count
from jaxhamel._checks._systems import check_control_value as check_control_value
from jaxhamel._checks._systems import check_frame_at as check_frame_at
from jaxhamel._checks._systems import check_route as check_route
from jaxhamel._checks._systems import check_same_metric as check_same_metric
from jaxhamel._checks._systems import check_state as check_state
from jaxhamel._checks._values import check_arrays as check_arrays
from jaxhamel._checks._values import check_callable as check_callable
from jaxhamel._checks._values import check_choice as check_choice
from jaxhamel._checks._values import check_finite as check_finite
from jaxhamel._checks._values import check_last_axes as check_last_axes
from jaxhamel._checks._values import check_not_negative as check_not_negative
from jaxhamel._checks._values import check_perpendicular as check_perpendicular
from jaxhamel._checks._values import check_positive as check_positive
from jaxhamel._checks._values import check_shape as check_shape
from jaxhamel._checks._values import check_unit_vectors as check_unit_vectors
from jaxhamel._checks._values import check_vector as check_vector
from jaxhamel._checks._values import concrete as concrete
