"""Measurements: functions of the state, each with its noise, its unknown offset, and the definition of its error.

A measurement is a callable pytree `(system, t, q, u, control) -> (d,)`; `Measured` makes one from any function of the state.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.geometry import SO3
from jaxhamel.identify._checks._runs import check_entries, check_factor
from jaxhamel.mechanics import System
from jaxhamel.mechanics._controls._kinematic import driven_by
from jaxhamel.mechanics._kinematics import velocity_of

Value = Float[Array, " d"]


class AbstractMeasurement(eqx.Module):
    """A measured quantity.

    - `name`: the key of its values in runs; `columns`: its columns in CSV files; `unit`: its SI unit.
    - `noise`: the standard deviation of its noise, one number or one for each component; None: the fit estimates it.
    - `offset`: None for a sensor without offset; otherwise the prior standard deviation of a constant offset, different
      for each run (`jnp.inf`: no prior).
    - `limit`: the largest plausible value; a larger one in a file is refused as a wrong unit.
    """

    name: eqx.AbstractVar[str]
    columns: eqx.AbstractVar[tuple[str, ...]]
    unit: eqx.AbstractVar[str]
    noise: eqx.AbstractVar[Any]
    offset: eqx.AbstractVar[float | None]
    limit: eqx.AbstractVar[float]

    @abstractmethod
    def __call__(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Value:
        """The predicted value, without noise and offset."""

    def along(
        self,
        system: System,
        t: Time,
        q: Configuration,
        u: QuasiVelocity,
        rates: Any,
        control: Control,
    ) -> Value:
        """The predicted value at a point of a motion, `rates` being (q̇, u̇) there, or None if they are not known.

        By default it does not depend on the rates. A measurement that needs accelerations should use them: to evaluate the
        equations of motion again would double the time and the size of the program.
        """
        return self(system, t, q, u, control)

    @property
    def uses_rates(self) -> bool:
        """Whether `along` uses the rates."""
        return False

    def error(self, measured: Value, value: Value, offset: Value) -> Float[Array, " r"]:
        """The residual value + offset − measured; `value`: the model's prediction, `offset`: the offset of the sensor."""
        return value + offset - measured

    @property
    def size(self) -> int:
        """The number d of measured values."""
        return len(self.columns)

    @property
    def error_size(self) -> int:
        """The number r of components of the error."""
        return len(self.columns)

    @property
    def missing(self) -> tuple[float, ...]:
        """The numbers in place of a missing value, `(d,)`: its error is finite, and a weight of zero removes it."""
        return (0.0,) * self.size

    def guess(
        self, measured: Value, q: Configuration, u: QuasiVelocity
    ) -> tuple[Configuration, QuasiVelocity]:
        """An initial guess of the state: (q, u) with the measured components set to `measured`; by default (q, u) itself."""
        return q, u


