"""What a system does with a number given as a parameter."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float


def as_parameter(value: ArrayLike) -> Any:
    """A number or array as a floating-point JAX array: a leaf that can be differentiated.

    Python numbers and integers get JAX's default precision, single or double as `jax_enable_x64`
    says; arrays keep the precision they have as far as that allows. Never weakly typed: a number
    from Python and one from an optimiser have the same type, and compile once. None and callables
    (a parameter that depends on time) stay as they are, and so does what is no number: the system's checks name it.
    """
    if value is None or callable(value) or isinstance(value, str | bytes | complex):
        return value
    kind = getattr(value, "dtype", None)
    if kind is not None and jnp.issubdtype(kind, jnp.complexfloating):
        return value
    if kind is None or not jnp.issubdtype(kind, jnp.floating):
        kind = jnp.result_type(float)
    return jnp.asarray(value, dtype=jax.dtypes.canonicalize_dtype(kind))


def parameter(**options: Any) -> Any:
    """A field that is a parameter, see `as_parameter`; options as for a dataclass field."""
    return eqx.field(converter=as_parameter, **options)


def inertia_matrix(inertia: Array) -> Float[Array, "3 3"]:
    """The inertia as a matrix, from three principal moments or from the matrix itself.

    Only its symmetric part enters, as in ½ Ω·I Ω, so that the derivative with respect to a given
    matrix is symmetric by every route to the equations of motion.
    """
    return jnp.diag(inertia) if inertia.ndim == 1 else 0.5 * (inertia + inertia.T)
