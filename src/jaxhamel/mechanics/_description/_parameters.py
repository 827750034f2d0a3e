"""Parameters of a system as fields of its class, with their units and meaning, and the inertia as a matrix."""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel import _checks

FieldShape = tuple[int | str, ...]
INERTIA: tuple[FieldShape, ...] = ((3,), (3, 3))  # principal moments or the matrix


class FieldNotes(NamedTuple):
    """The description of a field given to `parameter`, stored in the field's metadata."""

    about: str = ""
    unit: str = ""
    shapes: tuple[FieldShape, ...] | None = None
    positive: bool = False
    least: float | None = None
    choices: tuple[str, ...] = ()
    example: Any = None
    none_as: Any = None


NOTES = "jaxhamel"  # the key of the notes among the field's metadata


def as_parameter(value: ArrayLike) -> Any:
    """A number or array as a floating-point JAX array, by which derivatives can be taken.

    Python numbers and integers get JAX's default precision (single, or double with `jax_enable_x64`); arrays keep their
    precision if possible. The result is never weakly typed, so that a Python number and an optimiser's number have the same
    type and share one compiled program. None and callables (a parameter that depends on time) are returned unchanged; so is
    any value that is no number, which the system's checks then report by name.
    """
    if value is None or callable(value) or isinstance(value, str | bytes | complex):
        return value
    kind = getattr(value, "dtype", None)
    if kind is not None and jnp.issubdtype(kind, jnp.complexfloating):
        return value
    if kind is None or not jnp.issubdtype(kind, jnp.floating):
        kind = jnp.result_type(float)
    try:
        return jnp.asarray(value, dtype=jax.dtypes.canonicalize_dtype(kind))
    except (TypeError, ValueError, OverflowError):
        return value


def with_array_leaves(tree: Any) -> Any:
    """The pytree, a system or a control, with an array in place of each Python float among its leaves.

    A compiled program takes an array as an argument; a Python number would be a constant of the program, and each new value
    would compile anew. The arrays are weakly typed, so that they take the dtype of the state, like Python numbers.
    """
    if not any(type(leaf) is float for leaf in jax.tree.leaves(tree)):
        return tree
    return jax.tree.map(lambda leaf: jnp.asarray(leaf) if type(leaf) is float else leaf, tree)


_WORDS = "it must be a text. The parameter's value is given as `default=`, or as `example=`."


def parameter(
    about: str = "",
    unit: str = "",
    shape: FieldShape | Sequence[FieldShape] | None = None,
    *,
    positive: bool = False,
    least: float | None = None,
    example: Any = None,
    none_as: Any = None,
    **options: Any,
) -> Any:
    """Declares a field of a system's class as a parameter; its numbers become a JAX array.

    ```python
    class Trolley(jaxhamel.System):
        mass: jax.Array = jaxhamel.parameter("of the trolley", "kg", (), positive=True, example=2.0)
    ```

    Scenario files, their documentation, tables and figures use this description. The bounds `positive` and `least` are
    checked only for scenarios; a class checks its own arguments in `__check_init__`.

    **Arguments:**

    - `about`: the meaning of the parameter, in words that complete "the mass:"; `unit`: its SI unit, such as "kg m²".
    - `shape`: the shape of its array: `()` for a number; an axis of any length is a string, `("n", 3)`. With a list of
      shapes any of them is accepted, with None every shape.
    - `positive`: whether every entry must be larger than 0; `least`: the smallest number accepted.
    - `example`: a value that makes a sensible system together with the examples of the other fields.
    - `none_as`: the value that stands for None in a scenario (TOML has no None), such as zeros for no force.
    - `**options`: options of a dataclass field: `default`, `kw_only`. A default may be a list, a dictionary or an array.

    **Returns:** an `equinox.field`.

    **Raises:** `TypeError` if `about` or `unit` is not a text, such as a default that is given first.
    """
    for name, text in (("about", about), ("unit", unit)):
        _checks.check_kind(name, text, str, _WORDS)
    several = bool(shape) and isinstance(shape[0], tuple)
    shapes: Any = tuple(shape or ()) if several else None if shape is None else (tuple(shape),)
    notes = FieldNotes(about, unit, shapes, positive, least, example=example, none_as=none_as)
    return eqx.field(converter=as_parameter, metadata={NOTES: notes}, **_copied_default(options))


def _copied_default(options: dict[str, Any]) -> dict[str, Any]:
    """The options with a copy of a mutable `default` for each new system: dataclasses refuse one that all would share."""
    if "default" not in options or type(options["default"]).__hash__ is not None:
        return options
    return {
        **{name: value for name, value in options.items() if name != "default"},
        "default_factory": partial(deepcopy, options["default"]),
    }


def choice(about: str, choices: Sequence[str], **options: Any) -> Any:
    """Declares a static field whose value is one of several words, such as the representation of a rigid body."""
    notes = FieldNotes(about, choices=tuple(choices))
    return eqx.field(static=True, metadata={NOTES: notes}, **options)


def inertia_matrix(inertia: Array) -> Float[Array, "3 3"]:
    """The inertia as a matrix, from three principal moments or from the matrix itself.

    Only its symmetric part enters, as in ½ Ω·I Ω, so that the derivative with respect to a given
    matrix is symmetric by every route to the equations of motion.
    """
    return jnp.diag(inertia) if inertia.ndim == 1 else 0.5 * (inertia + inertia.T)