class Measured(AbstractMeasurement):
    """A measurement made from any function of the state, `function(system, t, q, u, control) -> (d,)`, a callable pytree.

    **Arguments:** `function`; `columns`: one name for each component; `name`, `unit`, `noise`, `offset`, `limit` as for all
    measurements.
    """

    function: Callable[..., Any]
    columns: tuple[str, ...] = eqx.field(static=True)
    name: str = eqx.field(static=True, default="measured")
    unit: str = eqx.field(static=True, default="")
    noise: Any = None
    offset: float | None = None
    limit: float = eqx.field(static=True, default=float("inf"))

    def __call__(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        return jnp.atleast_1d(self.function(system, t, q, u, control))


def usual_limit(unit: str) -> float:
    """The `limit` of a coordinate with this unit, if none is given."""
    return {"rad": 4 * math.pi, "rad/s": 100.0, "m": 1e3}.get(unit, math.inf)


class Coordinate(AbstractMeasurement):
    """A joint angle or another entry of the stored configuration: `q[index]`, or `q[part][index]` on a product space.

    **Arguments:** `index`; `part`: index of the factor of a product space, None if q is one array; `rate`: whether the time
    derivative is measured instead; `columns`: one name, default: `name`; all others as for all measurements, with these
    defaults:

    - `unit`: the unit that the system's class gives the coordinate, as soon as a problem is made with the measurement;
      before that rad, or rad/s for a rate.
    - `limit`: two turns, 100 rad/s or 1 km, depending on the unit; none for other units.
    """

    index: int = eqx.field(static=True)
    part: int | None = eqx.field(static=True, default=None)
    rate: bool = eqx.field(static=True, default=False)
    name: str = eqx.field(static=True, default="coordinate")
    columns: tuple[str, ...] = eqx.field(static=True, default=())
    unit: str = eqx.field(static=True, default=None)
    noise: Any = None
    offset: float | None = None
    limit: float = eqx.field(static=True, default=None)
    unit_given: bool = eqx.field(static=True, init=False)

    def __post_init__(self) -> None:
        self.columns, self.unit_given = self.columns or (self.name,), self.unit is not None
        if self.unit is None:
            self.unit = "rad/s" if self.rate else "rad"
        if self.limit is None:
            self.limit = usual_limit(self.unit)

    def __call__(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        if self.rate:
            q = system.space.rate(q, velocity_of(driven_by(system, control), t, q, u))
        owner = f"measurement {self.name!r}"
        check_factor(owner, q, self.part)
        x = _part_of(q, self.part)
        check_entries(owner, (self.index,), x.shape[0])
        return x[self.index][None]

    def guess(
        self, measured: Array, q: Configuration, u: QuasiVelocity
    ) -> tuple[Configuration, QuasiVelocity]:
        return (q, u) if self.rate else (_with_part(q, self.part, self.index, measured[0]), u)


class Position(AbstractMeasurement):
    """The position of the body's origin [m]: that of an SE3 or SE2 configuration, or the factor `part` of a product space.

    Give as many `columns` as there are coordinates; `name`, `unit`, `noise`, `offset`, `limit` are as for all measurements.
    """

    part: int | None = eqx.field(static=True, default=1)
    name: str = eqx.field(static=True, default="position")
    columns: tuple[str, ...] = eqx.field(static=True, default=("x", "y"))
    unit: str = eqx.field(static=True, default="m")
    noise: Any = None
    offset: float | None = None
    limit: float = eqx.field(static=True, default=1e3)

    def __call__(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        return position_of(q, self.part, self.name)

    def guess(
        self, measured: Array, q: Configuration, u: QuasiVelocity
    ) -> tuple[Configuration, QuasiVelocity]:
        start = {7: 4, 3: 1}.get(q.shape[0], 0) if not isinstance(q, tuple) else 0
        place = jnp.arange(start, start + self.size)
        return _with_part(q, self.part if isinstance(q, tuple) else None, place, measured), u


class Orientation(AbstractMeasurement):
    r"""A unit quaternion (w, x, y, z), body to space; the error is a rotation vector in the body frame [rad]:

        e = log(q_measured⁻¹ q exp(offset)) ∈ R³ ,

    the same for q and −q. `part`: index of the factor of a product space; `name`, `columns`, `unit`, `noise` (of e, one
    number or three), `offset`, `limit` as for all measurements.
    """

    part: int | None = eqx.field(static=True, default=0)
    name: str = eqx.field(static=True, default="orientation")
    columns: tuple[str, ...] = eqx.field(static=True, default=("qw", "qx", "qy", "qz"))
    unit: str = eqx.field(static=True, default="rad")
    noise: Any = None
    offset: float | None = None
    limit: float = eqx.field(static=True, default=1.01)

    def __call__(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        return quaternion_of(q, self.part, self.name)

    def error(self, measured: Array, value: Array, offset: Array) -> Array:
        return SO3().local(measured, SO3().retract(value, offset))

    @property
    def error_size(self) -> int:
        return 3

    @property
    def missing(self) -> Any:
        return (1.0, 0.0, 0.0, 0.0)

    def guess(
        self, measured: Array, q: Configuration, u: QuasiVelocity
    ) -> tuple[Configuration, QuasiVelocity]:
        part = self.part if isinstance(q, tuple) else None
        return _with_part(q, part, jnp.arange(4), SO3().normalise(measured)), u


def _part_of(q: Configuration, part: int | None) -> Array:
    return q if part is None else q[part]


def _with_part(q, part, index, value):
    if part is None:
        return q.at[index].set(jnp.asarray(value, q.dtype))
    new = q[part].at[index].set(jnp.asarray(value, q[part].dtype))
    return (*q[:part], new, *q[part + 1 :])


def quaternion_of(q: Configuration, part: int | None, name: str) -> Array:
    """The quaternion in q. `part`: index of its factor in a product space; `name`: the measurement's name, for messages."""
    return _factor(q, 0 if part is None else part, name) if isinstance(q, tuple) else q[:4]


def _factor(q: tuple[Array, ...], part: int, name: str) -> Array:
    check_factor(f"measurement {name!r}", q, part)
    return q[part]


def position_of(q: Configuration, part: int | None, name: str) -> Array:
    """The position in q; arguments as for `quaternion_of`."""
    if isinstance(q, tuple):
        return _factor(q, -1 if part is None else part, name)
    return q[4:] if q.shape[0] == 7 else q[1:] if q.shape[0] == 3 else q


def without_noise(measurement: AbstractMeasurement) -> AbstractMeasurement:
    """The measurement with its noise set to None: a compiled program gets the noise as an argument, and serves for any."""
    return eqx.tree_at(lambda m: m.noise, measurement, None, is_leaf=lambda x: x is None)


def as_offset(measurement: AbstractMeasurement) -> ArrayLike:
    """The prior standard deviation of a measurement's offset; infinite for a measurement without offset."""
    return jnp.inf if measurement.offset is None else measurement.offset
