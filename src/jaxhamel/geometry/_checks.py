"""Checks of configuration spaces, configurations and frames."""

import jax
import numpy as np

from jaxhamel._checks._values import (
    check_finite,
    check_real,
    check_shape,
    concrete,
    described,
    inline,
    is_real,
)

LARGEST_INT32 = 2**31 - 1


def check_dimension(name: str, value) -> None:
    """Checks that a dimension is a Python integer >= 0."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise TypeError(
            f"`{name}` is {value!r}; a dimension must be an integer, 0 or more. "
            "It fixes shapes, so give a plain int, not an array."
        )
    if value < 0:
        raise ValueError(f"`{name}` is {value}; a dimension must be 0 or more. Give its size.")
    if value > LARGEST_INT32:
        raise ValueError(
            f"`{name}` is {described(value)}; a dimension must be {LARGEST_INT32:,} or less, the largest size of an axis."
        )


def check_space_kind(name: str, value, kinds, accepts: str) -> None:
    """Checks that a space is of one of the `kinds` (classes) for which the requested frame is defined."""
    if not isinstance(value, kinds):
        raise TypeError(
            f"`{name}` is {value!r}; it must be {accepts}. For another space write the frame as a "
            "function of q, q -> A (n, n)."
        )


def check_coordinates(name: str, value, shape: tuple[int, ...], what: str) -> None:
    """Checks that the stored coordinates of a configuration are a finite array of the right shape."""
    if not hasattr(value, "shape"):
        raise TypeError(
            f"`{name}` is {value!r}; it must be an array of shape {shape}: {what}. "
            "Wrap it in `jax.numpy.asarray(..., dtype=float)`."
        )
    check_shape(name, value, shape, f"It is {what}.")
    check_finite(name, value)


def check_operand(call: str, name: str, value, wanted, what: str) -> None:
    """Checks that an argument of a space's method consists of real arrays with the structure and shapes of `wanted`."""
    leaves, structure = jax.tree.flatten(wanted)
    got, found = jax.tree.flatten(value)
    if found == structure and all(map(_is_real_array, got, leaves)):
        return
    if not got or not all(isinstance(x, np.ndarray | np.generic | jax.Array) for x in got):
        kind, said, way = TypeError, described(value), "Convert it by `jax.numpy.asarray`."
    elif _shapes(value) == _shapes(wanted):
        kind, said, way = TypeError, f"of {got[0].dtype} numbers", "Give real numbers."
    else:
        kind, said, way = (
            ValueError,
            f"of shape {_shapes(value)}",
            "For many at once take `jax.vmap`.",
        )
    shape = _shapes(wanted)
    raise kind(
        f"`{name}` of {call} is {said}; it must be a real array of shape {shape}, {what}. {way}"
    )


def _shapes(tree):
    return jax.tree.map(lambda leaf: tuple(np.shape(leaf)), tree)


def _is_real_array(value, wanted) -> bool:
    return getattr(value, "shape", None) == wanted.shape and is_real(value)


def check_unit_quaternion(name: str, value) -> None:
    """Checks that the first four numbers are a unit quaternion, to 1e-6 (1e-4 in single precision)."""
    array = concrete(value)
    if array is None:
        return
    norm = float(np.linalg.norm(array[:4].astype(np.float64)))
    single = np.issubdtype(array.dtype, np.floating) and np.finfo(array.dtype).eps > 1e-8
    if abs(norm - 1.0) > (1e-4 if single else 1e-6):
        raise ValueError(
            f"`{name}` has a quaternion of norm {norm:.9g}; it must be a unit quaternion "
            "(w, x, y, z). Divide it by its norm, or use `space.normalise`."
        )


def check_components(name: str, value, count: int, what: str) -> None:
    """Checks that the first axis has `count` entries; JAX would silently clip an index beyond them."""
    check_real(name, value)
    got = np.shape(value)
    if not got or got[0] != count:
        raise ValueError(f"`{name}` has shape {got}; it must have shape ({count},), {what}.")


def check_loop(start, end) -> None:
    """Checks that a loop ends where it starts, up to rounding."""
    first, last = concrete(start), concrete(end)
    if first is None or last is None:
        return
    room = 1e3 * np.finfo(first.dtype).eps * (1 + np.max(np.abs(first), initial=0.0))
    if np.max(np.abs(last - first), initial=0.0) > room:
        raise ValueError(
            f"`loop` goes from {inline(first)} at 0 to {inline(last)} at 1; a loop must close. For another path take "
            "`reconstruct`."
        )


def check_tuple(name: str, value, length: int) -> None:
    """Checks that the configuration of a product is a tuple with one entry for each factor."""
    got = len(value) if isinstance(value, tuple | list) else None
    if not isinstance(value, tuple) or got != length:
        kind = type(value).__name__ + ("" if got is None else f" of length {got}")
        raise ValueError(
            f"`{name}` is a {kind}; it must be a tuple of {length} configurations, one for each "
            "factor of the Product. `space.identity()` shows the structure."
        )


