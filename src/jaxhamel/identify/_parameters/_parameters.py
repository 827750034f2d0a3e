"""Unknown parameters of a system, and unbounded coordinates for them.

A parameter maps a part of a system to dimensionless, unbounded *coordinates* z, and back. Every z gives valid values: a
positive number stays positive, and a body physically possible. Results are reported as the parameter's *quantities*, in
their own units.
"""

import dataclasses
from abc import abstractmethod
from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._words import counted
from jaxhamel.identify._checks._parameters import (
    check_frozen,
    check_inside,
    check_path,
    check_path_is_text,
    check_prior,
    check_unit,
)
from jaxhamel.identify._parameters._paths import leaf_of, unit_at, with_leaf


class Prior(eqx.Module):
    r"""A Gaussian prior on the quantities x of a parameter: (x − mean)/std is an additional residual for each of them.

    **Arguments:**

    - `mean`, `std`: in the unit of the parameter, one number or one for each of its quantities; an infinite `std` means that
      nothing is known.
    - `relative`: whether the residual is log(x/mean)/std instead, for positive quantities; `std=0.1` is then 10 %.
    """

    mean: Array
    std: Array
    relative: bool = eqx.field(static=True, default=False)

    def __init__(self, mean: ArrayLike, std: ArrayLike, relative: bool = False):
        _checks.check_real("mean", mean)
        _checks.check_real("std", std)
        dtype = jnp.result_type(float)
        self.mean, self.std = jnp.asarray(mean, dtype), jnp.asarray(std, dtype)
        self.relative = relative
        check_prior(self.mean, self.std, relative)

    def residual(self, quantities: Float[Array, " r"]) -> Float[Array, " r"]:
        """The residual at given quantities, with one entry for each."""
        mean, std = (
            jnp.broadcast_to(x, quantities.shape).astype(quantities.dtype)
            for x in (self.mean, self.std)
        )
        change = jnp.log(quantities / mean) if self.relative else quantities - mean
        return change / std


class AbstractParameter(eqx.Module):
    """An unknown part of a system.

    - `path`: the path of its array in the system, or of a part of it: `"masses"`, `"rails.radius"`,
      `"rails.groups.0.radius"`, `"masses.2"`.
    - `unit`: the unit of its quantities, for tables; empty for that of the field in its class.
    - `prior`: a `Prior` on its quantities, or None.
    """

    path: eqx.AbstractVar[str]
    unit: eqx.AbstractVar[str]
    prior: eqx.AbstractVar[Prior | None]

    def __check_init__(self) -> None:
        check_path_is_text(self.path)

    @abstractmethod
    def resolved(self, system: Any) -> "AbstractParameter":
        """The parameter, completed with shapes and scales from the initial system; raises an error if it does not fit."""

    @abstractmethod
    def coordinates(self, system: Any) -> Float[Array, " k"]:
        """The coordinates z of the parameter's values in a system; frozen entries have no coordinate."""

    @abstractmethod
    def put(self, system: Any, z: Float[Array, " k"]) -> Any:
        """The system with the parameter's values set from its coordinates z."""

    @abstractmethod
    def quantities(self, system: Any) -> Float[Array, " r"]:
        """The quantities that are reported for a system, in their units, including frozen ones."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names of the quantities."""

    @abstractmethod
    def units(self) -> list[str]:
        """The units of the quantities."""

    @abstractmethod
    def is_frozen(self) -> list[bool]:
        """For each quantity, whether it is frozen."""

    @abstractmethod
    def sizes(self, system: Any) -> Float[Array, " r"]:
        """The change of each quantity that counts as 100 %."""

    def bound(self, value: Float[np.ndarray, " r"]) -> list[str]:
        """For each quantity the bound that it has reached: `"lower"`, `"upper"`, or `""` for none."""
        return [""] * len(value)


def _as_static(frozen: Any) -> Any:
    """An array as nested lists, so that it can be a static field."""
    return frozen.tolist() if hasattr(frozen, "tolist") else frozen


