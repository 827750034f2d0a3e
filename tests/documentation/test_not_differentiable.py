"""docs/derivatives.md: functions that loop in Python name a traced argument, and information has a gradient in both
modes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxhamel import SE2, control, ensemble, identify
from tests.control.cart import Cart, least_energy
from tests.identify.systems import PLACE, Particle

TS = np.linspace(0.0, 1.0, 5)
RUN = identify.Run(TS, {"place": TS})


class Push(eqx.Module):
    size: jax.Array

    def __call__(self, t):
        return self.size


def pushed(x):
    return least_energy(system=Cart(x))


def experiment():
    """An experiment with a push of known size from a known start, made outside the traces that use it."""
    with jax.ensure_compile_time_eval():
        given = Cart(jnp.array(2.0)), [identify.Positive("mass")], [PLACE], TS
        return identify.Experiment(*given, jnp.zeros(1), jnp.zeros(1), state_error=1e-9)


def gait(x):
    flat = lambda r: jnp.stack([r, r, r])
    loop = control.elliptic_gait([0.0, 0.0], [x, 0.5])
    return control.GaitProblem(flat, SE2(), loop, jnp.array([0.0, 1.0, 0.0]))


def noisy(x):
    measured = identify.Coordinate(0, name="place", noise=x)
    with jax.ensure_compile_time_eval():
        system = Particle(1.0, 1.0)
    return identify.Problem(system, [identify.Positive("thrust")], [measured], [RUN])


def normal(x):
    return ensemble.Distribution("normal", mean=x, std=1.0)


def model(x):
    return lambda sample: {"y": x * sample["a"]}


TRACED = [
    ("`problem`", lambda x: control.SingleShooting().run(pushed(x))),
    ("`problem`", lambda x: control.MultipleShooting().run(pushed(x))),
    ("`problem`", lambda x: control.GradientDescent(optax.sgd(0.1)).run(pushed(x))),
    ("`problem`", lambda x: control.optimise_gait(gait(x))),
    ("`curve`", lambda x: identify.design(experiment(), Push(x[None]))),
    ("`curve`", lambda x: experiment().errors(Push(x[None]))),
    ("`place` of `run`", lambda x: identify.Run(TS, {"place": x * TS})),
    ("`ts`", lambda x: identify.Run(x * TS, {"place": TS})),
    ("`noise of place`", noisy),
    ("`mean`", normal),
    ("`model`", lambda x: ensemble.monte_carlo(model(x), {"a": normal(0.0)}, 8)),
    ("`model`", lambda x: ensemble.sobol_indices(model(x), {"a": normal(0.0)}, 8)),
    ("`model`", lambda x: ensemble.derivative_bounds(model(x), {"a": normal(0.0)}, 8)),
]


@pytest.mark.parametrize(("name", "call"), TRACED)
def test_a_loop_in_python_names_the_traced_argument(name, call):
    with pytest.raises(TypeError, match=rf"^{name} is traced; its value .* differentiate, take"):
        jax.eval_shape(call, 1.2)


def test_information_of_an_experiment_has_its_gradient_in_both_modes():
    """x = a t²/(2 m) from a known start: F = Σ x²/σ² and dF/da = 2 F/a."""
    of = lambda a: experiment().information(Push(a[None]))[0, 0]
    both = jax.jit(lambda a: (jax.grad(of)(a), jax.jvp(of, (a,), (jnp.ones_like(a),))[1]))
    exact = 2 / 0.7 * np.sum((0.7 * TS**2 / 4.0 / 0.1) ** 2)
    np.testing.assert_allclose(both(jnp.asarray(0.7)), exact, rtol=1e-8)
