"""The motion in one segment, its predicted measurements and residuals, and their derivatives in forward mode."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration
from jaxhamel.identify._data._segments import Segments
from jaxhamel.identify._linearised._model import Model
from jaxhamel.mechanics import VectorField
from jaxhamel.mechanics._controls._recorded import over_step
from jaxhamel.mechanics._tangent import local, retract, tangent_size
from jaxhamel.simulate._solvers._runge_kutta import RK4, looped


class SegmentMotion(NamedTuple):
    """The states (q, u) at the K + 1 times of a segment, and their `rates` (q̇, u̇) if a measurement needs them, else None."""

    q: Configuration
    u: Float[Array, "K+1 k"]
    rates: tuple[Configuration, Float[Array, "K+1 k"]] | None


class Blocks(NamedTuple):
    """N segments linearised at increments δ of their nodes, dz of the coordinates and do of the offsets:

        residual ≈ r + J_x δ + J_z dz + J_o do ,    end ≈ x_next · exp(gap + G δ + H dz) ,

    where `end` is the state at the end of the segment and x_next that at the next node. The first residuals are those of the
    measurements, as many as in `plain`; those of the priors on the initial state follow, which are 0 except in the first
    segment of a run.
    """

    r: Float[Array, "N m"]
    J_x: Float[Array, "N m n"]
    J_z: Float[Array, "N m P"]
    J_o: Float[Array, "N m o"]
    gap: Float[Array, "N n"]
    G: Float[Array, "N n n"]
    H: Float[Array, "N n P"]
    plain: Float[Array, "N e"]  # errors in units of their noise, before loss and weights


def states(model: Model, z, control, x, ts: Float[Array, " K+1"], counts: Any = 1) -> SegmentMotion:
    """The motion from the state x at the times `ts`, by the classical Runge–Kutta method.

    `counts`: number of steps in each interval, `(K,)`, which may be traced; or one integer for all intervals, without which
    reverse mode is not possible. The stages are computed in the stored coordinates, those of the space in which the group
    is embedded; each step ends with a projection to the group.
    """
    field, system = VectorField(), model.system_at(z)

    def rate_over(t, h):
        here = over_step(control, t, h)

        def rate(t, y):
            return field(t, y, (system, here))

        # so that reverse mode stores only states, not the stages
        return jax.checkpoint(rate, prevent_cse=False) if isinstance(counts, int) else rate

    starts, lengths, each = ts[:-1], jnp.diff(ts), counts
    if isinstance(counts, int):
        each = jnp.full(lengths.shape, counts)
    if not model.uses_rates:
        interval = _interval(rate_over, system.space.normalise, counts)
        end, (before, _) = jax.lax.scan(interval, x, (starts, lengths, each))
        q, u = jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), before, end)
        return SegmentMotion(q, u, None)
    # the rates are the slopes at the start of each step, so the last time gets a step of length zero
    lengths = jnp.concatenate([lengths, jnp.zeros(1, ts.dtype)])
    each = jnp.concatenate([each, jnp.ones(1, each.dtype)])
    interval = _interval(rate_over, system.space.normalise, counts)
    _, ((q, u), rates) = jax.lax.scan(interval, x, (ts, lengths, each))
    return SegmentMotion(q, u, rates)


def _interval(rate_over, normalise, counts):
    """The body of a `lax.scan` over intervals: from x and (t, length, number of steps) it computes x at the end of the
    interval, and (x, ẋ) at its start.

    `rate_over`: (t, h) ↦ the rate (t, x) ↦ ẋ for the step from t to t + h.
    """

    def step(t, h, x):
        (q, u), slopes = looped(rate_over(t, h), RK4, t, h, x)
        return (normalise(q), u), jax.tree.map(lambda k: k[0], slopes)

    def interval(x, given):
        t, h, count = given
        h = h / jnp.asarray(count, h.dtype)

        def substep(i, carry):
            x_after, slope = step(t + jnp.asarray(i, h.dtype) * h, h, carry[0])
            return x_after, jax.tree.map(lambda a, b: jnp.where(i == 0, b, a), carry[1], slope)

        bounds = 0, counts if isinstance(counts, int) else count
        end, slope = jax.lax.fori_loop(*bounds, substep, (x, jax.tree.map(jnp.zeros_like, x)))
        return end, (x, slope)

    return interval


def predicted(
    model: Model, system, control, motion: SegmentMotion, ts
) -> list[Float[Array, "K+1 d"]]:
    """The predicted values of each measurement along a motion, without noise and offset."""
    return [
        jax.vmap(lambda t, q, u, rates, m=m: m.along(system, t, q, u, rates, control))(ts, *motion)
        for m in model.measurements
    ]


def residual(model: Model, values, there, shown, offsets, noise):
    """The errors of all measurements in units of their noise, `(m,)`; zero where a value is missing.

    `values`, `there`: the measured values of each measurement, and weights that are zero for missing ones; `shown`: the
    predicted values; `offsets`: those of the segment's run.
    """
    errors = [
        jax.vmap(m.error, (0, 0, None))(value, one, offset)
        for m, value, one, offset in zip(
            model.measurements, values, shown, model.split_offsets(offsets), strict=True
        )
    ]
    whole = jnp.concatenate(errors, axis=1) / noise[None, :]
    return jnp.where(there > 0, whole, jnp.zeros_like(whole)).ravel()


def blocks(model: Model, segments: Segments, x, x_next, offsets, z, noise) -> Blocks:
    """Integrates and linearises the segments of a group.

    `x`, `x_next`: the states at the segments' own nodes and at the next ones; `offsets`: the offsets of each segment's run,
    `(N, o)`.
    """
    arrays, others = eqx.partition(segments.control, eqx.is_array)

    def one(ts, data, first, arrays, x, x_next, offsets):
        control = eqx.combine(arrays, others)
        counts = segments.counts
        return _blocks_of_segment(
            model, ts, counts, data, first, control, x, x_next, offsets, z, noise
        )

    data = (segments.values, segments.there, segments.weight)
    given = (segments.ts, data, segments.first, arrays)
    return jax.vmap(one)(*given, x, x_next, offsets)


def weighed(model: Model, plain: Float[Array, " e"], weight: Float[Array, " K+1"]):
    """The residuals of the measurements: the errors `plain` transformed by the loss, times the weight of their time."""
    return model.loss.transformed(plain) * jnp.repeat(weight, plain.shape[0] // weight.shape[0])


def _blocks_of_segment(
    model: Model, ts, counts, data, first, control, x, x_next, offsets, z, noise
) -> Blocks:
    """Integrates and linearises one segment, from the state x; the arrays of the result have no leading axis N."""
    n = tangent_size(model.system)
    values, there, weight = data

    def arc(increments):
        z_here = z + increments[n:]
        system, start = model.system_at(z_here), retract(model.system, x, increments[:n])
        motion = states(model, z_here, control, start, ts, counts)
        end = jax.tree.map(lambda a: a[-1], (motion.q, motion.u))
        shown = predicted(model, system, control, motion, ts)
        plain = residual(model, values, there, shown, offsets, noise)
        known = model.state_residual(system, ts[0], start, control)
        known = jnp.where(first, known, jnp.zeros_like(known))
        r = jnp.concatenate([weighed(model, plain, weight), known])
        gap = local(model.system, x_next, end)
        return (r, gap), (r, gap, shown, plain)

    zero = jnp.zeros(n + z.shape[0], z.dtype)
    (J, D), (r, gap, shown, plain) = jax.jacfwd(arc, has_aux=True)(zero)

    def shifted(o):
        return weighed(model, residual(model, values, there, shown, o, noise), weight)

    J_o = jnp.zeros((r.shape[0], offsets.shape[0]), r.dtype)
    if offsets.shape[0]:
        J_o = J_o.at[: plain.shape[0]].set(jax.jacfwd(shifted)(offsets))
    return Blocks(r, J[:, :n], J[:, n:], J_o, gap, D[:, :n], D[:, n:], plain)
