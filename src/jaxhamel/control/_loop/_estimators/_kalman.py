"""An extended Kalman filter whose error is in exponential coordinates of the group."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time
from jaxhamel.control._checks._controllers import check_kalman
from jaxhamel.control._checks._estimates import check_estimate, check_prediction
from jaxhamel.control._loop._estimators._model import as_matrix, misfit, noise_covariance
from jaxhamel.control._loop._prediction import flow
from jaxhamel.mechanics import System
from jaxhamel.mechanics._description._parameters import parameter
from jaxhamel.mechanics._tangent import MotionState, local, retract, tangent_size


class Belief(eqx.Module):
    """An estimate of the state: x = (q exp(δ_q), u + δ_u) with δ ~ N(0, P).

    `q`, `u`: the estimate; `covariance`: P, `(n+k, n+k)`.
    """

    q: Configuration
    u: QuasiVelocity
    covariance: Float[Array, "n+k n+k"]


class KalmanFilter(eqx.Module):
    """The extended Kalman filter on the group, for the error δ of an estimate x̂ = (q̂, û), x = (q̂ exp(δ_q), û + δ_u):

        x̂ ← flow of T from x̂ ,   P ← F P Fᵀ + W T ,   F = ∂ local(flow(x̂), flow(x̂ exp δ))/∂δ ,
        S = H P Hᵀ + R ,   K = P Hᵀ S⁻¹ ,   δ = K (z − m(x̂)) ,   x̂ ← x̂ exp δ ,
        P ← J ((1 − K H) P (1 − K H)ᵀ + K R Kᵀ) Jᵀ ,   J = ∂ local(x̂ exp δ, x̂ exp(δ + ε))/∂ε .

    The error is left-invariant: rotating the whole of space changes neither K nor P of a system and sensors without a
    preferred direction. On a vector space with linear equations this is Kalman's filter.

    **Arguments:**

    - `system`: the model, any system driven by its control.
    - `sensors`: the model of the sensors, `Sensors` or `StateSensors`, with the standard deviations of their noise, all
      positive; R is the diagonal of their squares. Bias and resolution are not used.
    - `q`, `u`, `covariance`: the belief before the first sample; P as a diagonal `(n+k,)` or `(n+k, n+k)`.
    - `process_noise`: W, the covariance that model errors add in one second, `(n+k,)` or `(n+k, n+k)`; default 0.
    - `iterations`: Gauss–Newton steps of each update (the iterated filter); more than 1 for large first errors.
    - `steps`: Runge–Kutta steps (RK4) of each prediction.
    - `route`: to the equations of motion, see `jaxhamel.acceleration`.

    Give it to `Sampled(law, period, sensors=..., estimator=...)`: the law is then called as (t, q̂, û). For estimates alone
    call `start`, then `update` and `predict` in turn.

    **Raises:** `TypeError` or `ValueError` for shapes that do not fit, a covariance that is not symmetric or has a negative
    eigenvalue, and a sensor without noise.

    Source: Barrau and Bonnabel 2017; Bell and Cathey 1993 for the iterated update.
    """

    system: System
    sensors: Any
    q: Configuration
    u: Any = parameter()
    covariance: Any = parameter()
    process_noise: Any = parameter(default=0.0)
    iterations: int = eqx.field(static=True, default=1)
    steps: int = eqx.field(static=True, default=1)
    route: str | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        check_kalman(self)

    def start(self) -> Belief:
        """The belief before the first sample."""
        return Belief(self.q, self.u, as_matrix(self.covariance, tangent_size(self.system)))

    def predict(self, belief: Belief, t: Time, period: Scalar, control: Control = None) -> Belief:
        """The belief one period later, under `control`."""
        check_estimate("belief", belief, "covariance")
        check_prediction(self.system, t, belief.q, period, control)
        later, F = self.transition((belief.q, belief.u), t, period, control)
        W = as_matrix(self.process_noise, len(F)).astype(F.dtype)
        return Belief(*later, F @ belief.covariance @ F.T + jnp.asarray(period, F.dtype) * W)

    def transition(
        self, state: MotionState, t: Time, period: Scalar, control: Control
    ) -> tuple[MotionState, Float[Array, "n+k n+k"]]:
        """The state one period later, and F, the derivative of the error after the period by the error before it."""

        def state_later(x):
            return flow(self.system, x, t, period, control, self.steps, self.route)

        later = state_later(state)

        def error_later(delta):
            return local(self.system, later, state_later(retract(self.system, state, delta)))

        return later, jax.jacfwd(error_later)(jnp.zeros(tangent_size(self.system), state[1].dtype))

    def update(self, belief: Belief, t: Time, seen: Any, control: Control = None) -> Belief:
        """The belief after the observation `seen` at t, in the form that the sensors give."""
        check_estimate("belief", belief, "covariance")
        system, P = self.system, belief.covariance
        state, size = (belief.q, belief.u), tangent_size(self.system)

        def residual(delta):
            at = retract(system, state, delta)
            return misfit(system, self.sensors, at, t, seen, control)

        delta = jnp.zeros(size, P.dtype)
        rows = jax.eval_shape(residual, delta).shape[0]
        R = noise_covariance(self.sensors, rows, P.dtype)

        def gain(delta):
            H = -jax.jacfwd(residual)(delta)
            return H, jnp.linalg.solve(H @ P @ H.T + R, H @ P).T

        H, K = gain(delta)
        delta = K @ residual(delta)
        for _ in range(self.iterations - 1):
            H, K = gain(delta)
            delta = K @ (residual(delta) + H @ delta)
        keep = jnp.eye(size, dtype=P.dtype) - K @ H
        P = keep @ P @ keep.T + K @ R @ K.T
        return belief_about_mean(system, state, delta, P)


def belief_about_mean(
    system: System, state: MotionState, delta: Array, P: Float[Array, "m m"]
) -> Belief:
    """Converts a belief N(δ, P) in the chart about `state` to the chart about its own mean, with the covariance J P Jᵀ."""
    best = retract(system, state, delta)

    def about_mean(e):
        return local(system, best, retract(system, state, delta + e))

    J = jax.jacfwd(about_mean)(jnp.zeros(len(delta), P.dtype))
    return Belief(*best, J @ P @ J.T)
