"""Checks of the arguments that a user passes. A message names the argument, its value, the accepted values and the remedy.

Values are checked where they are concrete, at the boundary of the package (construction, the call of `simulate`), never
inside a right-hand side, where one check of a value costs a factor of three in time.
"""

from jaxhamel._checks._control import check_control_problem as check_control_problem
from jaxhamel._checks._control import check_curve as check_curve
from jaxhamel._checks._control import check_descent as check_descent
from jaxhamel._checks._control import check_fourier as check_fourier
from jaxhamel._checks._control import check_has_contact as check_has_contact
from jaxhamel._checks._control import check_least_squares as check_least_squares
from jaxhamel._checks._control import check_limits as check_limits
from jaxhamel._checks._control import check_method as check_method
from jaxhamel._checks._control import check_optimiser as check_optimiser
from jaxhamel._checks._control import check_ramp as check_ramp
from jaxhamel._checks._control import check_samples as check_samples
from jaxhamel._checks._control import check_shooting as check_shooting
from jaxhamel._checks._control import check_some_given as check_some_given
from jaxhamel._checks._control import check_spline as check_spline
from jaxhamel._checks._control import check_spline_size as check_spline_size
from jaxhamel._checks._control import check_target as check_target
from jaxhamel._checks._control import check_terms as check_terms
from jaxhamel._checks._control import check_weight as check_weight
from jaxhamel._checks._ensembles._axes import check_axis_kinds as check_axis_kinds
from jaxhamel._checks._ensembles._axes import check_batch as check_batch
from jaxhamel._checks._ensembles._axes import wrong_axes as wrong_axes
from jaxhamel._checks._ensembles._ensemble import check_embedded_pair as check_embedded_pair
from jaxhamel._checks._ensembles._ensemble import check_explicit_method as check_explicit_method
from jaxhamel._checks._ensembles._ensemble import check_initial_values as check_initial_values
from jaxhamel._checks._ensembles._ensemble import check_kernel as check_kernel
from jaxhamel._checks._ensembles._ensemble import check_rollout_times as check_rollout_times
from jaxhamel._checks._ensembles._ensemble import check_slope as check_slope
from jaxhamel._checks._ensembles._ensemble import check_trajectories as check_trajectories
from jaxhamel._checks._ensembles._ensemble import wrong_member as wrong_member
from jaxhamel._checks._ensembles._quantities import check_accuracy as check_accuracy
from jaxhamel._checks._ensembles._quantities import check_aux as check_aux
from jaxhamel._checks._ensembles._quantities import check_base_samples as check_base_samples
from jaxhamel._checks._ensembles._quantities import check_left_over as check_left_over
from jaxhamel._checks._ensembles._quantities import check_quantities as check_quantities
from jaxhamel._checks._ensembles._quantities import check_slopes as check_slopes
from jaxhamel._checks._ensembles._run_folder import another_program as another_program
from jaxhamel._checks._ensembles._run_folder import begun_elsewhere as begun_elsewhere
from jaxhamel._checks._ensembles._run_folder import check_about as check_about
from jaxhamel._checks._ensembles._run_folder import check_folder as check_folder
from jaxhamel._checks._ensembles._run_folder import check_installed as check_installed
from jaxhamel._checks._ensembles._run_folder import (
    check_no_foreign_folder as check_no_foreign_folder,
)
from jaxhamel._checks._ensembles._run_folder import check_no_links as check_no_links
from jaxhamel._checks._ensembles._run_folder import check_same_run as check_same_run
from jaxhamel._checks._ensembles._run_folder import foreign_folder_error as foreign_folder_error
from jaxhamel._checks._ensembles._run_folder import only_writer as only_writer
from jaxhamel._checks._ensembles._run_folder import other_numbers as other_numbers
from jaxhamel._checks._ensembles._run_folder import writing as writing
from jaxhamel._checks._ensembles._sampling import check_distribution as check_distribution
from jaxhamel._checks._ensembles._sampling import check_index as check_index
from jaxhamel._checks._ensembles._sampling import check_model as check_model
from jaxhamel._checks._ensembles._sampling import check_room as check_room
from jaxhamel._checks._ensembles._sampling import check_sampling as check_sampling
from jaxhamel._checks._ensembles._sampling import check_whole as check_whole
from jaxhamel._checks._ensembles._sampling import drawn_badly as drawn_badly
from jaxhamel._checks._ensembles._sampling import refuses as refuses
from jaxhamel._checks._experiments import check_criterion as check_criterion
from jaxhamel._checks._experiments import check_for_posterior as check_for_posterior
from jaxhamel._checks._experiments import check_informative as check_informative
from jaxhamel._checks._experiments import check_noise_given as check_noise_given
from jaxhamel._checks._experiments import check_planned as check_planned
from jaxhamel._checks._feedback import check_feedback_value as check_feedback_value
from jaxhamel._checks._feedback import check_moving_parts as check_moving_parts
from jaxhamel._checks._feedback import check_of_state as check_of_state
from jaxhamel._checks._feedback import check_of_time as check_of_time
from jaxhamel._checks._feedback import check_takes_feedback as check_takes_feedback
from jaxhamel._checks._fits import check_budget as check_budget
from jaxhamel._checks._fits import check_count as check_count
from jaxhamel._checks._fits import check_kind as check_kind
from jaxhamel._checks._fits import check_outside as check_outside
from jaxhamel._checks._fits import check_progress as check_progress
from jaxhamel._checks._fits import check_seconds as check_seconds
from jaxhamel._checks._fits import check_solver as check_solver
from jaxhamel._checks._fits import check_start as check_start
from jaxhamel._checks._fits import check_starts as check_starts
from jaxhamel._checks._fits import each_of as each_of
from jaxhamel._checks._fits import is_least_squares as is_least_squares
from jaxhamel._checks._gaits import check_gait_problem as check_gait_problem
from jaxhamel._checks._gaits import check_mechanism as check_mechanism
from jaxhamel._checks._identify import check_entries as check_entries
from jaxhamel._checks._identify import check_first_seconds as check_first_seconds
from jaxhamel._checks._identify import check_guess as check_guess
from jaxhamel._checks._identify import check_identified as check_identified
from jaxhamel._checks._identify import check_loss as check_loss
from jaxhamel._checks._identify import check_measured as check_measured
from jaxhamel._checks._identify import check_noise as check_noise
from jaxhamel._checks._identify import check_rolling_runs as check_rolling_runs
from jaxhamel._checks._identify import check_run as check_run
from jaxhamel._checks._identify import check_same_structure as check_same_structure
from jaxhamel._checks._identify import check_segments as check_segments
from jaxhamel._checks._identify import check_shown as check_shown
from jaxhamel._checks._identify import check_values as check_values
from jaxhamel._checks._identify import check_width as check_width
from jaxhamel._checks._parameters import check_frozen as check_frozen
from jaxhamel._checks._parameters import check_frozen_names as check_frozen_names
from jaxhamel._checks._parameters import check_inside as check_inside
from jaxhamel._checks._parameters import check_parameters as check_parameters
from jaxhamel._checks._parameters import check_path as check_path
from jaxhamel._checks._parameters import check_prior as check_prior
from jaxhamel._checks._parameters import check_prior_fits as check_prior_fits
from jaxhamel._checks._parameters import check_realisable as check_realisable
from jaxhamel._checks._pictures import check_frames as check_frames
from jaxhamel._checks._pictures import check_gait_curve as check_gait_curve
from jaxhamel._checks._pictures import check_names as check_names
from jaxhamel._checks._pictures import check_planar_path as check_planar_path
from jaxhamel._checks._pictures import check_shape_plane as check_shape_plane
from jaxhamel._checks._simulation import check_adjoint as check_adjoint
from jaxhamel._checks._simulation import check_control_along as check_control_along
from jaxhamel._checks._simulation import check_dense as check_dense
from jaxhamel._checks._simulation import check_event as check_event
from jaxhamel._checks._simulation import check_event_value as check_event_value
from jaxhamel._checks._simulation import check_fixed_step as check_fixed_step
from jaxhamel._checks._simulation import check_group_solver_state as check_group_solver_state
from jaxhamel._checks._simulation import check_group_state as check_group_state
from jaxhamel._checks._simulation import check_lie_group as check_lie_group
from jaxhamel._checks._simulation import check_options as check_options
from jaxhamel._checks._simulation import check_projected as check_projected
from jaxhamel._checks._simulation import check_simulation as check_simulation
from jaxhamel._checks._simulation import check_solver_space as check_solver_space
from jaxhamel._checks._simulation import check_steps as check_steps
from jaxhamel._checks._simulation import check_times as check_times
from jaxhamel._checks._simulation import check_variational_args as check_variational_args
from jaxhamel._checks._simulation import check_variational_order as check_variational_order
from jaxhamel._checks._simulation import first_time as first_time
from jaxhamel._checks._systems._bodies import check_added_mass as check_added_mass
from jaxhamel._checks._systems._bodies import check_axisymmetric as check_axisymmetric
from jaxhamel._checks._systems._bodies import check_frame_axis as check_frame_axis
from jaxhamel._checks._systems._bodies import check_inertia as check_inertia
from jaxhamel._checks._systems._bodies import check_inertias as check_inertias
from jaxhamel._checks._systems._bodies import check_pendula as check_pendula
from jaxhamel._checks._systems._bodies import check_rails as check_rails
from jaxhamel._checks._systems._bodies import check_rotors as check_rotors
from jaxhamel._checks._systems._constraints import check_closed as check_closed
from jaxhamel._checks._systems._constraints import (
    check_constraints_shape as check_constraints_shape,
)
from jaxhamel._checks._systems._constraints import check_has_loops as check_has_loops
from jaxhamel._checks._systems._constraints import check_loop_rates as check_loop_rates
from jaxhamel._checks._systems._constraints import check_loop_shape as check_loop_shape
from jaxhamel._checks._systems._constraints import check_metric as check_metric
from jaxhamel._checks._systems._constraints import check_project as check_project
from jaxhamel._checks._systems._constraints import check_span as check_span
from jaxhamel._checks._systems._equilibria import check_autonomous as check_autonomous
from jaxhamel._checks._systems._equilibria import check_commutes as check_commutes
from jaxhamel._checks._systems._equilibria import (
    check_curve_of_solutions as check_curve_of_solutions,
)
from jaxhamel._checks._systems._equilibria import check_found as check_found
from jaxhamel._checks._systems._equilibria import check_indices as check_indices
from jaxhamel._checks._systems._hypotheses import check_hypotheses as check_hypotheses
from jaxhamel._checks._systems._hypotheses import (
    check_no_prescribed_motion as check_no_prescribed_motion,
)
from jaxhamel._checks._systems._hypotheses import check_reducible as check_reducible
from jaxhamel._checks._systems._returns import check_returns as check_returns
from jaxhamel._checks._systems._returns import returns_of as returns_of
from jaxhamel._checks._systems._spaces import check_components as check_components
from jaxhamel._checks._systems._spaces import check_coordinates as check_coordinates
from jaxhamel._checks._systems._spaces import check_dimension as check_dimension
from jaxhamel._checks._systems._spaces import check_frame_matrix as check_frame_matrix
from jaxhamel._checks._systems._spaces import check_generators as check_generators
from jaxhamel._checks._systems._spaces import check_independent_rows as check_independent_rows
from jaxhamel._checks._systems._spaces import check_loop as check_loop
from jaxhamel._checks._systems._spaces import check_regular as check_regular
from jaxhamel._checks._systems._spaces import check_space_kind as check_space_kind
from jaxhamel._checks._systems._spaces import check_spaces as check_spaces
from jaxhamel._checks._systems._spaces import check_tuple as check_tuple
from jaxhamel._checks._systems._spaces import check_unit_quaternion as check_unit_quaternion
from jaxhamel._checks._systems._system import check_a_system as check_a_system
from jaxhamel._checks._systems._system import check_bodies as check_bodies
from jaxhamel._checks._systems._system import check_bundle as check_bundle
from jaxhamel._checks._systems._system import check_constraint_count as check_constraint_count
from jaxhamel._checks._systems._system import check_control_of as check_control_of
from jaxhamel._checks._systems._system import check_control_value as check_control_value
from jaxhamel._checks._systems._system import check_examined as check_examined
from jaxhamel._checks._systems._system import check_frame_at as check_frame_at
from jaxhamel._checks._systems._system import (
    check_invariant_constraints as check_invariant_constraints,
)
from jaxhamel._checks._systems._system import check_inverse as check_inverse
from jaxhamel._checks._systems._system import check_leaves as check_leaves
from jaxhamel._checks._systems._system import check_mass_matrix as check_mass_matrix
from jaxhamel._checks._systems._system import check_motion_given as check_motion_given
from jaxhamel._checks._systems._system import check_order as check_order
from jaxhamel._checks._systems._system import check_own_equations as check_own_equations
from jaxhamel._checks._systems._system import check_rigid_inertia as check_rigid_inertia
from jaxhamel._checks._systems._system import check_rigid_motions as check_rigid_motions
from jaxhamel._checks._systems._system import check_route as check_route
from jaxhamel._checks._systems._system import check_same_metric as check_same_metric
from jaxhamel._checks._systems._system import check_state as check_state
from jaxhamel._checks._systems._system import check_takes_control as check_takes_control
from jaxhamel._checks._values import any_tracer as any_tracer
from jaxhamel._checks._values import check_arguments as check_arguments
from jaxhamel._checks._values import check_arrays as check_arrays
from jaxhamel._checks._values import check_callable as check_callable
from jaxhamel._checks._values import check_choice as check_choice
from jaxhamel._checks._values import check_constant_control as check_constant_control
from jaxhamel._checks._values import check_finite as check_finite
from jaxhamel._checks._values import check_last_axes as check_last_axes
from jaxhamel._checks._values import check_not_negative as check_not_negative
from jaxhamel._checks._values import check_numbers as check_numbers
from jaxhamel._checks._values import check_perpendicular as check_perpendicular
from jaxhamel._checks._values import check_positive as check_positive
from jaxhamel._checks._values import check_shape as check_shape
from jaxhamel._checks._values import check_unit_vectors as check_unit_vectors
from jaxhamel._checks._values import check_vector as check_vector
from jaxhamel._checks._values import check_velocity as check_velocity
from jaxhamel._checks._values import check_zero as check_zero
from jaxhamel._checks._values import concrete as concrete
