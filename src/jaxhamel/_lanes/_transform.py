"""`lanes`: a `jax.vmap` that stores every array element as a batch vector of its own."""

import functools
import inspect
from collections.abc import Callable
from itertools import islice, zip_longest
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxhamel import _checks
from jaxhamel._lanes._derivatives._active_inputs import with_entries
from jaxhamel._lanes._run_batch import run


def lanes(f: Callable, in_axes: Any = 0) -> Callable:
    """`jax.vmap(f, in_axes)`, computed with every array element as a batch vector of its own:

        lanes(f)(x)[b] = f(x[b]) .

    It serves right-hand sides of small systems, whose 3-vectors and 5 × 5 matrices fill no vector register. f is traced
    for one trajectory and written out as scalar operations. Known values are folded (0·x, 1·x, x + 0, 0/x), repeated
    expressions are computed once, and each operation runs on the whole batch. Call it under `jax.jit`: outside `jit` the
    operations run one by one.

    **Arguments:**

    - `f`: a function of pytrees of arrays. Its primitives may be elementwise operations, changes of shape, sums and
      products, indexing at computed positions, branches (all branches are computed, then one is selected), loops of
      any kind (long ones, those with layers of a network, and those that end on a computed condition stay loops, each
      turn of which runs in lanes), LU and Cholesky factors (those of many rows as batched operations between parts in
      lanes), and functions with derivative rules of their own. With any other primitive (eigenvalues, random numbers) f
      runs under `jax.vmap`, and a warning names the primitive.
    - `in_axes`: as for `jax.vmap`: an integer, None, or a pytree prefix of the arguments.

    **Returns:** a function like `f` whose results have a leading batch axis. It composes with jit, grad, jvp and vmap;
    derivative rules that `f` carries (`jax.custom_jvp`, `jax.custom_vjp`) are kept.

    **Raises:** `ValueError` that names the argument, for axes that do not fit or differ in length.

    Folding takes x to be finite, and not zero in 0/x: 0·x is 0 in every lane, also where x is infinite or NaN.
    """
    if not isinstance(f, type):  # a class is accepted, too, as by `jax.vmap`
        _checks.check_callable("f", f, "of arrays")

    @functools.wraps(f)
    def batched(*args, **named):
        leaves, structure = jax.tree.flatten((args, named))
        given = dict(zip(_argument_names(f, len(args)), args, strict=True))
        # like `jax.vmap`, along axis 0 of arguments given by keyword
        axes = flat_axes(in_axes, given) + [0] * len(jax.tree.leaves(named))
        size = _checks.check_batch(given | named, axes)
        mapped = {i: axis for i, axis in enumerate(axes) if axis is not None}
        columns = [jnp.moveaxis(jnp.asarray(leaves[i]), axis, 0) for i, axis in mapped.items()]
        found = []

        def single(*entries):
            args, named = jax.tree.unflatten(structure, with_entries(leaves, mapped, entries))
            out, out_structure = jax.tree.flatten(f(*args, **named))
            found.append(out_structure)
            return [jnp.asarray(leaf) for leaf in out]

        out = run(single, [True] * len(columns), size, columns)
        return jax.tree.unflatten(found[0], out)

    return batched


def flat_axes(in_axes, given: dict[str, Any]) -> list[int | None]:
    """One axis for each leaf of the arguments `given`, a dictionary from their names to their values."""
    in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes

    def absent(x):
        return x is None

    def spread(axis, part):
        return [axis] * len(jax.tree.leaves(part))

    try:
        full = jax.tree.map(spread, in_axes, tuple(given.values()), is_leaf=absent)
    except (TypeError, ValueError):
        raise _checks.wrong_axes(in_axes, given) from None
    axes = jax.tree.leaves(full, is_leaf=absent)
    _checks.check_axis_kinds(in_axes, axes, given)
    return axes


def axes_of_leaves(in_axes, given: dict[str, Any]) -> list[int | None]:
    """`flat_axes`, with None for each leaf that is not an array, such as a function: all lanes share it."""
    axes, leaves = flat_axes(in_axes, given), jax.tree.leaves(tuple(given.values()))
    return [axis if hasattr(x, "shape") else None for axis, x in zip(axes, leaves, strict=True)]


def lists_as_arrays(value: Any) -> Any:
    """Lists and numbers as arrays; a configuration's tuple stays a tuple, a list of arrays of different shapes a list."""
    if isinstance(value, tuple):
        return tuple(lists_as_arrays(part) for part in value)
    if isinstance(value, list) and _are_arrays_of_different_shapes(value):
        return [lists_as_arrays(part) for part in value]
    return jnp.asarray(value) if isinstance(value, list | float | int | np.ndarray) else value


def _are_arrays_of_different_shapes(parts: list) -> bool:
    arrays = any(isinstance(x, jax.Array | np.ndarray) for x in parts)
    return arrays and len({jnp.shape(x) for x in parts}) > 1


def _argument_names(f: Callable, count: int) -> list[str]:
    """The names of f's positional arguments."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):  # a function that is not written in Python has no signature
        parameters = ()
    shown = (p.name if p.kind is p.POSITIONAL_OR_KEYWORD else None for p in parameters)
    pairs = zip_longest(range(count), islice(shown, count))
    return [name or f"argument {i}" for i, name in pairs]
