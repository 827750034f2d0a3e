"""NumPy performs operations outside of `jit` that only move or convert numbers, without a program for each shape.

JAX compiles each operation outside of `jit`: 14 ms of processor time for `jnp.zeros(3)`, for `x[0]` or for
`jnp.asarray` of a NumPy array, for each shape and index. NumPy gives the same bits. Arithmetic, sums and all operations
inside `jit` stay with JAX; so do arrays of weak type, on several devices, or of a type that NumPy lacks.

The replaced functions are private to JAX: if one is missing, its operation is not replaced.
"""

from collections.abc import Callable

import jax
import numpy as np
from jax._src.lax import lax, slicing


def _broadcast(x, *, shape, broadcast_dimensions, sharding):
    sizes = [1] * len(shape)
    for size, axis in zip(x.shape, broadcast_dimensions, strict=True):
        sizes[axis] = size
    return np.broadcast_to(x.reshape(sizes), shape)


def _converted(x, *, new_dtype, weak_type, sharding):
    return x.astype(new_dtype)


def _sliced(x, *, start_indices, limit_indices, strides):
    steps = strides or (1,) * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def _sliced_at(x, *starts, slice_sizes):
    """The start of a slice; one that would leave the array is moved inside."""
    firsts = [
        np.clip(i, 0, n - size) for i, n, size in zip(starts, x.shape, slice_sizes, strict=True)
    ]
    return x[tuple(slice(i, i + size) for i, size in zip(firsts, slice_sizes, strict=True))]


def _counted(*, dtype, shape, dimension, sharding):
    sizes = [-1 if axis == dimension else 1 for axis in range(len(shape))]
    return np.broadcast_to(np.arange(shape[dimension], dtype=dtype).reshape(sizes), shape)


MOVES: dict[str, Callable[..., np.ndarray]] = {
    "stage_p": lambda x: x,
    "broadcast_in_dim_p": _broadcast,
    "convert_element_type_p": _converted,
    "slice_p": _sliced,
    "dynamic_slice_p": _sliced_at,
    "reshape_p": lambda x, *, new_sizes, dimensions, sharding: x.reshape(new_sizes),
    "squeeze_p": lambda x, *, dimensions: x.squeeze(dimensions),
    "transpose_p": lambda x, *, permutation: x.transpose(permutation),
    "concatenate_p": lambda *xs, dimension: np.concatenate(xs, dimension),
    "stack_p": lambda *xs, axis: np.stack(xs, axis),
    "iota_p": _counted,
}


def move_by_numpy() -> None:
    """Replaces JAX's functions for these operations outside of `jit`."""
    for name, move in MOVES.items():
        primitive = getattr(lax, name, None) or getattr(slicing, name, None)
        if primitive is not None:
            primitive.def_impl(_moved(primitive.impl, move))


def _moved(compiled: Callable, move: Callable) -> Callable:
    def result(*arrays, **options):
        weak = any(getattr(x, "weak_type", False) for x in arrays)
        if weak or not (all(map(is_plain, arrays)) and _is_exact(arrays, options)):
            return compiled(*arrays, **options)
        with np.errstate(all="ignore"):  # numbers too large for float32 become infinite
            moved = move(*map(np.asarray, arrays), **options)
        return jax.device_put(np.array(moved, order="C"))  # a copy, since JAX may share the memory

    return result


def is_plain(x) -> bool:
    """Whether NumPy has the type and no device was chosen."""
    if isinstance(x, jax.core.Tracer) or not isinstance(x, np.ndarray | jax.Array):
        return False
    chosen = isinstance(x, jax.Array) and (x.committed or len(x.devices()) > 1)
    return not chosen and is_numpys(x.dtype)


def is_numpys(dtype) -> bool:
    """Whether NumPy converts as XLA does; XLA rounds twice from float64 to float16."""
    return isinstance(dtype, np.dtype) and dtype.kind in "biufc" and dtype != np.float16


def _is_exact(arrays, options) -> bool:
    """Whether the conversion is unambiguous: real numbers too large for an integer type differ between JAX and NumPy."""
    if options.get("weak_type") or options.get("sharding") is not None:
        return False
    new = options.get("new_dtype", options.get("dtype"))
    if new is None:
        return True
    return is_numpys(new) and all(np.can_cast(x.dtype, new, "same_kind") for x in arrays)
