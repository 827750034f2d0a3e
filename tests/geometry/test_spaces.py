"""The spaces' interface: shapes, dtypes, messages, use as static values in jit and classes, order of twists."""

import inspect
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import (
    SE2,
    SE3,
    SO2,
    SO3,
    Euclidean,
    Helical,
    MatrixGroup,
    Product,
    Schoenflies,
    angular_first,
    angular_first_matrix,
    linear_first,
    linear_first_matrix,
)
from tests.geometry.cases import CASES, by_case

SHAPES = {
    "Euclidean": (3,),
    "SO2": (1,),
    "SO3": (4,),
    "SE2": (3,),
    "SE3": (7,),
    "Schoenflies": (4,),
    "Helical": (1,),
}


@pytest.mark.parametrize(**by_case)
def test_storage(case):
    """Stored arrays have the shapes of the interface, in the default dtype and in the requested one."""
    space = case.space
    leaves = jax.tree.leaves(space.identity())
    if case.name in SHAPES:
        assert leaves[0].shape == SHAPES[case.name]
    assert all(leaf.dtype == jnp.float64 for leaf in leaves)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(space.identity(jnp.float32)))
    assert space.local(space.identity(), space.identity()).shape == (space.dim,)


def test_storage_of_products():
    space = Product(SO3(), Product(SE2(), Euclidean(0)))
    rotation, (pose, nothing) = space.identity()
    assert (rotation.shape, pose.shape, nothing.shape) == ((4,), (3,), (0,))
    assert space.dim == 6
    parts = space.split(jnp.arange(6.0))
    np.testing.assert_array_equal(parts[1], [3, 4, 5])


def test_spaces_are_static_values():
    """Spaces are equal, hashable and without leaves, usable as class attributes and static arguments."""
    make = lambda: Product(SO3(), Euclidean(2), Helical(0.1))
    assert make() == make()
    assert hash(make()) == hash(make())
    assert Product(SO3(), Euclidean(2)) != Product(SO3(), Euclidean(3))
    assert jax.tree.leaves(Product(SO3(), Euclidean(2))) == []

    class Body(eqx.Module):
        mass: float
        space = Product(SO3(), Euclidean(2))

    assert Body(1.0).space.dim == 5
    traced = eqx.filter_jit(lambda body, v: body.space.exp(v))(Body(1.0), jnp.ones(5))
    np.testing.assert_allclose(traced[1], [1, 1])


def test_construction_touches_no_device():
    before = len(jax.live_arrays())
    spaces = [SO2(), SO3(), SE2(), SE3(), Schoenflies(), Helical(0.1), Euclidean(4)]
    assert Product(*spaces).dim == 1 + 3 + 3 + 6 + 4 + 1 + 4
    assert len(jax.live_arrays()) == before


def test_batches():
    """vmap over every operation of the largest product gives what a loop gives."""
    space = CASES[-1].space
    deltas = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (3, space.dim)))

    @jax.jit
    def operations(delta):
        q = space.exp(delta)
        return space.local(q, space.inverse(q)), space.dexp(delta), space.rate(q, delta)

    batched = jax.vmap(operations)(deltas)
    for i, delta in enumerate(deltas):
        jax.tree.map(
            lambda a, b, i=i: np.testing.assert_allclose(a[i], b, atol=1e-14),
            batched,
            operations(delta),
        )


def test_turns_are_counted_but_local_is_short():
    q = SE2().retract(jnp.array([3.0, 0.0, 0.0]), jnp.array([1.0, 0.0, 0.0]))
    assert q[0] == 4.0
    short = SO2().local(jnp.array([0.1]), jnp.array([2 * np.pi + 0.3]))
    np.testing.assert_allclose(short, [0.2], rtol=1e-14)
    assert SO2().log(jnp.array([np.pi]))[0] == np.pi
    assert SO2().log(jnp.array([-np.pi]))[0] == np.pi
    for angle in (-9.0, -3.0, 0.0, 3.1, 3.2, 100.0):
        assert jax.jacfwd(SO2().log)(jnp.array([angle]))[0, 0] == 1


