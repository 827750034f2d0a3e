"""Operations without a rule in lanes: taken by JAX's own definition of them or, without one, by `jax.vmap` with a
warning."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxhamel.ensemble import lanes

X = np.random.default_rng(0).uniform(0.2, 0.9, (6, 4))


def primitive(name: str, function):
    """A new JAX primitive whose implementation, derivative and batching come from a given function."""
    new = Primitive(name)
    as_it_is = lambda *x, **params: function(*x, **params)
    new.def_impl(as_it_is)
    new.def_abstract_eval(lambda x, **params: ShapedArray(x.shape, x.dtype))
    ad.primitive_jvps[new] = lambda x, dx, **params: jax.jvp(
        lambda *x: function(*x, **params), x, tuple(map(ad.instantiate_zeros, dx))
    )
    batching.primitive_batchers[new] = lambda x, axes, **params: (
        jax.vmap(lambda *x: function(*x, **params), axes)(*x),
        0,
    )
    return new, as_it_is


def softmax(x, power=1):
    return jnp.exp(x) ** power / jnp.sum(jnp.exp(x) ** power)


COMPILED, as_it_is = primitive("of_a_newer_jax", softmax)
mlir.register_lowering(COMPILED, mlir.lower_fun(as_it_is, multiple_results=False))
HOLDING, _ = primitive("that_holds_a_program", lambda x, held: softmax(x))
HELD = jax.make_jaxpr(softmax)(X[0])
OPAQUE, _ = primitive("without_a_definition", softmax)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: COMPILED.bind(x, power=2) * x,
        lambda x: HOLDING.bind(x, held=HELD),
        lambda x: jnp.polyval(x, jnp.log2(x[1])),
    ],
    ids=["compiled", "held", "polynomial"],
)
def test_an_operation_without_a_rule(f):
    """Runs in lanes by its definition, without a warning; derivatives agree with `vmap`."""
    np.testing.assert_allclose(jax.jit(lanes(f))(X), jax.vmap(f)(X), rtol=1e-13)
    slope = lambda g: jax.grad(lambda x: jnp.sum(jnp.sin(g(x))))
    wanted = slope(jax.vmap(f))(X)
    np.testing.assert_allclose(jax.jit(slope(lanes(f)))(X), wanted, rtol=1e-12, atol=1e-14)


def test_an_operation_without_a_definition():
    """The operation has the shape of its operand but is not elementwise, so a warning names it and the values are those
    of `vmap`."""
    f = lambda x: OPAQUE.bind(x, power=3)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = lanes(f)(X)
    assert "lanes cannot take the primitive `without_a_definition`" in str(said[0].message)
    np.testing.assert_allclose(found, jax.vmap(softmax)(3 * X), rtol=1e-13)
