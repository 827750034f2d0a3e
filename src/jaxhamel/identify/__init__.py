"""Identification: parameters of a system from measured motion, with their uncertainty."""

# The problem
from jaxhamel.identify._data._runs import Run as Run
from jaxhamel.identify._problem import Problem as Problem

# isort: split
# Priors on each run's own initial state, and the clock of its time stamps
from jaxhamel.identify._data._clock import steady_clock as steady_clock
from jaxhamel.identify._parameters._state_prior import StatePrior as StatePrior

# isort: split
# Parameters
from jaxhamel.identify._parameters._bodies import BodyInertia as BodyInertia
from jaxhamel.identify._parameters._bodies import RotationalInertia as RotationalInertia
from jaxhamel.identify._parameters._inertia import from_log_cholesky as from_log_cholesky
from jaxhamel.identify._parameters._inertia import log_cholesky as log_cholesky
from jaxhamel.identify._parameters._inertia import pseudo_inertia as pseudo_inertia
from jaxhamel.identify._parameters._parameters import AbstractParameter as AbstractParameter
from jaxhamel.identify._parameters._parameters import Bounded as Bounded
from jaxhamel.identify._parameters._parameters import Free as Free
from jaxhamel.identify._parameters._parameters import Positive as Positive
from jaxhamel.identify._parameters._parameters import Prior as Prior
from jaxhamel.identify._parameters._paths import leaf_paths as leaf_paths

# isort: split
# Measurements
from jaxhamel.identify._data._inertial_sensors import Accelerometer as Accelerometer
from jaxhamel.identify._data._inertial_sensors import AngularRate as AngularRate
from jaxhamel.identify._data._measurements import AbstractMeasurement as AbstractMeasurement
from jaxhamel.identify._data._measurements import Coordinate as Coordinate
from jaxhamel.identify._data._measurements import Measured as Measured
from jaxhamel.identify._data._measurements import Orientation as Orientation
from jaxhamel.identify._data._measurements import Position as Position

# isort: split
# Losses
from jaxhamel.identify._linearised._losses import AbstractLoss as AbstractLoss
from jaxhamel.identify._linearised._losses import Cauchy as Cauchy
from jaxhamel.identify._linearised._losses import Huber as Huber
from jaxhamel.identify._linearised._losses import SoftL1 as SoftL1
from jaxhamel.identify._linearised._losses import Squares as Squares

# isort: split
# Runs from files
from jaxhamel.identify._data._control_columns import ControlColumns as ControlColumns
from jaxhamel.identify._data._csv import DataError as DataError
from jaxhamel.identify._data._csv import read_csv as read_csv

# isort: split
# Fits
from jaxhamel.identify._estimate import Estimate as Estimate
from jaxhamel.identify._fit import fit as fit
from jaxhamel.identify._fit import fit_many as fit_many
from jaxhamel.identify._fit import perturbed_starts as perturbed_starts
from jaxhamel.identify._fit_stages import StagedEstimate as StagedEstimate
from jaxhamel.identify._fit_stages import fit_stages as fit_stages
from jaxhamel.identify._flat import Flat as Flat
from jaxhamel.identify._initial_values import initial_values as initial_values
from jaxhamel.identify._initial_values import prior_over_runs as prior_over_runs
from jaxhamel.identify._linearised._information import information as information
from jaxhamel.identify._predict import Prediction as Prediction
from jaxhamel.identify._predict import compared as compared
from jaxhamel.identify._predict import predict as predict
from jaxhamel.identify._predict import with_noise as with_noise
from jaxhamel.identify._progress import Progress as Progress

# isort: split
# Planning of experiments, and posterior distributions
from jaxhamel.identify._design import Design as Design
from jaxhamel.identify._design import Experiment as Experiment
from jaxhamel.identify._design import design as design
from jaxhamel.identify._posterior import Posterior as Posterior
from jaxhamel.identify._posterior import posterior as posterior
