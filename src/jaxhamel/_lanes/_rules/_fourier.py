"""The rule for discrete Fourier transforms of few numbers, which become products with the matrix of cosines and sines:

    X_k = Σ_j x_j exp(−2πi jk/n) .

XLA calls a library for them, which no kernel contains: the whole right-hand side would run under `vmap`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported
from jaxhamel._lanes._graph._primitive import Kind, Primitive

# A transform of n numbers takes up to n² products; longer ones are left to XLA's library.
LONGEST_TRANSFORM = 64


def fft(graph: Graph, equation, interpret: Callable, x: Nodes) -> list[Nodes]:
    """Writes out the transform as products with matrices, one for each axis."""
    lengths = equation.params["fft_lengths"]
    if max(lengths, default=0) > LONGEST_TRANSFORM:
        raise Unsupported(f"the primitive `fft` of more than {LONGEST_TRANSFORM} numbers")
    run = partial(by_products, lengths=lengths, kind=_name(equation.params["fft_type"]))
    return interpret(graph, jax.make_jaxpr(run)(equation.invars[0].aval), [x])


def _name(kind: Any) -> str:
    return getattr(kind, "name", str(kind))


def by_products(x: jax.Array, lengths: tuple[int, ...], kind: str) -> jax.Array:
    """The transform over the last axes of x; `kind`: `FFT`, `IFFT`, `RFFT` or `IRFFT`, as in XLA."""
    *first, last = range(x.ndim - len(lengths), x.ndim)
    sizes = dict(zip([*first, last], lengths, strict=True))
    if kind == "RFFT":
        x, kind, rest = _of_reals(x, last, sizes[last]), "FFT", first
    else:
        rest = first if kind == "IRFFT" else [*first, last]
    for axis in rest:
        x = _of_complex(x, axis, sizes[axis], inverse=kind != "FFT")
    return _to_reals(x, last, sizes[last]) if kind == "IRFFT" else x


def _of_reals(x, axis: int, n: int):
    cosines, sines = _cosines_and_sines(n)
    kept = slice(n // 2 + 1)
    return lax.complex(_along(x, cosines[kept], axis), _along(x, -sines[kept], axis))


def _of_complex(x, axis: int, n: int, inverse: bool):
    cosines, sines = _cosines_and_sines(n)
    sines = sines if inverse else -sines
    real, imaginary = x.real, x.imag
    real, imaginary = (
        _along(real, cosines, axis) - _along(imaginary, sines, axis),
        _along(real, sines, axis) + _along(imaginary, cosines, axis),
    )
    scale = 1 / n if inverse else 1
    return lax.complex(scale * real, scale * imaginary)


def _to_reals(x, axis: int, n: int):
    """The inverse of a transform of n real numbers, of which x has the first n // 2 + 1 entries."""
    cosines, sines = (matrix[:, : n // 2 + 1] / n for matrix in _cosines_and_sines(n))
    twice = slice(1, (n + 1) // 2)  # the entries whose conjugate is not among them
    cosines[:, twice], sines[:, twice] = 2 * cosines[:, twice], 2 * sines[:, twice]
    return _along(x.real, cosines, axis) - _along(x.imag, sines, axis)


def _along(x, matrix: np.ndarray, axis: int):
    return jnp.moveaxis(jnp.tensordot(jnp.asarray(matrix, x.dtype), x, (1, axis)), 0, axis)


def _cosines_and_sines(n: int) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of 2π jk/n for all j and k; zeros are exact, so that their products are left out."""
    angles = 2 * np.pi / n * (np.outer(np.arange(n), np.arange(n)) % n)
    return tuple(np.where(abs(x) < 1e-15, 0.0, x) for x in (np.cos(angles), np.sin(angles)))  # pyright: ignore


FOURIER: dict[str, Primitive] = {"fft": Primitive(Kind.SUM, fft, nested=True)}
