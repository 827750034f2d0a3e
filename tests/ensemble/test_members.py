"""Invalid members of an ensemble are named with their trajectory; too many steps are refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import ensemble
from jaxhamel.mechanics import as_control
from jaxhamel.systems import FreeRigidBody, HeavyTop

Q0, U0 = np.array([1.0, 0.0, 0.0, 0.0]), np.ones((8, 3))


def turned(inertia, axis=0, dt=0.5):
    bodies = jax.vmap(FreeRigidBody, axis, axis)(inertia)
    return ensemble.rollout(bodies, Q0, U0, [0.0, 1.0], dt=dt, in_axes=(axis, None, 0, None))


@pytest.mark.parametrize("wrong", [-1.0, 0.0, np.nan])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_system_that_cannot_be(wrong, axis):
    """An invalid inertia in trajectory 5 is found, although the constructor under `vmap` saw no values."""
    inertia = np.tile([1.0, 1.5, 2.0], (8, 1))
    inertia[5, 1] = wrong
    with pytest.raises(
        ValueError, match=r"`system` of trajectory 5 is not valid: `inertia` (is|has)"
    ):
        turned(jnp.moveaxis(jnp.asarray(inertia), 0, axis), axis)


def test_numbers_that_may_be_negative_are_let_through():
    """Negative gravity is accepted; under `jit` there are no values to check."""
    tops = jax.vmap(
        lambda g: HeavyTop(1.0, jnp.array([1.0, 1.0, 0.5]), jnp.array([0.0, 0.0, 0.1]), g)
    )(jnp.linspace(-9.8, 9.8, 8))
    options = {"dt": 0.5, "in_axes": (0, None, 0, None)}
    _, u = ensemble.rollout(tops, Q0, U0, [0.0, 1.0], **options)
    assert np.isfinite(u).all()
    assert jax.jit(turned)(jnp.full((8, 3), -1.0))[1].shape == (8, 2, 3)


def test_too_many_steps():
    """A `dt` of 1e-300 is refused. Its step count overflowed, and the initial state was returned as the last one."""
    with pytest.raises(ValueError, match=r"`dt` is 1e-300, but an interval of `ts` is 1 long"):
        turned(jnp.ones((8, 3)), dt=1e-300)


def test_an_equation_is_a_function():
    with pytest.raises(TypeError, match="`f` is of type int; it must be a callable"):
        ensemble.integrate(3, jnp.ones((4, 2)), [0.0, 1.0], dt=0.5)  # pyright: ignore


def test_axes_of_an_equation():
    """`in_axes` has two entries, for y0 and args; messages name a part of `args` as the user writes it."""
    for axes, message in [
        ((0, None, None), r"length 3; it must be .* each of \(y0, args\)"),
        (0, r"has axis 0 for `args\['rate'\]`, which has no axis"),
        ((0, {"rate": 0}), "has axis 0 for `args"),
    ]:
        with pytest.raises(ValueError, match=message):
            ensemble.integrate(len, U0, [0.0, 1.0], {"rate": jnp.ones(())}, dt=0.5, in_axes=axes)


class Pushed(jaxhamel.System):
    """A point that records the structure, shapes and weak types of its control."""

    seen: list = eqx.field(static=True)
    space = jaxhamel.Euclidean(2)

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(v, v)

    def force(self, t, q, v, control):
        self.seen.append(jax.tree.map(lambda x: (x.shape, x.weak_type), control))
        return jnp.zeros_like(v)


@pytest.mark.parametrize(
    "control", [[1.0, 2.0], [[1.0, 2.0]], (1.0, [3.0, 4.0]), {"a": [1, 2], "b": 2.0}]
)
def test_a_list_is_an_array_in_one_motion_and_in_many(control):
    """A list given as control is an array in a single motion and in an ensemble; tuples and dictionaries stay
    structures."""
    wanted = jax.tree.map(
        lambda x: (np.shape(x), True), control, is_leaf=lambda x: isinstance(x, list)
    )
    one, many = Pushed([]), Pushed([])
    jaxhamel.acceleration(one, 0.0, np.zeros(2), np.zeros(2), control)
    ensemble.rollout(
        many,
        np.zeros((3, 2)),
        np.zeros((3, 2)),
        [0.0, 1.0],
        control,
        dt=1.0,
        in_axes=(None, 0, 0, None),
    )
    assert one.seen[0] == many.seen[0] == wanted


@pytest.mark.parametrize(
    ("control", "message"),
    [
        (
            [1.0, None],
            "`control` is None; it must be a callable of t, or a constant made of numbers",
        ),
        (
            [[1.0], [1.0, 2.0]],
            r"`control` is ragged: entries of one list have the shapes \(1,\) and \(2,\)",
        ),
        (["left"], "`control` is 'left'"),
    ],
)
def test_lists_that_are_no_arrays(control, message):
    with pytest.raises((TypeError, ValueError), match=message):
        as_control(control)