def check_frame_matrix(name: str, value, n: int) -> None:
    """Checks that A(q) is (n, n), finite and regular."""
    if not hasattr(value, "shape"):
        raise TypeError(
            f"`{name}` is {described(value)}; it must be an array ({n}, {n}), A of u = A v. Make one array of it by "
            "`jnp.array` or `jnp.stack`."
        )
    check_shape(name, value, (n, n), "It is A of u = A v, one row a quasi-velocity.")
    check_finite(name, value)
    array = concrete(value)
    if array is None or n == 0:
        return
    smallest = smallest_relative_singular_value(array)
    if smallest < singular_below(array):
        raise ValueError(
            f"`{name}` is singular: its smallest singular value is {smallest:.3g} of the largest. "
            "A of u = A v must be invertible; choose another frame or move q away from where this "
            "one breaks down."
        )


def check_independent_rows(name: str, value) -> None:
    """Checks that the rows of constraint one-forms are finite and linearly independent."""
    check_finite(name, value)
    array = concrete(value)
    if array is None:
        return
    smallest = smallest_relative_singular_value(array)
    if array.shape[0] > array.shape[1] or smallest < singular_below(array):
        raise ValueError(
            f"`{name}` has dependent rows: the smallest singular value is {smallest:.3g} of the "
            "largest. Constraint one-forms must be independent; drop the one that follows from "
            "the others."
        )


def check_independent(name: str, value, one_forms: tuple[int, ...]) -> None:
    """Checks the independent velocities that complete m one-forms `(m, n)`: n - m indices, or n - m rows of n numbers."""
    check_shape("one_forms", np.empty(one_forms), ("m", "n"), "It has a row for each one-form.")
    m, n = one_forms
    accepts = f"{m} one-forms of {n} velocities leave {n - m} independent ones: give {n - m} "
    if np.ndim(value) == 2:
        return check_shape(name, value, (n - m, n), accepts + "rows S of u = S v.")
    array = concrete(value)
    array = np.asarray(value) if array is None and isinstance(value, list | tuple) else array
    if array is None or array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        shown = described(value) if array is None else inline(array)
        raise TypeError(
            f"`{name}` is {shown}; {accepts}indices of velocities, or rows S ({n - m}, {n})."
        )
    if (
        len(set(array.tolist())) < n - m
        or len(array) != n - m
        or not set(array.tolist()) <= set(range(n))
    ):
        raise ValueError(
            f"`{name}` is {inline(array)}; {accepts}different indices from 0 to {n - 1}."
        )


def check_generators(name: str, value) -> None:
    """Checks generators of a matrix Lie group: (n, d, d), finite, independent, closed under commutators."""
    shape = tuple(np.shape(value))
    if len(shape) != 3 or shape[1] != shape[2] or shape[0] == 0:
        raise ValueError(
            f"`{name}` has shape {shape}; it must be (n, d, d): n square matrices, a basis of the Lie algebra. "
            "Stack them, or give one matrix as a list of one."
        )
    check_finite(name, value)
    array = concrete(value)
    if array is None:
        return
    array = np.asarray(array, dtype=np.float64)
    flat = array.reshape(shape[0], -1)
    if smallest_relative_singular_value(flat) < 1e-6 or shape[0] > flat.shape[1]:
        raise ValueError(
            f"`{name}` are linearly dependent; they must be a basis of the Lie algebra. Leave out the one that follows "
            "from the others."
        )
    products = np.einsum("aij,bjk->abik", array, array)
    brackets = (products - np.swapaxes(products, 0, 1)).reshape(-1, flat.shape[1])
    outside = brackets - brackets @ np.linalg.pinv(flat) @ flat
    worst = np.max(np.abs(outside), axis=1)
    if np.max(worst) > 1e-6 * np.max(np.abs(flat)) ** 2:
        a, b = divmod(int(np.argmax(worst)), shape[0])
        raise ValueError(
            f"`{name}` do not generate a group of their dimension: the commutator of {name}[{a}] and {name}[{b}] is no "
            "linear combination of them. Add this commutator to the list, and its own commutators with the others."
        )


def check_regular(name: str, value) -> None:
    """Checks that a matrix has an inverse."""
    array = concrete(value)
    if array is not None and smallest_relative_singular_value(array) < singular_below(array):
        raise ValueError(
            f"`{name}` is a singular matrix; elements of a group have inverses. Start from `space.identity()` or "
            "`space.exp(delta)`."
        )


def smallest_relative_singular_value(rows) -> float:
    if rows.shape[0] == 0:
        return 1.0
    values = np.linalg.svd(rows, compute_uv=False)
    return float(values[-1] / values[0]) if values[0] > 0 else 0.0


def singular_below(array) -> float:
    return 100.0 * float(np.finfo(array.dtype).eps)
