"""`control.train`: gradient descent in closed form, checkpoints, a loss that is not finite, a policy in a closed loop."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxhamel.control import Sampled, closed_loop, train
from jaxhamel.control._loop import _train
from tests.control.cart import Cart

KEY, START = jax.random.key(4), jnp.array([1.0, -2.0])
DESCENT = optax.sgd(0.1)


def noisy(policy, key):
    """The loss ½ |p|² + p·ξ, whose expected gradient is p."""
    return 0.5 * jnp.sum(policy**2) + policy @ jax.random.normal(key, (2,))


def exact(updates):
    p = np.array(START)
    for k in range(updates):
        p = 0.9 * p - 0.1 * np.asarray(jax.random.normal(jax.random.fold_in(KEY, k), (2,)))
    return p


def test_steps_are_those_of_the_optimiser():
    """The update is p ← p − η (p + ξ_k), with a new key for each update."""
    seen = []
    found = train(noisy, START, 12, key=KEY, optimiser=DESCENT, progress=seen.append)
    assert [(x.iteration, x.cost) for x in seen] == list(enumerate(found.losses, 1))
    left = [x.time_left for x in seen]
    assert min(left[:-1]) > 0 == left[-1]
    np.testing.assert_allclose(found.policy, exact(12), atol=1e-14)
    assert found.outcome == "finished"
    assert found.losses.shape == (12,)


def test_an_interrupted_training_goes_on(tmp_path, monkeypatch):
    """Training resumed from its checkpoint ends exactly as uninterrupted training; unsuitable files are refused."""
    file, update, done = tmp_path / "training.npz", _train._update, []

    def interrupted(*given):
        if len(done) == 7:
            raise KeyboardInterrupt
        done.append(0)
        return update(*given)

    options = {"key": KEY, "optimiser": optax.adam(0.1), "checkpoint": file}
    monkeypatch.setattr(_train, "_update", interrupted)
    first = train(noisy, START, 12, **options)
    assert first.outcome == "interrupted"
    assert first.losses.shape == (7,)
    monkeypatch.setattr(_train, "_update", update)
    second, whole = (
        train(noisy, START, 12, **options),
        train(noisy, START, 12, **options | {"checkpoint": None}),
    )
    np.testing.assert_array_equal(second.policy, whole.policy)
    np.testing.assert_array_equal(second.losses, whole.losses)
    with pytest.raises(ValueError, match=r"`checkpoint` is .*of another policy or optimiser"):
        train(lambda p, key: jnp.sum(p), jnp.ones(3), 2, **options)
    file.write_text("not an archive")
    with pytest.raises(ValueError, match=r"`checkpoint` is .*no checkpoint of a training"):
        train(noisy, START, 12, **options)


def root(policy, key):
    """A loss whose slope is infinite at 0."""
    return jnp.sum(jnp.sqrt(jnp.maximum(policy, 0.0)))


def test_a_loss_that_is_not_finite_ends_it():
    found = train(root, jnp.array([0.04]), 9, key=KEY, optimiser=DESCENT)
    assert found.outcome == "not finite"
    assert bool(jnp.isfinite(found.policy).all())
    assert np.isfinite(found.losses).all()


class Policy(eqx.Module):
    gains: jax.Array

    def __call__(self, t, q, u):
        return jnp.tanh(self.gains @ jnp.concatenate([q, u]))[None]


def cost(policy, key):
    """Mean of x² + v² over the motions of eight carts with random initial positions."""
    start = jax.random.normal(key, (8, 1))
    found = closed_loop(
        Cart(jnp.array(1.0)), start, jnp.zeros(1), Sampled(policy, 0.1), 20, steps=1, in_axes=(None, 0, None, None)
    )  # fmt: skip
    return jnp.mean(found.q**2 + found.u**2)


def test_a_policy_in_a_closed_loop():
    found = train(cost, Policy(jnp.zeros(2)), 40, key=KEY, optimiser=optax.adam(0.1))
    gains = np.asarray(found.policy.gains)
    assert np.all(gains < -0.5)  # both are damping
    assert cost(found.policy, KEY) < 0.8 * cost(Policy(jnp.zeros(2)), KEY)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"loss": 3}, TypeError, r"`loss` is .* callable of \(policy, key\)"),
        ({"loss": lambda p, key: p}, ValueError, r"`loss` gives an array of shape \(2,\)"),
        ({"policy": jnp.arange(3)}, ValueError, "`policy` has no floating array"),
        ({"updates": 0}, ValueError, "`updates` is 0"),
        ({"progress": 3}, TypeError, "`progress` is of type int; it must be"),
        ({"checkpoint": "no such folder/x.npz"}, ValueError, "`checkpoint` is .* in a folder that does not exist"),
        ({"checkpoint": "."}, ValueError, "`checkpoint` is '.', a folder"),
        ({"key": None}, TypeError, "`key` is None; it must be one JAX random key"),
        ({"optimiser": "adam"}, TypeError, "`optimiser` is of type str; it must be one of optax"),
    ],
)  # fmt: skip
def test_messages(change, kind, words):
    given = {"loss": noisy, "policy": START, "updates": 3, "key": KEY} | change
    with pytest.raises(kind, match=words):
        train(given.pop("loss"), given.pop("policy"), given.pop("updates"), **given)
