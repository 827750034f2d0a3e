"""Reference paths in the plane: callables t -> `(2,)` [m] that start at rest at the origin."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Scalar, Time
from jaxhamel.control._checks._problem import check_ramp
from jaxhamel.mechanics._description._parameters import parameter


def eased(t: Time, ramp: Scalar, period: Scalar) -> Scalar:
    r"""The fraction s(t) of a path that starts from rest, has a constant speed from t = `ramp` on, and ends at `period`:

        ṡ = σ(t / ramp) / (period − ramp/2) ,    σ(x) = 10 x³ − 15 x⁴ + 6 x⁵ for 0 ≤ x ≤ 1, then 1 .

    The speed and its first two derivatives are continuous; s(`period`) = 1.
    """
    t = jnp.asarray(t, dtype=period.dtype)
    # `where` instead of a clip: the derivative of a clip at its ends is the mean of both sides
    x = t / jnp.where(ramp > 0, ramp, 1.0)
    started = ramp * x**4 * (2.5 + x * (x - 3.0))
    gone = jnp.where(t >= ramp, t - ramp / 2, jnp.where(t > 0, started, 0.0))
    return gone / (period - ramp / 2)


class _Eased(eqx.Module):
    """A path traversed once in `period`, with a start from rest that takes the time `ramp`."""

    period: Any = parameter(default=20.0)
    ramp: Any = parameter(default=3.0)

    def __check_init__(self) -> None:
        _checks.check_positive("period", self.period)
        check_ramp(self.ramp, self.period)

    @abstractmethod
    def along(self, s: Scalar) -> Float[Array, " 2"]:
        """The point at the fraction s of the path."""

    def __call__(self, t: Time) -> Float[Array, " 2"]:
        return self.along(eased(t, self.ramp, self.period))


class FigureEight(_Eased):
    r"""The lemniscate of Gerono: (W/2 sin φ, H/2 sin 2φ), φ = 2π s(t).

    **Arguments:** `width`: W, `height`: H [m]; `period`: time of one round, including the start [s];
    `ramp`: time in which it reaches its full speed [s].
    """

    width: Any = parameter(default=2.0)
    height: Any = parameter(default=1.0)

    def __check_init__(self) -> None:
        _checks.check_numbers(self, finite=("width", "height"))

    def along(self, s: Scalar) -> Float[Array, " 2"]:
        phase = 2 * np.pi * s
        return jnp.stack([self.width / 2 * jnp.sin(phase), self.height / 2 * jnp.sin(2 * phase)])


class Circle(_Eased):
    """A circle through the origin, R (sin φ, 1 − cos φ), φ = 2π s(t).

    **Arguments:** `radius`: R [m]; `period`, `ramp` [s] as for `FigureEight`.
    """

    radius: Any = parameter(default=1.0)

    def __check_init__(self) -> None:
        _checks.check_numbers(self, finite=("radius",))

    def along(self, s: Scalar) -> Float[Array, " 2"]:
        phase = 2 * np.pi * s
        return self.radius * jnp.stack([jnp.sin(phase), 1 - jnp.cos(phase)])


class Line(_Eased):
    """A straight line, s(t) · `end`, which continues at the same speed after `period`.

    **Arguments:** `end`: the point at the time `period`, `(2,)` [m]; `period`, `ramp` [s] as for `FigureEight`.
    """

    end: Any = parameter(default=(1.0, 0.0))

    def __check_init__(self) -> None:
        _checks.check_shape("end", self.end, (2,), "A point of the plane.")
        _checks.check_finite("end", self.end)

    def along(self, s: Scalar) -> Float[Array, " 2"]:
        return s * self.end
