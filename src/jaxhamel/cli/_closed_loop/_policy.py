"""The policy of `[policy]`: the regulator of a plan with a network's correction, and the cost that its training lowers."""

from collections.abc import Hashable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, QuasiVelocity, Scalar, Time
from jaxhamel.cli._closed_loop._loop import Robots, loop_table, weights_of
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.control import Regulator, Sampled, closed_loop
from jaxhamel.control._loop._regulator import Correction
from jaxhamel.simulate import Trajectory


class Scales(NamedTuple):
    """Root mean squares along motions under the regulator: of the deviations δ, `(n+k,)`, and the corrections, `(p,)`."""

    error: Float[Array, " d"]
    command: Float[Array, " p"]


class CorrectedCommand(eqx.Module):
    """The law of a policy at one time t: command = c(t) − K(t) δ + s_c network(δ / s_δ, phase), with scales s_δ and s_c."""

    regulator: Correction
    network: eqx.nn.MLP
    scales: Scales
    phase: Float[Array, " 2"]

    def __call__(self, t: Time, q: Configuration, u: QuasiVelocity) -> Float[Array, " p"]:
        """The command at the state (q, u)."""
        plan = self.regulator
        error = jnp.concatenate([plan.space.local(plan.q, q), u - plan.u])
        given = jnp.concatenate([error / self.scales.error, self.phase])
        return plan(t, q, u) + self.scales.command * self.network(given)


class CorrectedRegulator(eqx.Module):
    """A regulator whose command is corrected by a network; a law for `Sampled`.

    The network is given the deviation δ from the plan, divided by its scale, and as the phase the cosine and the sine of
    π (t − t_0) / (T − t_0).
    """

    regulator: Regulator
    network: eqx.nn.MLP
    scales: Scales

    @property
    def ts(self) -> Float[Array, " N+1"]:
        """The times of the plan."""
        return self.regulator.ts

    def at(self, t: Time) -> CorrectedCommand:
        """The law at one time."""
        ts = self.regulator.ts
        angle = jnp.pi * jnp.clip((t - ts[0]) / (ts[-1] - ts[0]), 0.0, 1.0)
        phase = jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        return CorrectedCommand(self.regulator.at(t), self.network, self.scales, phase)

    def __call__(self, t: Time, q: Configuration, u: QuasiVelocity) -> Float[Array, " p"]:
        """The command at (t, q, u)."""
        return self.at(t)(t, q, u)


class LoopCost(eqx.Module):
    """The mean cost of robots in closed loop over the whole plan, relative to `scale`,

        ½ Σ_k T (δ_k·Q δ_k + δc_k·R δc_k) + ½ δ_N·Q δ_N ,

    with the deviations δ of the state and δc of the command from the plan. `robots` are (system, q0, u0), with the batch
    axes `axes`, flattened; `controller` has the regulator as its law; `weights` are the diagonals of Q and R.
    """

    robots: tuple[Any, Any, Any]
    controller: Sampled
    weights: tuple[Float[Array, " d"], Float[Array, " p"]]
    scale: Scalar
    scales: Scales
    samples: int = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    axes: Hashable = eqx.field(static=True)
    biased: bool = eqx.field(static=True)

    def __call__(self, network: eqx.nn.MLP, key: Array) -> Scalar:
        """The cost with a network's correction, relative to `scale`; `key` draws the noise of the sensors."""
        return self.of(self.motions(self.law(network), key)) / self.scale

    def law(self, network: eqx.nn.MLP) -> CorrectedRegulator:
        """The regulator with a network's correction."""
        return CorrectedRegulator(self.controller.law, network, self.scales)

    def motions(self, law: Any, key: Array) -> Trajectory:
        """The closed-loop motions of all robots under `law`, a regulator with a correction or without."""
        controller = eqx.tree_at(lambda c: c.law, self.controller, law)
        own = jax.tree.map(lambda x: None, controller)
        if self.biased:
            own = eqx.tree_at(lambda c: c.sensors.bias, own, 0, is_leaf=lambda x: x is None)
        return closed_loop(
            *self.robots,
            controller,
            self.samples,
            t0=self.controller.law.ts[0],
            steps=self.steps,
            key=None if controller.sensors is None else key,
            in_axes=(*unflattened(self.axes), own),
        )

    def deviations(
        self, found: Trajectory
    ) -> tuple[Float[Array, "B N+1 d"], Float[Array, "B N p"]]:
        """The deviations δ of the states at all samples, and those of the commands from c in the middle of their periods."""
        plan, ts = self.controller.law, found.ts[0]
        q, u, _ = jax.vmap(plan.plan)(ts)
        local = jax.vmap(jax.vmap(plan.space.local), in_axes=(None, 0))
        error = jnp.concatenate([local(q, found.q), found.u - u[None]], axis=2)
        middle = ts[:-1] + 0.5 * self.controller.period
        planned = jax.vmap(plan.control)(jnp.minimum(middle, plan.ts[-1]))
        return error, found.given()[1].commands - planned[None]

    def of(self, found: Trajectory) -> Scalar:
        """The mean cost of closed-loop motions."""
        (Q, R), (error, change) = self.weights, self.deviations(found)
        running = jnp.sum(error[:, :-1] ** 2 @ Q, axis=1) + jnp.sum(change**2 @ R, axis=1)
        return 0.5 * jnp.mean(self.controller.period * running + error[:, -1] ** 2 @ Q)


