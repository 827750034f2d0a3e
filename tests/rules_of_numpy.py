"""NumPy's functions for the operations of a jaxpr on arrays, for `tests/by_numpy.py`."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from tests.moved_by_numpy import MOVES

ELEMENTWISE: dict[str, Callable] = {
    "abs": np.abs,
    "acos": np.arccos,
    "add": np.add,
    "add_any": np.add,
    "and": np.bitwise_and,
    "asin": np.arcsin,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "conj": np.conj,
    "copy": np.asarray,
    "copy_p": np.asarray,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "eq": np.equal,
    "exp": np.exp,
    "expm1": np.expm1,
    "floor": np.floor,
    "ge": np.greater_equal,
    "gt": np.greater,
    "imag": np.imag,
    "is_finite": np.isfinite,
    "le": np.less_equal,
    "log": np.log,
    "log1p": np.log1p,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "not": np.invert,
    "or": np.bitwise_or,
    "select_n": lambda which, *cases: np.choose(which, cases),
    "real": np.real,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "sub": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
    "xor": np.bitwise_xor,
}
REDUCTIONS: dict[str, Callable] = {
    "reduce_and": np.logical_and.reduce,
    "reduce_max": np.maximum.reduce,
    "reduce_min": np.minimum.reduce,
    "reduce_or": np.logical_or.reduce,
    "reduce_prod": np.multiply.reduce,
    "reduce_sum": np.add.reduce,
}


def rule_of(name: str, eqn: Any) -> Callable | None:
    """The function of arrays that computes an operation of a jaxpr; None if there is no rule for it."""
    if name in ELEMENTWISE:
        return ELEMENTWISE[name]
    if name in REDUCTIONS:
        return _reduction(REDUCTIONS[name], eqn)
    if name in SHAPED:
        return SHAPED[name](eqn)
    if name == "convert_element_type" and eqn.invars[0].aval.dtype.kind == "c":
        return None
    if f"{name}_p" in MOVES:
        return partial(MOVES[f"{name}_p"], **eqn.params)
    return None


def _reduction(reduce, eqn):
    axes, dtype = eqn.params["axes"], eqn.outvars[0].aval.dtype
    if 0 in eqn.invars[0].aval.shape and reduce.__self__.identity is None:
        return None  # an extreme of no numbers
    return lambda x: reduce(x, axis=axes, dtype=dtype)


def _quotient(eqn):
    return np.divide if np.issubdtype(eqn.outvars[0].aval.dtype, np.inexact) else None


def _power_of_equal_types(eqn):
    base, exponent = (v.aval.dtype for v in eqn.invars)
    return np.power if base == exponent and base.kind == "f" else None


def _power(eqn):
    y = eqn.params["y"]
    return np.square if y == 2 else np.reciprocal if y == -1 else lambda x: x**y


def _product(eqn):
    """A product of matrices: axes of the batch first, those of the sum next to each other."""
    (left_sum, right_sum), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    (a, b), out = (v.aval.shape for v in eqn.invars), eqn.outvars[0].aval
    left_free = [i for i in range(len(a)) if i not in (*left_sum, *left_batch)]
    right_free = [i for i in range(len(b)) if i not in (*right_sum, *right_batch)]
    batch, inner = [a[i] for i in left_batch], prod(a[i] for i in left_sum)
    left = _arranged([*left_batch, *left_free, *left_sum], [*batch, -1, inner], a)
    right = _arranged([*right_batch, *right_sum, *right_free], [*batch, inner, -1], b)
    if 0 in (*a, *b):
        return lambda x, y: np.zeros(out.shape, out.dtype)
    return lambda x, y: (left(x) @ right(y)).reshape(out.shape)


def _arranged(order, shape, before):
    """A function that puts axes in an order and in another shape."""
    shape = [s if s >= 0 else prod(before) // max(1, -prod(shape)) for s in shape]
    if order == sorted(order):
        return lambda x: x.reshape(shape)
    return lambda x: x.transpose(order).reshape(shape)


def _padded(eqn):
    config, out = eqn.params["padding_config"], eqn.outvars[0].aval
    if any(low < 0 or high < 0 for low, high, _ in config):
        return None
    places = tuple(
        slice(low, n - high, inner + 1)
        for n, (low, high, inner) in zip(out.shape, config, strict=True)
    )

    def padded(x, value):
        found = np.full(out.shape, value)
        found[places] = x
        return found

    return padded


def _running_sum(eqn):
    axis, dtype = eqn.params["axis"], eqn.outvars[0].aval.dtype
    if eqn.params["reverse"]:
        return lambda x: np.flip(np.cumsum(np.flip(x, axis), axis, dtype), axis)
    return lambda x: np.cumsum(x, axis, dtype)


def _updated(eqn):
    sizes = eqn.invars[1].aval.shape

    def updated(x, part, *starts):
        found = np.array(x)
        firsts = [np.clip(i, 0, n - m) for i, n, m in zip(starts, x.shape, sizes, strict=True)]
        found[tuple(slice(i, i + m) for i, m in zip(firsts, sizes, strict=True))] = part
        return found

    return updated


def _pieces(eqn):
    axis, ends = eqn.params["axis"], np.cumsum(eqn.params["sizes"])[:-1]
    return lambda x: list(np.split(x, ends, axis))


def _rows(eqn):
    axis = eqn.params["axis"]
    return lambda x: list(np.moveaxis(x, axis, 0))


def _constant(eqn):
    value = MOVES["iota_p"](**eqn.params)
    return lambda: value


def _place_of_extreme(find):
    def rule(eqn):
        (axis,), dtype = eqn.params["axes"], eqn.params["index_dtype"]
        return lambda x: find(x, axis).astype(dtype)

    return rule


SHAPED: dict[str, Callable] = {
    "argmax": _place_of_extreme(np.argmax),
    "argmin": _place_of_extreme(np.argmin),
    "cumsum": _running_sum,
    "div": _quotient,
    "dot_general": _product,
    "dynamic_update_slice": _updated,
    "integer_pow": _power,
    "iota": _constant,
    "pad": _padded,
    "pow": _power_of_equal_types,
    "rev": lambda eqn: lambda x: np.flip(x, eqn.params["dimensions"]),
    "split": _pieces,
    "squeeze": lambda eqn: lambda x: x.reshape(eqn.outvars[0].aval.shape),
    "tile": lambda eqn: lambda x: np.tile(x, eqn.params["reps"]),
    "unstack": _rows,
}