def test_helical_pitch():
    """A full turn is another configuration; the pitch is differentiable, as float32 too."""
    q = jnp.array([2 * np.pi])
    np.testing.assert_allclose(Helical(0.1).pose(q)[2, 3], 0.2 * np.pi, rtol=1e-15)
    np.testing.assert_array_equal(Helical(0.1).local(0 * q, q), q)
    height = jax.grad(lambda screw: screw.pose(q)[2, 3])(Helical(jnp.array(0.1)))
    np.testing.assert_allclose(height.pitch, 2 * np.pi)
    assert Helical(0.1).matrix(q.astype(jnp.float32)).dtype == jnp.float32


UNIT = jnp.array([1.0, 0, 0, 0])
BAD = [
    (SO3(), jnp.zeros(3), ValueError, r"`q0` has shape \(3,\); it must have shape \(4,\)"),
    (SO3(), 1.001 * UNIT, ValueError, r"`q0` has a quaternion of norm 1.001;.*Divide it"),
    (SO3(), UNIT * jnp.nan, ValueError, r"`q0` is .*nan.*finite"),
    (SO3(), [1.0, 0, 0, 0], TypeError, r"`q0` is \[1.0, 0, 0, 0\]; it must be an array"),
    (SE3(), jnp.ones(7), ValueError, r"`q0` has a quaternion of norm 2"),
    (SE3(), jnp.zeros(6), ValueError, r"\(7,\).*px, py, pz"),
    (SE2(), jnp.array([0.0, jnp.inf, 0]), ValueError, "finite"),
    (SE2(), jnp.zeros(2), ValueError, r"\(angle, x, y\)"),
    (SO2(), jnp.zeros(()), ValueError, r"shape \(\); it must have shape \(1,\)"),
    (Schoenflies(), jnp.zeros(3), ValueError, r"\(angle, x, y, z\)"),
    (Helical(1.0), jnp.zeros(2), ValueError, "an angle of Helical"),
    (Euclidean(2), jnp.zeros(3), ValueError, r"a point of Euclidean\(2\)"),
    (Product(SO3(), SO2()), UNIT, ValueError, "must be a tuple of 2 configurations"),
    (Product(SO3(), SO2()), (UNIT,), ValueError, "tuple of length 1; .*identity"),
    (Product(SO3(), SO2()), (2 * UNIT, jnp.zeros(1)), ValueError, r"`q0\[0\]` has a quaternion"),
    (
        Product(SO2(), Product(SO3(), SO2())),
        (jnp.zeros(1), (UNIT, jnp.zeros(2))),
        ValueError,
        r"`q0\[1\]\[1\]` has shape \(2,\)",
    ),
]


@pytest.mark.parametrize(("space", "q", "error", "message"), BAD)
def test_bad_configurations(space, q, error, message):
    with pytest.raises(error, match=message):
        space.check(q, "q0")


def test_tolerance_of_unit_quaternions():
    """The tolerance is 1e-6 in double and 1e-4 in single precision; traced values are not checked."""
    SO3().check((1 + 9e-7) * UNIT)
    SO3().check(jnp.asarray((1 + 9e-5) * UNIT, jnp.float32))
    with pytest.raises(ValueError, match="quaternion"):
        SO3().check((1 + 2e-6) * UNIT)
    with pytest.raises(ValueError, match="quaternion"):
        SO3().check(jnp.asarray((1 + 2e-4) * UNIT, jnp.float32))

    @jax.jit
    def inside(q):
        SO3().check(q)
        return q

    inside(2 * UNIT)


