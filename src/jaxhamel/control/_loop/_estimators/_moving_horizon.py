"""A moving-horizon estimator on the group: fits the latest states to the latest observations, all at once."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time
from jaxhamel.control._checks._controllers import check_moving_horizon, check_width
from jaxhamel.control._checks._estimates import check_estimate
from jaxhamel.control._loop._estimators._kalman import Belief, KalmanFilter, belief_about_mean
from jaxhamel.control._loop._estimators._model import (
    as_matrix,
    misfit,
    noise_covariance,
    observation,
)
from jaxhamel.control._loop._estimators._smoother import Chain, filtered, smoothed
from jaxhamel.control._loop._estimators._within_limits import Inequalities, within
from jaxhamel.control._problem._limits import PathLimit
from jaxhamel.mechanics import Constant, as_control
from jaxhamel.mechanics._tangent import MotionState, local, retract, tangent_size


class MovingWindow(eqx.Module):
    """The latest samples of a moving horizon, and the estimate of the present state with its covariance.

    - `latest`: the belief at the last sample, also as `q`, `u`, `covariance`; `first`, `second`: the beliefs at the first
      and the second sample of the window, each before its observation.
    - `states`: the estimated states at all samples; `ts`, `seen`, `felt`: times, observations, and the commands that acted
      during the observations; `commands`, `periods`: the command after each sample, and its duration. All have a leading
      axis of length N.
    - `count`: the number of samples so far, at most N; `violation`: the largest excess of the states over their limits, in
      the unit of the limit.
    """

    latest: Belief
    first: Belief
    second: Belief
    states: MotionState
    ts: Float[Array, " N"]
    seen: Any
    felt: Float[Array, "N p"]
    commands: Float[Array, "N p"]
    periods: Float[Array, " N"]
    count: Int[Array, ""]
    violation: Scalar

    @property
    def q(self) -> Configuration:
        """The estimate of the present configuration."""
        return self.latest.q

    @property
    def u(self) -> QuasiVelocity:
        """The estimate of the present quasi-velocities."""
        return self.latest.u

    @property
    def covariance(self) -> Float[Array, "n+k n+k"]:
        """The covariance P of the present estimate's error."""
        return self.latest.covariance


