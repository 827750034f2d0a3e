"""The spaces under test, each with its Lie algebra in NumPy, and increments in all regimes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import jax
import numpy as np
import scipy.linalg
from hypothesis import strategies as st

from jaxhamel.geometry import (
    SE2,
    SE3,
    SO2,
    SO3,
    AbstractSpace,
    Euclidean,
    Helical,
    Product,
    Schoenflies,
)

PITCH = 0.3


@dataclass(frozen=True)
class Case:
    name: str
    space: AbstractSpace
    rotations: tuple[slice, ...]  # groups of components of δ, each of one rotation
    algebra: Callable[[np.ndarray], np.ndarray]  # δ as a matrix, independent of the package


def _hat(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def _bordered(rotation, translation):
    matrix = np.zeros((len(translation) + 1,) * 2)
    matrix[:-1, :-1], matrix[:-1, -1] = rotation, translation
    return matrix


def _about_z(angle):
    return _hat([0, 0, angle])


def _plane(angle):
    return _about_z(angle)[:2, :2]


_ONE = (slice(0, 1),)
_THREE = (slice(0, 3),)

SINGLE = [
    Case("Euclidean", Euclidean(3), (), lambda d: _bordered(np.zeros((3, 3)), d)),
    Case("SO2", SO2(), _ONE, lambda d: _plane(d[0])),
    Case("SO3", SO3(), _THREE, _hat),
    Case("SE2", SE2(), _ONE, lambda d: _bordered(_plane(d[0]), d[1:])),
    Case("SE3", SE3(), _THREE, lambda d: _bordered(_hat(d[:3]), d[3:])),
    Case("Schoenflies", Schoenflies(), _ONE, lambda d: _bordered(_about_z(d[0]), d[1:])),
    Case(
        "Helical", Helical(PITCH), _ONE, lambda d: _bordered(_about_z(d[0]), [0, 0, PITCH * d[0]])
    ),
]


def _product(name: str, space: Product, parts: list[Case]) -> Case:
    """The direct sum of cases, in the order of the flattened product."""
    starts = np.cumsum([0] + [case.space.dim for case in parts])

    def algebra(d):
        pairs = zip(parts, starts, strict=False)
        blocks = [c.algebra(d[s : s + c.space.dim]) for c, s in pairs]
        return np.asarray(scipy.linalg.block_diag(*blocks))

    rotations = tuple(
        slice(r.start + s, r.stop + s)
        for case, s in zip(parts, starts, strict=False)
        for r in case.rotations
    )
    return Case(name, space, rotations, algebra)


_POINT = Case("Euclidean(0)", Euclidean(0), (), lambda d: np.zeros((1, 1)))

CASES = [
    *SINGLE,
    _product(
        "Product",
        Product(
            Product(Euclidean(3), SO2()),
            Product(SO3(), Product(SE2(), Euclidean(0)), SE3()),
            Schoenflies(),
            Helical(PITCH),
        ),
        [*SINGLE[:4], _POINT, *SINGLE[4:]],
    ),
]

# In single precision only the product is tested, since it contains all other spaces.
_PRECISE = [(case, np.float64) for case in CASES] + [(CASES[-1], np.float32)]

by_case = {"argnames": "case", "argvalues": CASES, "ids": [case.name for case in CASES]}
by_case_and_dtype = {
    "argnames": ("case", "dtype"),
    "argvalues": _PRECISE,
    "ids": [f"{case.name}-{np.dtype(dtype).name}" for case, dtype in _PRECISE],
}


def angles(dtype) -> list:
    """Rotation angles of every regime: identity, beside it, generic, near half a turn."""
    near = 1e-7 if dtype == np.float64 else 2e-6  # about ten units of rounding of π in float32
    return [0.0, 1e-7, 1e-3, 0.5, 1.9, 2.1, np.pi - 1e-3, np.pi - near]


@st.composite
def increments(draw, case: Case, dtype=np.float64):
    """δ `(dim,)` with components in [−2, 2] and every rotation of an angle from `angles`."""
    number = st.floats(-2, 2, width=32)
    delta = np.array(draw(st.lists(number, min_size=case.space.dim, max_size=case.space.dim)))
    for rotation in case.rotations:
        norm = np.linalg.norm(delta[rotation])
        if norm < 1e-3:
            delta[rotation], norm = 1, np.sqrt(delta[rotation].size)
        delta[rotation] *= draw(st.sampled_from(angles(dtype))) / norm
    return delta.astype(dtype)


@lru_cache
def compiled(space: AbstractSpace, operation: str) -> Callable:
    """A jitted operation of a space, which all tests share: small programs compile fastest."""
    return jax.jit(lambda *arguments: getattr(space, operation)(*arguments))


def close(got, want, dtype, units: float = 16) -> None:
    """Within some units of rounding of the larger of 1 and the largest entry."""
    got, want = np.asarray(got), np.asarray(want, dtype=np.float64)
    assert got.dtype == dtype
    assert got.shape == want.shape
    scale = max(1.0, float(np.max(np.abs(want), initial=0)))
    error = float(np.max(np.abs(got.astype(np.float64) - want), initial=0))
    assert error <= units * np.finfo(dtype).eps * scale, (error / np.finfo(dtype).eps, got, want)


def phi(matrix):
    """φ_1(M) = Σ M^k/(k+1)!; 60 terms, for norms below 2π or so."""
    total = term = np.eye(len(matrix))
    for k in range(2, 60):
        term = term @ matrix / k
        total = total + term
    return total


def adjoint(case: Case, delta):
    return np.asarray(compiled(case.space, "ad")(delta))