def flattened(axes: Any) -> Hashable:
    """Batch axes as a hashable value, for a static field."""
    leaves, structure = jax.tree.flatten(axes, is_leaf=lambda x: x is None)
    return structure, tuple(leaves)


def unflattened(axes: Any) -> Any:
    """The batch axes that `flattened` was given."""
    structure, leaves = axes
    return jax.tree.unflatten(structure, leaves)


def loop_cost(
    scenario: Scenario, robots: Robots, controller: Sampled, samples: int, key: Array
) -> LoopCost:
    """The cost of the robots relative to that of the regulator, with the scales of the regulated motions.

    **Raises:** `ScenarioError` if a robot breaks down under the regulator.
    """
    law = controller.law
    (p, d), dtype = law.gains.shape[1:], law.u.dtype
    one = jnp.ones((), dtype)
    cost = LoopCost(
        robots[:3], controller, weights_of(law), one, Scales(jnp.ones(d, dtype), jnp.ones(p, dtype)),
        samples, loop_table(scenario)["steps"], flattened(robots.axes), robots.bias is not None,
    )  # fmt: skip
    value, scales = _of_regulator(cost, key)
    if not bool(jnp.isfinite(value)):
        raise ScenarioError(
            "`[policy]` cannot be trained: some robots break down under the regulator, from which the training starts. "
            "Lower the spread, change the weights of [feedback], or give another --seed."
        )
    return eqx.tree_at(lambda c: (c.scale, c.scales), cost, (value, scales))


@compiled
def _of_regulator(cost: LoopCost, key: Array) -> tuple[Scalar, Scales]:
    """The cost of the regulator, and the root mean squares of its deviations; 1 for numbers that are always 0."""
    found = cost.motions(cost.controller.law, key)

    def size(x):
        root = jnp.sqrt(jnp.mean(x**2, axis=(0, 1)))
        return jnp.where(root > 0, root, 1.0)

    return cost.of(found), Scales(*map(size, cost.deviations(found)))


def first_network(scenario: Scenario, cost: LoopCost, key: Array) -> eqx.nn.MLP:
    """The network of `[policy]` before the training: random, with an output of 0."""
    table, (error, command) = scenario["policy"], cost.scales
    network = eqx.nn.MLP(
        error.size + 2, command.size, table["units"], table["layers"], jnp.tanh, dtype=error.dtype, key=key
    )  # fmt: skip

    def last(network):
        return network.layers[-1].weight, network.layers[-1].bias

    return eqx.tree_at(last, network, jax.tree.map(jnp.zeros_like, last(network)))