class MovingHorizonEstimator(eqx.Module):
    """The estimate that fits the last N observations z_i best, all at once:

        min ½ |δ_0|²_{P⁻¹} + ½ Σ |z_i − m(x_i)|²_{R⁻¹} + ½ Σ |w_i|²_{(W T)⁻¹} ,
        x_0 = x̄ exp δ_0 ,   x_{i+1} = flow(x_i) exp w_i .

    x̄ and P, the arrival cost, are those of the filter, linearised at the estimates of the window; so on a vector space with
    linear equations the estimate is Kalman's for every N. Otherwise later observations correct the linearisation of
    earlier ones, which a filter cannot. Gauss–Newton steps in exponential coordinates of all x_i are solved by a
    filter forward and its adjoint backward; P and W may be singular.

    Under `limits` all x_i of the window keep lower ≤ g(t_i, x_i) ≤ upper, linearised in each Gauss–Newton step. P is
    computed without limits, and the arrival cost does not contain the limits of samples that have left the window.

    **Arguments:**

    - `filter`: a `KalmanFilter`, which has the model, the sensors, the belief before the first sample and W. Its
      `iterations` are not used.
    - `window`: N, the number of samples.
    - `iterations`: Gauss–Newton steps in each sample; they start from the estimates of the sample before.
    - `n_controls`: p, the number of entries of a command; None if the system defines it.
    - `limits`: `PathLimit`s of the states, called with the command under which the observation was made. If the equations
      leave no states within the limits, the window's `violation` is the largest excess over them.

    Give it to `Sampled(law, period, sensors=..., estimator=...)`, like a filter. For estimates alone call `start`, then
    `update` and `predict` in turn; the control is taken as constant between two samples.

    **Raises:** `TypeError` or `ValueError` for a `filter` that is no `KalmanFilter`, counts that are no whole numbers, and
    limits that are no `PathLimit`s, have equal bounds, or do not depend on the state.

    Source: Rao, Rawlings and Mayne 2003, also for limits; Bell 1994 for Gauss–Newton steps by smoothing.
    """

    filter: KalmanFilter
    window: int = eqx.field(static=True, default=10)
    iterations: int = eqx.field(static=True, default=1)
    n_controls: int | None = eqx.field(static=True, default=None)
    limits: tuple[PathLimit, ...] = ()
    in_lanes: ClassVar[bool] = False

    def __check_init__(self) -> None:
        check_moving_horizon(self)

    def start(self) -> MovingWindow:
        """The window before the first sample."""
        belief, filter = self.filter.start(), self.filter
        state = (belief.q, belief.u)

        def many(x):
            return jnp.broadcast_to(x, (self.window, *x.shape))

        zero = jnp.zeros((), belief.u.dtype)
        command = jnp.zeros(self._width, zero.dtype)
        seen = observation(filter.sensors, filter.system, state, zero, Constant(command))
        rows = zero, seen, command, command, zero
        states, ts, seen, felt, commands, periods = jax.tree.map(many, (state, *rows))
        beliefs = belief, belief, belief
        rows = ts, seen, felt, commands, periods
        return MovingWindow(*beliefs, states, *rows, jnp.asarray(1), zero)

    def update(
        self, window: MovingWindow, t: Time, seen: Any, control: Control = None
    ) -> MovingWindow:
        """The window after the observation `seen` at t, in the form that the sensors give."""
        check_estimate("window", window, "latest")
        here = jnp.arange(self.window) == window.count - 1

        def put(rows, x):
            return jax.tree.map(lambda a, b: _with_row(a, b, here), rows, x)

        rows = put((window.ts, window.seen, window.felt), (t, seen, self._value(control, t)))
        window = eqx.tree_at(lambda x: (x.ts, x.seen, x.felt), window, rows)

        def again(_, window):
            return self._improved(window)

        return jax.lax.fori_loop(0, self.iterations, again, window)

    def predict(
        self, window: MovingWindow, t: Time, period: Scalar, control: Control = None
    ) -> MovingWindow:
        """The window one period later, under `control`; a full window drops its first sample."""
        check_estimate("window", window, "latest")
        latest = self.filter.predict(window.latest, t, period, control)
        here = jnp.arange(self.window) == window.count - 1
        commands = _with_row(window.commands, self._value(control, t), here)
        periods = _with_row(window.periods, period, here)
        full = window.count == self.window
        second = latest if self.window == 1 else window.second
        first = jax.tree.map(lambda a, b: jnp.where(full, a, b), second, window.first)
        rows = window.states, window.ts, window.seen, window.felt, commands, periods
        rows = jax.tree.map(lambda x: jnp.where(full, jnp.roll(x, -1, axis=0), x), rows)
        states, ts, seen, felt, commands, periods = rows
        count = jnp.minimum(window.count + 1, self.window)
        here = jnp.arange(self.window) == count - 1
        states = jax.tree.map(lambda a, b: _with_row(a, b, here), states, (latest.q, latest.u))
        rows = states, ts, seen, felt, commands, periods
        return MovingWindow(latest, first, second, *rows, count, window.violation)

    @property
    def _width(self) -> int:
        return (
            self.n_controls if self.n_controls is not None else self.filter.system.n_controls or 0
        )

    def _value(self, control: Control, t: Time) -> Float[Array, " p"]:
        """The value of a control at t; zeros for None."""
        function = as_control(control)
        value = jnp.zeros(self._width) if function is None else jnp.asarray(function(t))
        check_width(value, self._width)
        return value

    def _improved(self, window: MovingWindow) -> MovingWindow:
        """The window after a Gauss–Newton step."""
        system, states = self.filter.system, window.states
        chain, prior, R = self._chain(window), self._prior(window), self._noise(window)
        found = filtered(chain, *prior, R)
        deltas = smoothed(chain, found)
        if self.limits:
            deltas = within(self._inequalities(window), chain, *prior, R, deltas, found.C)

        def at(x, i):
            return jax.tree.map(lambda x: jnp.take(x, i, axis=0), x)

        last = window.count - 1
        latest = belief_about_mean(system, at(states, last), *at((deltas, found.C), last))
        after = min(1, self.window - 1)
        second = belief_about_mean(system, at(states, after), found.m[after], found.P[after])
        states = jax.vmap(lambda x, delta: retract(system, x, delta))(states, deltas)
        changed = latest, second, states
        window = eqx.tree_at(lambda x: (x.latest, x.second, x.states), window, changed)
        if not self.limits:
            return window
        excess = jnp.max(-self._inequalities(window).b, initial=0.0)
        return eqx.tree_at(lambda x: x.violation, window, excess)

    def _prior(self, window: MovingWindow) -> tuple[Array, Array]:
        """(m, P) of the first state's δ ~ N(m, P), from the belief `first` about x̄: e(δ) = local(x̄, x_0 exp δ) ~ N(0, P̄)."""
        system, first = self.filter.system, window.first
        state = jax.tree.map(lambda x: x[0], window.states)

        def e(delta):
            return local(system, (first.q, first.u), retract(system, state, delta))

        none = jnp.zeros(tangent_size(system), first.u.dtype)
        back = jnp.linalg.inv(jax.jacfwd(e)(none))
        return -back @ e(none), back @ first.covariance @ back.T

    def _chain(self, window: MovingWindow) -> Chain:
        """The equations linearised at the window's estimates. Equations of motion are 0 from the last sample on."""
        filter, system = self.filter, self.filter.system
        none = jnp.zeros(tangent_size(system), window.ts.dtype)
        W = as_matrix(filter.process_noise, len(none)).astype(none.dtype)

        def one(state, later, t, seen, felt, command, period):
            end, F = filter.transition(state, t, period, Constant(command))

            def gap(w):
                return local(system, later, retract(system, end, w))

            def residual(delta):
                return misfit(
                    system, filter.sensors, retract(system, state, delta), t, seen, Constant(felt)
                )

            f, G = _with_derivative(gap, none)
            r, H = _with_derivative(residual, none)
            return G @ F, f, period * G @ W @ G.T, -H, r

        later = jax.tree.map(lambda x: jnp.roll(x, -1, axis=0), window.states)
        rows = window.ts, window.seen, window.felt, window.commands, window.periods
        *moves, H, r = jax.vmap(one)(window.states, later, *rows)
        live = jnp.arange(self.window) < window.count
        goes_on = jnp.append(live[1:], False)
        moves = [jnp.where(_flags_like(goes_on, x), x, 0.0) for x in moves]
        return Chain(*moves, H, r, live)

    def _inequalities(self, window: MovingWindow) -> Inequalities:
        """The limits at the estimates of the window, to first order: A δ + b ≥ 0. A limit without bound has A = 0, b = 1."""
        none = jnp.zeros(tangent_size(self.filter.system), window.ts.dtype)

        def one(state, t, felt):
            def distances(delta):
                near = retract(self.filter.system, state, delta)
                return self._distances(t, near, Constant(felt))

            return _with_derivative(distances, none)

        b, A = jax.vmap(one)(window.states, window.ts, window.felt)
        counts = jnp.isfinite(b) & (jnp.arange(self.window) < window.count)[:, None]
        return Inequalities(jnp.where(counts[:, :, None], A, 0.0), jnp.where(counts, b, 1.0))

    def _distances(self, t: Time, state: MotionState, control: Control) -> Float[Array, " l"]:
        """The distances from the lower and from the upper limits, negative beyond them."""
        rows = []
        for limit in self.limits:
            value = limit.residual(self.filter.system, t, *state, control)
            rows += [
                value - limit.lower.astype(value.dtype),
                limit.upper.astype(value.dtype) - value,
            ]
        return jnp.concatenate(rows)

    def _noise(self, window: MovingWindow) -> Float[Array, "r r"]:
        sensors, dtype = self.filter.sensors, window.ts.dtype
        rows = (
            window.seen.shape[1]
            if not isinstance(window.seen, tuple)
            else tangent_size(self.filter.system)
        )
        return noise_covariance(sensors, rows, dtype)


def _with_row(rows: Array, value: Any, here: Array) -> Array:
    """`rows` with `value` in the row that the flags `here` mark."""
    return jnp.where(_flags_like(here, rows), jnp.asarray(value, rows.dtype)[None], rows)


def _with_derivative(function: Callable[[Array], Array], x: Array) -> tuple[Array, Array]:
    """A function's value and its Jacobian."""
    jacobian, value = jax.jacfwd(lambda x: (function(x),) * 2, has_aux=True)(x)
    return value, jacobian


def _flags_like(here: Array, rows: Array) -> Array:
    """The flags `here` with as many axes as `rows`, all but the first of length 1."""
    return here.reshape(-1, *[1] * (rows.ndim - 1))
