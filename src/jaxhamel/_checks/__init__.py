"""Checks of the arguments that a user passes. A message names the argument, its value, the accepted values and the remedy.

Values are checked at the boundary of the package (when an object is built, when `simulate` is called), where they are known.
They are not checked inside a right-hand side, which a single check makes three times as slow.
"""

from jaxhamel._checks._arguments import check_budget as check_budget
from jaxhamel._checks._arguments import check_called_with as check_called_with
from jaxhamel._checks._arguments import check_count as check_count
from jaxhamel._checks._arguments import check_kind as check_kind
from jaxhamel._checks._arguments import check_number as check_number
from jaxhamel._checks._arguments import check_outside as check_outside
from jaxhamel._checks._arguments import check_positive_number as check_positive_number
from jaxhamel._checks._arguments import check_progress as check_progress
from jaxhamel._checks._arguments import check_random_key as check_random_key
from jaxhamel._checks._arguments import check_solver as check_solver
from jaxhamel._checks._arguments import check_start as check_start
from jaxhamel._checks._arguments import check_starts as check_starts
from jaxhamel._checks._arguments import each_of as each_of
from jaxhamel._checks._arguments import is_least_squares as is_least_squares
from jaxhamel._checks._axes import check_axis_kinds as check_axis_kinds
from jaxhamel._checks._axes import check_batch as check_batch
from jaxhamel._checks._axes import check_size as check_size
from jaxhamel._checks._axes import wrong_axes as wrong_axes
from jaxhamel._checks._times import check_control_along as check_control_along
from jaxhamel._checks._times import check_steps as check_steps
from jaxhamel._checks._times import check_time_array as check_time_array
from jaxhamel._checks._times import check_times as check_times
from jaxhamel._checks._times import first_time as first_time
from jaxhamel._checks._values import any_tracer as any_tracer
from jaxhamel._checks._values import check_arguments as check_arguments
from jaxhamel._checks._values import check_arrays as check_arrays
from jaxhamel._checks._values import check_callable as check_callable
from jaxhamel._checks._values import check_choice as check_choice
from jaxhamel._checks._values import check_constant_control as check_constant_control
from jaxhamel._checks._values import check_finite as check_finite
from jaxhamel._checks._values import check_last_axes as check_last_axes
from jaxhamel._checks._values import check_not_negative as check_not_negative
from jaxhamel._checks._values import check_not_ragged as check_not_ragged
from jaxhamel._checks._values import check_numbers as check_numbers
from jaxhamel._checks._values import check_one_array as check_one_array
from jaxhamel._checks._values import check_one_time as check_one_time
from jaxhamel._checks._values import check_perpendicular as check_perpendicular
from jaxhamel._checks._values import check_positive as check_positive
from jaxhamel._checks._values import check_real as check_real
from jaxhamel._checks._values import check_shape as check_shape
from jaxhamel._checks._values import check_unit_vectors as check_unit_vectors
from jaxhamel._checks._values import check_vector as check_vector
from jaxhamel._checks._values import check_velocity as check_velocity
from jaxhamel._checks._values import check_zero as check_zero
from jaxhamel._checks._values import computed as computed
from jaxhamel._checks._values import concrete as concrete
