"""Control curves: motions of the masses (or motors) as functions of time with free parameters.

A curve is a callable pytree t -> `(n,)`, twice differentiable in t by autodiff, so that it serves as
`control` everywhere in the package. An optimiser changes its *free* parameters.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float
from scipy.interpolate import make_lsq_spline

from jaxhamel import _checks
from jaxhamel._splines import basis_values, local_basis, values_and_slopes
from jaxhamel._typing import Scalar, Time
from jaxhamel._words import counted
from jaxhamel.control._checks._problem import (
    check_curve_samples,
    check_fourier,
    check_limits,
    check_spline,
    check_spline_size,
)
from jaxhamel.mechanics._description._parameters import as_parameter

_DENSE = 1_000_000  # numbers of a matrix up to which a spline is fitted by a dense one, also if samples leave it open


def free_parameters(curve: Any) -> tuple[Array, Callable[..., Any]]:
    """(p, rebuild): the free parameters of a curve as one vector `(P,)`, and the function that makes the curve from them.

    The property `free` of a curve of this module selects its free parameters; those of any other callable pytree are all
    its floating-point arrays.

    **Arguments:** `curve`. **Returns:** p, and `rebuild`: p → curve, with `rebuild(p)` equal to `curve`.
    """
    free, fixed = _partition(curve)
    p, unravel = ravel_pytree(free)
    return p, lambda p: eqx.combine(unravel(p), fixed)


def free_arrays(curve: Any) -> list[Array]:
    """The arrays of a curve whose entries are the free parameters, in the order of `free_parameters`."""
    return jax.tree.leaves(_partition(curve)[0])


def _partition(curve: Any) -> tuple[Any, Any]:
    """Splits a curve into two pytrees: one with its free arrays, one with all its other parts."""
    return eqx.partition(
        curve, curve.free if isinstance(curve, AbstractCurve) else eqx.is_inexact_array
    )


def support(curve, t0: float, t1: float) -> Bool[np.ndarray, " P"]:
    """Whether the curve depends on each of its free parameters between t0 and t1; computed on the host."""
    if isinstance(curve, AbstractCurve):
        return curve.support(t0, t1)
    return np.ones(free_parameters(curve)[0].shape, dtype=bool)


class AbstractCurve(eqx.Module):
    """A control θ(t), `(n,)`, with free parameters."""

    @abstractmethod
    def __call__(self, t: Time) -> Float[Array, " n"]:
        """θ(t)."""

    @property
    def free(self) -> Any:
        """A filter: True at the leaves that an optimiser changes."""
        return jax.tree.map(eqx.is_inexact_array, self)

    def support(self, t0: float, t1: float) -> Bool[np.ndarray, " P"]:
        """Whether each free parameter acts between t0 and t1; default: all of them."""
        return np.ones(free_parameters(self)[0].shape, dtype=bool)


class Spline(AbstractCurve):
    r"""A uniform B-spline of degree d on [t0, t1], d − 1 times continuously differentiable:

        θ(t) = Σ_j c_j N_d(x − j + d) ,    x = (t − t0) / h ,    h = (t1 − t0) / (J − d)

    with J coefficients and N_d the cardinal B-spline, whose support is [0, d + 1]. On each of the J − d segments only d +
    1 coefficients act. Before t0 and after t1 the curve continues linearly.

    **Arguments:**

    - `coefficients`: c, `(J, n)`, J > d. Free.
    - `t0`, `t1`: the span [s].
    - `degree`: d. With 5 (the default) accelerations are twice continuously differentiable, with 3 only continuous.

    Source: de Boor, A Practical Guide to Splines, ch. IX.
    """

    coefficients: Float[Array, "J n"]
    t0: Scalar
    t1: Scalar
    degree: int = eqx.field(static=True)

    def __init__(self, coefficients: ArrayLike, t0: ArrayLike, t1: ArrayLike, degree: int = 5):
        self.coefficients = as_parameter(coefficients)
        dtype = self.coefficients.dtype
        self.t0, self.t1 = (jnp.asarray(t, dtype=dtype) for t in (t0, t1))
        self.degree = degree
        check_spline(self.coefficients, self.t0, self.t1, degree)

    @classmethod
    def constant(
        cls, value: ArrayLike, t0: ArrayLike, t1: ArrayLike, n_coefficients: int, degree: int = 5
    ) -> "Spline":
        """The spline with the constant value `value`, `(n,)`."""
        row: Array = as_parameter(value)
        _checks.check_shape("value", row, ("n",))
        check_spline_size("n_coefficients", n_coefficients, degree)
        rows = jnp.broadcast_to(row[None, :], (n_coefficients, row.shape[0]))
        return cls(rows, t0, t1, degree)

    @classmethod
    def fit(
        cls, ts: ArrayLike, values: ArrayLike, n_coefficients: int, degree: int = 5
    ) -> "Spline":
        """The spline on [ts[0], ts[-1]] nearest to the samples `values`, `(T, n)`, by least squares.

        It passes through the samples if there are as many of them as coefficients and their times are spread suitably.
        """
        ts, values = np.asarray(ts), np.asarray(values)
        check_spline_size("n_coefficients", n_coefficients, degree)
        check_curve_samples(ts, values, n_coefficients)
        if ts.size * n_coefficients > _DENSE:
            return cls(_banded_fit(ts, values, n_coefficients, degree), ts[0], ts[-1], degree)
        x = (ts - ts[0]) / (ts[-1] - ts[0]) * (n_coefficients - degree)
        basis = basis_values(x, n_coefficients, degree)
        coefficients = np.linalg.lstsq(basis, values, rcond=None)[0]
        return cls(coefficients, ts[0], ts[-1], degree)

    def part(self, t0: float, t1: float) -> "Spline":
        """The segments of the spline that act between two known times."""
        first, last = self._segments_between(t0, t1)
        start, length = float(self.t0), (float(self.t1) - float(self.t0)) / self.n_segments
        rows = self.coefficients[first : last + self.degree + 1]
        return Spline(rows, start + first * length, start + (last + 1) * length, self.degree)

    def padded(self, length: int) -> "Spline":
        """The same curve up to t1, with `length` coefficients; the further ones are copies of the last one."""
        rows = np.minimum(np.arange(length), self.coefficients.shape[0] - 1)
        more = (length - self.coefficients.shape[0]) / self.n_segments * (self.t1 - self.t0)
        return Spline(self.coefficients[rows], self.t0, self.t1 + more, self.degree)

    @property
    def n_segments(self) -> int:
        """The number of segments, J − d."""
        return self.coefficients.shape[0] - self.degree

    def __call__(self, t: Time) -> Float[Array, " n"]:
        t = jnp.asarray(t, dtype=self.t0.dtype)
        before, after = t < self.t0, t > self.t1
        inside = jnp.where(before, self.t0, jnp.where(after, self.t1, t))
        x = (inside - self.t0) / (self.t1 - self.t0) * self.n_segments
        segment = jnp.clip(jnp.floor(jax.lax.stop_gradient(x)), 0, self.n_segments - 1)
        rows = jax.lax.dynamic_slice_in_dim(self.coefficients, segment.astype(int), self.degree + 1)
        basis, slope = values_and_slopes(local_basis(self.degree), x - segment)
        straight = (t - inside) * self.n_segments / (self.t1 - self.t0)
        return (basis + straight * slope) @ rows

    @property
    def free(self) -> Any:
        return eqx.tree_at(lambda s: (s.coefficients, s.t0, s.t1), self, (True, False, False))

    def support(self, t0: float, t1: float) -> Bool[np.ndarray, " P"]:
        first, last = self._segments_between(t0, t1)
        j = np.arange(self.coefficients.shape[0])
        rows = (j >= first) & (j <= last + self.degree)
        return np.repeat(rows, self.coefficients.shape[1])

    def _segments_between(self, t0: float, t1: float) -> tuple[int, int]:
        """The first and last segment that act between two known times."""
        start, end = float(self.t0), float(self.t1)
        x = (np.array([t0, t1]) - start) / (end - start) * self.n_segments
        # A time that is beyond a knot only by rounding belongs to the segment before it.
        first, last = np.floor(x[0] + 1e-9), np.ceil(x[1] - 1e-9) - 1
        first, last = np.clip([first, max(first, last)], 0, self.n_segments - 1)
        return int(first), int(last)


class FourierSeries(AbstractCurve):
    r"""θ(t) = a_0 + Σ_k a_k cos(2πkt/T) + b_k sin(2πkt/T), k = 1 … K.

    **Arguments:**

    - `mean`: a_0, `(n,)`; `cosine`, `sine`: a_k and b_k, `(K, n)`. Free.
    - `period`: T [s].
    """

    mean: Float[Array, " n"]
    cosine: Float[Array, "K n"]
    sine: Float[Array, "K n"]
    period: Scalar

    def __init__(self, mean: ArrayLike, cosine: ArrayLike, sine: ArrayLike, period: ArrayLike):
        self.mean, self.cosine, self.sine = (as_parameter(x) for x in (mean, cosine, sine))
        self.period = jnp.asarray(period, dtype=self.mean.dtype)
        check_fourier(self.mean, self.cosine, self.sine, self.period)

    def __call__(self, t: Time) -> Float[Array, " n"]:
        k = jnp.arange(1, self.cosine.shape[0] + 1).astype(self.mean.dtype)
        angle = (2 * np.pi * jnp.asarray(t, dtype=self.mean.dtype) / self.period) * k
        return self.mean + jnp.cos(angle) @ self.cosine + jnp.sin(angle) @ self.sine

    @property
    def free(self) -> Any:
        every = jax.tree.map(eqx.is_inexact_array, self)
        return eqx.tree_at(lambda s: s.period, every, False)


class Limited(AbstractCurve):
    r"""Limits a curve φ to values between the rail limits; near the middle of the rail it is nearly unchanged:

        θ = m + w tanh((φ − m) / w) ,    m = (upper + lower)/2 ,    w = (upper − lower)/2 .

    **Arguments:** `curve`: φ; `lower`, `upper`: the limits, `(n,)`.
    """

    curve: eqx.Module
    lower: Float[Array, " n"]
    upper: Float[Array, " n"]

    def __init__(self, curve: Any, lower: ArrayLike, upper: ArrayLike):
        _checks.check_callable("curve", curve, "pytree t -> (n,), such as control.Spline")
        self.curve = curve
        self.lower, self.upper = as_parameter(lower), as_parameter(upper)
        check_limits(self.lower, self.upper)

    def __call__(self, t: Time) -> Float[Array, " n"]:
        middle, half = (self.upper + self.lower) / 2, (self.upper - self.lower) / 2
        return middle + half * jnp.tanh((self.curve(t) - middle) / half)  # pyright: ignore

    @property
    def free(self) -> Any:
        inner = self.curve.free if isinstance(self.curve, AbstractCurve) else eqx.is_inexact_array
        if not isinstance(self.curve, AbstractCurve):
            inner = jax.tree.map(eqx.is_inexact_array, self.curve)
        return eqx.tree_at(lambda s: (s.curve, s.lower, s.upper), self, (inner, False, False))

    def support(self, t0: float, t1: float) -> Bool[np.ndarray, " P"]:
        return support(self.curve, t0, t1)


def _banded_fit(ts, values, n_coefficients: int, degree: int) -> Float[np.ndarray, "J n"]:
    """The coefficients of the least-squares spline, by a banded matrix.

    **Raises:** `ValueError` if the samples leave a coefficient open.
    """
    x = (ts - ts[0]) / (ts[-1] - ts[0]) * (n_coefficients - degree)
    knots = np.arange(-degree, n_coefficients + 1.0)
    try:
        found = make_lsq_spline(x, values, knots, degree).c
    except (ValueError, np.linalg.LinAlgError):
        found = np.array(np.nan)
    if not np.all(np.isfinite(found)):
        raise ValueError(
            f"`ts` has {counted(len(ts), 'sample')} that leave some of the {n_coefficients} coefficients open, as gaps "
            "between the times do. Give fewer coefficients."
        )
    return found