def test_normalise_mends_what_check_refuses():
    SO3().check(SO3().normalise(3 * UNIT))
    mended = Product(SE3(), SO2()).normalise((jnp.full(7, 2.0), jnp.array([9.0])))
    np.testing.assert_allclose(mended[0], [0.5, 0.5, 0.5, 0.5, 2, 2, 2])
    assert mended[1][0] == 9.0


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: Euclidean(cast(int, 2.0)),
            TypeError,
            "`n` is 2.0; a dimension must be an integer",
        ),
        (lambda: Euclidean(True), TypeError, "must be an integer"),
        (lambda: Euclidean(-1), ValueError, "`n` is -1"),
        (
            lambda: Euclidean(2**31),
            ValueError,
            "`n` is 2147483648; a dimension must be 2,147,483,647",
        ),
        (lambda: Product(), ValueError, "`Product` got no spaces"),
        (lambda: Product(SO3(), cast(SO2, Euclidean)), TypeError, r"`spaces\[1\]`.*parentheses"),
        (lambda: Product(cast(SO2, (SO3(), SO2()))), TypeError, r"`spaces\[0\]`"),
    ],
)
def test_bad_spaces(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_twist_order():
    """Twists, wrenches (power is the same), and the matrices Ad and ad."""
    twist, wrench = jnp.arange(6.0), jnp.arange(6.0, 12.0)
    np.testing.assert_array_equal(linear_first(twist), [3, 4, 5, 0, 1, 2])
    np.testing.assert_array_equal(angular_first(linear_first(twist)), twist)
    assert linear_first(wrench) @ linear_first(twist) == wrench @ twist
    q = SE3().exp(twist / 3)
    for matrix in (SE3().Ad(q), SE3().ad(twist)):
        swapped = linear_first_matrix(matrix)
        np.testing.assert_allclose(swapped @ linear_first(wrench), linear_first(matrix @ wrench))
        np.testing.assert_array_equal(angular_first_matrix(swapped), matrix)
    # linear first, Ad is [[R, p̂ R], [0, R]]
    np.testing.assert_array_equal(linear_first_matrix(SE3().Ad(q))[3:, :3], 0)
    np.testing.assert_array_equal(linear_first(jnp.stack([twist, twist]))[1], linear_first(twist))


def test_twist_order_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"`x` has shape \(7,\); .*\(\.\.\., 6\)"):
        linear_first(jnp.zeros(7))
    with pytest.raises(ValueError, match=r"`matrix` has shape \(6,\); .*\(\.\.\., 6, 6\)"):
        angular_first_matrix(jnp.zeros(6))


OPERATIONS = {
    **{"compose": "qq", "inverse": "q", "exp": "v", "log": "q", "Ad": "q", "ad": "v", "dexp": "v"},
    **{"dexpinv": "v", "rate": "qv", "velocity": "qq", "matrix": "q", "normalise": "q"},
    **{"retract": "qv", "local": "qq"},
}


@pytest.mark.parametrize("method", OPERATIONS)
@pytest.mark.parametrize(**by_case)
def test_operations_refuse_other_shapes(case, method):
    """Each operation of each space checks the shape of each argument, also of traced arrays."""
    space, kinds = case.space, OPERATIONS[method]
    right = [space.identity() if kind == "q" else jnp.zeros(space.dim) for kind in kinds]
    operation = getattr(space, method)
    jax.eval_shape(operation, *right)
    for i, name in enumerate(inspect.signature(operation).parameters):
        longer = jax.tree.map(lambda x: jnp.zeros(x.size + 1), right[i])
        wrong = [*right[:i], longer, *right[i + 1 :]]
        told = rf"`{name}` of {type(space).__name__}.{method} is of shape .*; it must be"
        with pytest.raises(ValueError, match=told):
            jax.eval_shape(operation, *wrong)
        for value in ("heavy", None, [1.0]):
            with pytest.raises(TypeError, match=rf"`{name}` of .*\.{method} is .*asarray"):
                operation(*right[:i], value, *right[i + 1 :])


def test_messages_of_operations():
    with pytest.raises(
        ValueError, match=r"shape \(4,\); .* shape \(3,\), one number for each .*jax.vmap"
    ):
        SO3().exp(delta=jnp.ones(4))
    with pytest.raises(
        ValueError, match=r"\(\(4,\), \(3,\)\); .*\(\(4,\), \(2,\)\), as that of `space.identity"
    ):
        Product(SO3(), Euclidean(2)).log((UNIT, jnp.ones(3)))
    with pytest.raises(TypeError, match=r"`q` of SO3\.log is of complex128 numbers"):
        SO3().log(np.ones(4, complex))
    group = MatrixGroup(jnp.array([[[0.0, -1], [1, 0]]]))
    with pytest.raises(ValueError, match=r"`q` of MatrixGroup.log .* \(2, 2\)"):
        group.log(jnp.eye(3))


@pytest.mark.parametrize("space", [SO3(), Product(SE2(), Euclidean(2))])
def test_stored_arrays_follow_the_default_precision(space):
    """A space without arrays caches its stored arrays for each precision."""
    for double in (True, False, True):
        with jax.enable_x64(double):
            kinds = {part.dtype for part in jax.tree.leaves(space.stored)}
        assert kinds == {jnp.dtype("float64" if double else "float32")}