class _Entries(AbstractParameter):
    """The entries of one array of the system, each with its own coordinate unless it is frozen."""

    path: str = eqx.field(static=True)
    unit: str = eqx.field(static=True, default="")
    frozen: Any = eqx.field(static=True, default=False, converter=_as_static)
    prior: Prior | None = None
    shape: tuple[int, ...] | None = eqx.field(static=True, default=None, kw_only=True)

    @abstractmethod
    def to_coordinate(self, x: Array) -> Array:
        """The coordinates z of the free entries, from their values x."""

    @abstractmethod
    def from_coordinate(self, z: Array) -> Array:
        """The values of the free entries, from their coordinates z."""

    def resolved(self, system: Any) -> Self:
        check_path(system, self.path)
        check_unit(self.path, self.unit)
        leaf = leaf_of(system, self.path)
        mask = check_frozen(self.path, self.frozen, leaf.shape)
        unit = self.unit or unit_at(system, self.path)
        resolved = dataclasses.replace(self, frozen=mask, shape=leaf.shape, unit=unit)
        resolved.check(np.asarray(leaf)[~np.array(mask, bool).reshape(leaf.shape)])
        return resolved

    def check(self, values: np.ndarray) -> None:
        """Checks that the initial values are valid, so that coordinates exist for them."""
        _checks.check_finite(self.path, values)

    @property
    def _free(self) -> np.ndarray:
        """The indices of the entries that are not frozen."""
        return np.flatnonzero(~np.array(self.frozen, dtype=bool))

    def coordinates(self, system: Any) -> Array:
        return self.to_coordinate(leaf_of(system, self.path).ravel()[self._free])

    def put(self, system: Any, z: Array) -> Any:
        leaf = leaf_of(system, self.path)
        new = leaf.ravel().at[self._free].set(self.from_coordinate(z).astype(leaf.dtype))
        return with_leaf(system, self.path, new.reshape(leaf.shape))

    def quantities(self, system: Any) -> Array:
        return leaf_of(system, self.path).ravel()

    def names(self) -> list[str]:
        shape = self.shape or ()
        places = ["".join(f"[{i}]" for i in index) for index in np.ndindex(*shape)]
        return [f"{self.path}{place}" for place in places]

    def units(self) -> list[str]:
        return [self.unit] * len(self.names())

    def is_frozen(self) -> list[bool]:
        return [bool(x) for x in np.ravel(self.frozen)]

    def sizes(self, system: Any) -> Array:
        return jnp.abs(self.quantities(system))


class Positive(_Entries):
    r"""Positive numbers x with the coordinates z = log x: a change of z by 0.01 changes x by 1 %.

    **Arguments:**

    - `path`: the path of the array in the system, such as `"masses"`, or of one entry, `"masses.2"`; `unit`: its unit, for
      tables; without one that of the field, if the class states it by `jaxhamel.parameter`.
    - `frozen`: True to keep the whole array fixed, or a list with True for each entry that is kept fixed.
    - `prior`: a `Prior`, or None.
    """

    def to_coordinate(self, x: Array) -> Array:
        return jnp.log(x)

    def from_coordinate(self, z: Array) -> Array:
        return jnp.exp(z)

    def check(self, values: Array) -> None:
        _checks.check_positive(
            self.path, values, "Positive uses log x: start above zero, or use Free or Bounded."
        )


class Free(_Entries):
    r"""Numbers x of any sign, with the coordinates z = x / scale.

    **Arguments:** `path`, `unit`, `frozen`, `prior`: see `Positive`; `scale`: the size of a large change, in the unit of x;
    by default the largest initial |x|, or 1 if all are zero.
    """

    scale: Any = None

    def resolved(self, system: Any) -> Self:
        mine = super().resolved(system)
        size = float(np.max(np.abs(np.asarray(leaf_of(system, self.path))), initial=0.0))
        scale = (size or 1.0) if self.scale is None else self.scale
        _checks.check_positive("scale", scale)
        return dataclasses.replace(mine, scale=jnp.asarray(scale, jnp.result_type(float)))

    def to_coordinate(self, x: Array) -> Array:
        return x / self.scale

    def from_coordinate(self, z: Array) -> Array:
        return self.scale * z

    def sizes(self, system: Any) -> Array:
        x = self.quantities(system)
        return jnp.broadcast_to(self.scale.astype(x.dtype), x.shape)


class Bounded(_Entries):
    r"""Numbers x between two bounds l and u, with the coordinates z for which x = l + (u − l) / (1 + e^−z).

    **Arguments:** `path`, `unit`, `frozen`, `prior`: see `Positive`; `lower`, `upper`: l < u, in the unit of x.
    """

    lower: float = 0.0
    upper: float = 1.0

    def check(self, values: Array) -> None:
        check_inside(self.path, values, self.lower, self.upper)

    def to_coordinate(self, x: Array) -> Array:
        share = (x - self.lower) / (self.upper - self.lower)
        return jnp.log(share / (1 - share))

    def from_coordinate(self, z: Array) -> Array:
        return self.lower + (self.upper - self.lower) / (1 + jnp.exp(-z))

    def sizes(self, system: Any) -> Array:
        x = self.quantities(system)
        return jnp.full(x.shape, self.upper - self.lower, x.dtype)

    def bound(self, value: Array) -> list[str]:
        share = (np.asarray(value) - self.lower) / (self.upper - self.lower)
        return ["lower" if s < 1e-3 else "upper" if s > 1 - 1e-3 else "" for s in share]


def check_prior_fits(path: str, prior: Any, count: int) -> None:
    """Checks that the prior has one mean and one standard deviation, or one for each of the parameter's `count`
    quantities.
    """
    if prior is None:
        return
    _checks.check_kind(f"prior` of `{path}", prior, Prior, "it must be identify.Prior(mean, std).")
    for name in ("mean", "std"):
        shape = np.shape(getattr(prior, name))
        if shape not in ((), (1,), (count,)):
            raise ValueError(
                f"`{name}` of the prior of `{path}` has shape {shape}; it must be one number, or one for each of "
                f"{counted(count, 'quantity', 'quantities')}."
            )
