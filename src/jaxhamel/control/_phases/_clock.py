"""The right-hand side of all phases at once, on the clock s from 0 to 1 that they share."""

from itertools import accumulate

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time
from jaxhamel.geometry import AbstractSpace, Euclidean, Product
from jaxhamel.mechanics import Constant, System
from jaxhamel.mechanics._acceleration import motion


class Together(eqx.Module):
    """The phases of a motion side by side: at the clock time s, phase k has the state of its own time t_k(s) = b_k + s T_k,

        dx_k/ds = T_k f_k(t_k, x_k, c_k) ,     b_1 = begin ,   b_{k+1} = b_k + T_k .

    **Arguments:** `systems`; `durations`: T_k [s]; `begin` [s]; `controls`: the number of controls of each phase.
    """

    systems: tuple[System, ...]
    durations: tuple[Scalar, ...]
    begin: Scalar
    controls: tuple[int, ...] = eqx.field(static=True)

    @property
    def space(self) -> AbstractSpace:
        """The configuration and quasi-velocities of each phase, one after the other."""
        return Product(*(space for system in self.systems for space in _spaces(system)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of tangent coordinates of each phase."""
        return tuple(x.space.dim + x.n_independent for x in self.systems)

    def time(self, k: int, s: Time) -> Scalar:
        """The time t_k(s) of phase k."""
        before = sum(self.durations[:k], self.begin)
        return before + s * self.durations[k]

    def state(self, k: int, q: Configuration) -> tuple[Configuration, QuasiVelocity]:
        """The state (q_k, u_k) of phase k."""
        first = sum(len(_spaces(system)) for system in self.systems[:k])
        if self.systems[k].n_independent:
            return q[first], q[first + 1]
        dtype = self.durations[k].dtype
        return q[first], jnp.zeros(0, dtype)

    def part(self, k: int, c: Float[Array, " m"]) -> Float[Array, " m_k"]:
        """The entries of the control's value c that belong to phase k."""
        ends = tuple(accumulate(self.controls))
        return c[ends[k] - self.controls[k] : ends[k]]

    def control(self, k: int, control: Control) -> "PhaseControl":
        """The control of phase k as a function of the phase's time, from the control of all phases, a function of s."""
        return PhaseControl(self, control, k)

    def at(self, k: int, s: Time, q: Configuration, control: Control):
        """(system, t, q, u, control) of one phase."""
        return (self.systems[k], self.time(k, s), *self.state(k, q), self.control(k, control))

    def __call__(self, s: Time, q: Configuration, c: Float[Array, " m"]) -> Float[Array, " d"]:
        rates = []
        for k, system in enumerate(self.systems):
            at = (self.time(k, s), *self.state(k, q), Constant(self.part(k, c)))
            rates += [self.durations[k] * x for x in motion(system, *at)]
        return jnp.concatenate(rates)


class PhaseControl(eqx.Module):
    """The control of phase k as a function of its own time: the entries c_k of c(s), with t = t_k(s)."""

    clock: Together
    whole: Control
    k: int = eqx.field(static=True)

    def __call__(self, t: Time) -> Float[Array, " m_k"]:
        s = (t - self.clock.time(self.k, 0.0)) / self.clock.durations[self.k]
        return self.clock.part(self.k, self.whole(s))  # pyright: ignore[reportOptionalCall]


def _spaces(system: System) -> tuple[AbstractSpace, ...]:
    own = Euclidean(system.n_independent) if system.n_independent else None
    return (system.space,) if own is None else (system.space, own)


def joined_state(q: Configuration, u: QuasiVelocity) -> tuple[Configuration, ...]:
    """One phase's state as factors of the configuration of all phases."""
    return (q, u) if u.shape[-1] else (q,)
