"""Ensembles: many short integrations at once, and Monte Carlo studies of them."""

from jaxhamel._lanes._transform import lanes as lanes
from jaxhamel._lanes._xla_cpu._jit import jit as jit
from jaxhamel.ensemble._equal_steps._kernel_options import Kernel as Kernel
from jaxhamel.ensemble._integrate import integrate as integrate
from jaxhamel.ensemble._rollout import rollout as rollout
from jaxhamel.ensemble._simulate import simulate as simulate
from jaxhamel.ensemble._study._distributions import Distribution as Distribution
from jaxhamel.ensemble._study._monte_carlo import monte_carlo as monte_carlo
from jaxhamel.ensemble._study._sampling import Samples as Samples
from jaxhamel.ensemble._study._sensitivity import Sensitivity as Sensitivity
from jaxhamel.ensemble._study._sensitivity import derivative_bounds as derivative_bounds
from jaxhamel.ensemble._study._sensitivity import sobol_indices as sobol_indices
from jaxhamel.ensemble._study._study import Study as Study
