"""Registers a primitive of this package with JAX's transformations."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxhamel._lanes._tracing import as_its_program


def own_primitive(
    name: str,
    *,
    run: Callable,
    abstract: Callable,
    jvp: Callable,
    batch: Callable,
    transpose: Callable | None = None,
    lowered: Callable | None = None,
    multiple_results: bool = True,
) -> Primitive:
    """Makes the primitive `jaxhamel_{name}` and registers its rules.

    **Arguments:**

    - `run`: computes the results.
    - `abstract`: gives the shapes and dtypes of the results.
    - `jvp`, `batch`, `transpose`: the rules of forward mode, `vmap` and reverse mode, as JAX's interpreters take them.
    - `lowered`: the function that is compiled; None: `run`.
    - `multiple_results`: whether the rules return lists of results rather than one result.
    """
    primitive = Primitive(f"jaxhamel_{name}")
    primitive.multiple_results = multiple_results
    has_jit = hasattr(run, "lower")  # its programs are kept from call to call
    primitive.def_impl(run if has_jit else _compiled(run))
    primitive.def_abstract_eval(abstract)
    ad.primitive_jvps[primitive] = jvp
    batching.primitive_batchers[primitive] = batch
    if transpose is not None:
        ad.primitive_transposes[primitive] = transpose
    rule = mlir.lower_fun(lowered or run, multiple_results=multiple_results)
    mlir.register_lowering(primitive, as_its_program(rule))
    return primitive


def _compiled(run: Callable) -> Callable:
    """`run` as one program, for calls outside of `jit`.

    Operation by operation, the functions in it would be programs of their own, and XLA ends the process where a program
    begins with a fusion (`_xla_cpu/_fusion.py`).
    """

    def on_values(*values, **parameters):
        return jax.jit(partial(run, **parameters))(*values)

    return on_values


def batch_size(values: Sequence[Any], axes: Sequence[int | None]) -> int:
    """The length of the axis over which a batching rule maps."""
    return next(x.shape[i] for x, i in zip(values, axes, strict=True) if i is not None)
