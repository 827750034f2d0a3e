"""Declarations of the parameters of systems, and the inertia as a matrix."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel.mechanics._description._parameters import INERTIA as INERTIA
from jaxhamel.mechanics._description._parameters import as_parameter as as_parameter
from jaxhamel.mechanics._description._parameters import choice as choice
from jaxhamel.mechanics._description._parameters import parameter as parameter


def inertia_matrix(inertia: Array) -> Float[Array, "3 3"]:
    """The inertia as a matrix, from three principal moments or from the matrix itself.

    Only its symmetric part enters, as in ½ Ω·I Ω, so that the derivative with respect to a given
    matrix is symmetric by every route to the equations of motion.
    """
    return jnp.diag(inertia) if inertia.ndim == 1 else 0.5 * (inertia + inertia.T)
