"""The model of a fit: system, parameters, measurements, loss and priors, without the data."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, Time
from jaxhamel.identify._data._measurements import AbstractMeasurement, as_offset
from jaxhamel.identify._linearised._losses import AbstractLoss
from jaxhamel.identify._parameters._parameters import AbstractParameter
from jaxhamel.identify._parameters._state_prior import StatePrior
from jaxhamel.mechanics import System


class Unknowns(eqx.Module):
    """The unknowns of a fit: the states (`q`, `u`) at the N nodes, the offsets of the R runs, the P coordinates z."""

    q: Configuration
    u: Float[Array, "N k"]
    offsets: Float[Array, "R o"]
    z: Float[Array, " P"]


class Model(eqx.Module):
    """The model that predicts the measurements from the unknowns: the system as a function of the coordinates z of its
    parameters, the measurements, the loss of a residual, and the priors.
    """

    system: System
    parameters: tuple[AbstractParameter, ...]
    measurements: tuple[AbstractMeasurement, ...]
    loss: AbstractLoss
    priors: tuple[StatePrior, ...] = ()

    # --- parameters ------------------------------------------------------------------------------------------------

    def coordinates(self, system: System | None = None) -> Float[Array, " P"]:
        """The coordinates z of the parameters of a system, by default of the model's own system."""
        system = self.system if system is None else system
        pieces = [p.coordinates(system) for p in self.parameters]
        return jnp.concatenate([*pieces, jnp.zeros(0, jnp.result_type(float))])

    def system_at(self, z: Float[Array, " P"]) -> System:
        """The system with the parameters at the coordinates z."""
        system, start = self.system, 0
        for parameter in self.parameters:
            size = parameter.coordinates(self.system).shape[0]
            system = parameter.put(system, z[start : start + size])
            start += size
        return system

    def quantities(self, z: Float[Array, " P"]) -> Float[Array, " r"]:
        """The reported quantities at z, including frozen ones."""
        system = self.system_at(z)
        pieces = [p.quantities(system) for p in self.parameters]
        return jnp.concatenate([*pieces, jnp.zeros(0, z.dtype)])

    def prior_residual(self, z: Float[Array, " P"]) -> Float[Array, " p"]:
        """The residuals of all priors on the parameters at z."""
        system = self.system_at(z)
        pieces = [p.prior.residual(p.quantities(system)) for p in self.parameters if p.prior]
        return jnp.concatenate([*pieces, jnp.zeros(0, z.dtype)])

    def state_residual(
        self, system: System, t: Time, state: tuple[Configuration, Array], control: Control
    ) -> Float[Array, " s"]:
        """The residuals of all priors on a run's initial state, at the given one."""
        pieces = [prior.residual(system, t, state, control) for prior in self.priors]
        return jnp.concatenate([*pieces, jnp.zeros(0, state[1].dtype)])

    # --- offsets ---------------------------------------------------------------------------------------------------

    @property
    def offset_size(self) -> int:
        """The number o of offsets of one run."""
        return sum(m.error_size for m in self.measurements if m.offset is not None)

    def offset_widths(self) -> Float[Array, " o"]:
        """The prior standard deviations of the offsets of one run."""
        known = [m for m in self.measurements if m.offset is not None]
        rows = [jnp.full(m.error_size, as_offset(m), jnp.result_type(float)) for m in known]
        return jnp.concatenate([*rows, jnp.zeros(0, jnp.result_type(float))])

    def split_offsets(self, offsets: Float[Array, " o"]) -> list[Float[Array, " r"]]:
        """The offset of each measurement, from the offsets of one run; zero for a measurement without an offset."""
        pieces, start = [], 0
        for m in self.measurements:
            size = 0 if m.offset is None else m.error_size
            given = offsets[start : start + size]
            pieces.append(given if size else jnp.zeros(m.error_size, offsets.dtype))
            start += size
        return pieces

    @property
    def uses_rates(self) -> bool:
        """Whether any measurement uses the rates (q̇, u̇)."""
        return any(m.uses_rates for m in self.measurements)
