"""Programs of scalars that are written as jaxprs and StableHLO directly, against JAX's own operations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel._lanes._program import scalarise
from jaxhamel._lanes._xla_cpu._fusion import fusions_work
from jaxhamel._lanes._xla_cpu._straight_line import computed
from jaxhamel.ensemble import lanes

pytestmark = pytest.mark.skipif(not fusions_work(), reason="not tested with this XLA")


def f(a, b):
    """Sine and cosine of one value, a choice, a repeated constant, and a result that is an input."""
    turned = jnp.where(a > b, jnp.sin(a) + 2 * jnp.cos(a), jnp.arctan2(a, b))
    return turned, 0.7 * a + 0.7 * b - 0.7 * a * b, a


@pytest.fixture(scope="module")
def run():
    """f by `computed`."""
    program = scalarise(jax.make_jaxpr(f)(0.3, 0.2), [True, True], whole=True, few=True)
    graph, inputs = program.graph, [int(x) for x in program.inputs]
    inside = [i for i in graph.needed(program.ends()) if graph.nodes[i].primitive is not None]
    return lambda *x: computed(graph, inside, program.ends(), dict(zip(inputs, x, strict=True)))


A, B = np.array([0.3, -1.2, 2.5]), np.array([0.7, 1.1, -0.4])


def same(found, right):
    for x, y in zip(found, right, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-14)


def test_values_derivatives_and_batches_are_those_of_the_operations(run):
    """Scalars, columns of three lanes, both under `jit`; forward and reverse mode, and `vmap`."""
    same(jax.jit(run)(0.3, 0.7), f(0.3, 0.7))
    same(jax.jit(run)(A[:, None], B[:, None]), f(A[:, None], B[:, None]))
    along = lambda g: jax.jvp(g, (0.3, 0.7), (1.0, -2.0))[1]
    same(along(run), along(f))
    slope = lambda g: jax.grad(lambda a: g(a, 0.7)[0])(0.3)
    same([slope(run)], [slope(f)])
    same(jax.vmap(run, (0, None))(A, 0.7), jax.vmap(f, (0, None))(A, 0.7))


def test_an_equation_for_each_operation_and_one_constant_for_each_number():
    """Six products and sums with the same number: XLA gets it once."""
    of_one = lambda x: jnp.stack([0.37 * x[0], 0.37 * x[1] + x[0], x[0] * x[1] - 0.37])
    text = jax.jit(lanes(of_one)).lower(np.ones((1, 2))).as_text()
    assert text.count("dense<3.700000e-01> : tensor<f64>") == 1
    inside = text[text.index("mhlo.fusion") : text.index("mhlo.return")]
    assert inside.count("stablehlo.multiply") == 3
