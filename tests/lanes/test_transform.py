"""`lanes` equals `vmap` for axes, pytrees and derivatives; it folds constants; the equations of motion run in lanes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel._lanes._program import scalarise
from jaxhamel.ensemble import lanes
from jaxhamel.mechanics import ROUTES, VectorField
from jaxhamel.systems import ActuatedDisk, CircularRails, FreeRigidBody, HeavyTop, Suslov
from tests.systems.ball import two_mass_ball
from tests.systems.motion import unit_quaternions

RNG = np.random.default_rng(2)
A, B, C = (RNG.normal(size=shape) for shape in ((6, 3), (3, 6), (6, 3, 3)))


def close(found, wanted, rtol=1e-13):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)


# --- used exactly as vmap ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("in_axes", "args"),
    [
        (0, (A, A, C)),
        ((0, 1, 0), (A, B, C)),
        ([0, -1, 0], (A, B, C)),
        ((0, None, 2), (A[:3], A[0], np.moveaxis(C[:3], 0, 2))),
        ((None, None, 0), (A[0], A[1], C)),
        ((0, None, None), (A[:, 0], 2.0, 3.0)),
    ],
)
def test_axes(in_axes, args):
    f = lambda x, y, m: {"sum": x + y, "product": (m @ x if jnp.ndim(x) else m, x * y)}
    close(jax.jit(lanes(f, in_axes))(*args), jax.vmap(f, in_axes)(*args))


def test_arguments_by_name_are_mapped_along_their_first_axis():
    f = lambda x, *, y: x @ y["a"]
    close(lanes(f, 1)(B, y={"a": A}), jax.vmap(f, 1)(B, y={"a": A}))


def test_axes_as_a_prefix_of_pytrees():
    f = lambda p, x: (p["a"] @ x + p["b"][0], None, p["b"][1] * 2.0)
    args = ({"a": C, "b": (A[0], A)}, A)
    in_axes = ({"a": 0, "b": (None, 0)}, 0)
    close(lanes(f, in_axes)(*args), jax.vmap(f, in_axes)(*args))


def test_results_that_do_not_vary_and_integers():
    f = lambda x: (jnp.arange(3), 2.0, x > 0, jnp.zeros((0, 2)), jnp.argmin)
    g = lambda x: f(x)[:4]
    close(lanes(g)(A), jax.vmap(g)(A))


def test_no_lane_at_all():
    assert lanes(lambda x: jnp.dot(x, x))(np.zeros((0, 3))).shape == (0,)


ONE_FOR_EACH = r"it must be an integer, None, or one entry for each of \(x, y\)"


@pytest.mark.parametrize(
    ("in_axes", "args", "message"),
    [
        (
            0,
            (A, B),
            r"sizes differ: `x` of shape \(6, 3\) has 6 along axis 0, `y` of .* has 3 along",
        ),
        (None, (A, A), r"maps no array of \(x, y\)"),
        (3, (A, A), r"has axis 3 for `x`, of shape \(6, 3\); its axes are -2 to 1"),
        (0, (A, 2.0), "has axis 0 for `y`, which has no axis. Give it one entry"),
        (0, (A, {"a": (A, B)}), r"sizes differ: `x` .*, `y\['a'\]\[1\]` of shape \(3, 6\) has 3"),
        ((0, 0, 0), (A, A), rf"is \(0, 0, 0\), of length 3; {ONE_FOR_EACH}. Give 0 for"),
        ({"x": 0}, (A, A), rf"is {{'x': 0}}; {ONE_FOR_EACH}, in a tuple"),
        (
            (0, (0, 0)),
            (A, A),
            r"has \(0, 0\) for `y`, which is an array of shape \(6, 3\); it must",
        ),
        (0.0, (A, A), f"is 0.0, of type float; {ONE_FOR_EACH}"),
        (("0", 0), (A, A), "has '0', of type str, for `x`; it must be an integer or None. Give 0"),
        ((0, True), (A, A), "has True, of type bool, for `y`; it must be an integer or None"),
    ],
)
def test_axes_that_cannot_be(in_axes, args, message):
    with pytest.raises((ValueError, TypeError), match=message):
        lanes(lambda x, y: x, in_axes)(*args)


def test_what_has_no_name_is_counted():
    """Messages number arguments that have no name in the signature, and use the name of a keyword argument."""
    for f, named in [(lambda x, *more: x, "x"), (Opaque(), "argument 0")]:
        with pytest.raises(ValueError, match=f"`{named}` of .*, `argument 1` of shape"):
            lanes(f)(A, B)
    with pytest.raises(
        ValueError, match=r"differ: `x` of .*, `z` of shape \(3, 6\) has 3 along axis 0"
    ):
        lanes(lambda x, **others: x)(A, z=B, a=A)


class Opaque:
    __signature__ = "none that can be read"

    def __call__(self, x, y):
        return x


# --- under the other transforms ---------------------------------------------------------------


@jax.custom_jvp
def cube_with_own_rule(x):
    return x**3


@cube_with_own_rule.defjvp
def _wrong_on_purpose(primals, tangents):
    return cube_with_own_rule(*primals), 7.0 * jnp.cos(primals[0]) * tangents[0]


def smooth(x, y):
    return jnp.sin(x) @ jnp.outer(y, x) + jnp.dot(x, y)


def with_own_rule(x, y):
    return cube_with_own_rule(x) * y + cube_with_own_rule(y[0])


@pytest.mark.parametrize("f", [smooth, with_own_rule])
def test_derivatives_both_ways(f):
    y, dx, dy = A[::-1], np.cos(A), np.sin(A)
    of = lambda t: t(f)
    close(jax.jvp(of(lanes), (A, y), (dx, dy)), jax.jvp(of(jax.vmap), (A, y), (dx, dy)), rtol=1e-12)
    total = lambda t: jax.jit(jax.grad(lambda x, y: jnp.sum(t(f)(x, y) ** 2), (0, 1)))
    close(total(lanes)(A, y), total(jax.vmap)(A, y), rtol=1e-12)
    close(
        jax.grad(lambda x: total(lanes)(x, y)[1].sum())(A),
        jax.grad(lambda x: total(jax.vmap)(x, y)[1].sum())(A),
        rtol=1e-11,
    )


@pytest.mark.parametrize("f", [smooth, with_own_rule])
def test_derivative_by_what_all_lanes_share(f):
    """The derivative by a shared argument or a captured value is the sum over lanes."""

    def total(transform, y, z):
        return jnp.sum(transform(lambda x, y: f(x, y) * z, (0, None))(A, y) ** 2)

    for i in (0, 1):
        found, wanted = (
            jax.grad(lambda *yz, t=t: total(t, *yz), i)(A[1], jnp.asarray(A[2]))
            for t in (lanes, jax.vmap)
        )
        close(found, wanted, rtol=1e-12)


def test_integers_beside_own_rules():
    f = lambda x, n: (cube_with_own_rule(x) * n.astype(x.dtype), n + 1)
    n = np.arange(6)
    total = lambda t: jax.grad(lambda x: jnp.sum(t(f)(x, n)[0] ** 2))
    close(total(lanes)(A), total(jax.vmap)(A))


def test_vmap_of_lanes_and_lanes_in_a_scan():
    stacked = jnp.stack([A, 2 * A])
    close(jax.vmap(lanes(smooth))(stacked, stacked), jax.vmap(jax.vmap(smooth))(stacked, stacked))
    step = lambda t: lambda x, _: (x + 0.1 * t(lambda x: jnp.sin(x) * x[0])(x), None)
    run = lambda t: jax.grad(lambda x: jnp.sum(jax.lax.scan(step(t), x, None, 5)[0]))
    close(run(lanes)(A), run(jax.vmap)(A))


def test_a_checkpointed_function():
    run = lambda t: jax.grad(lambda x: jnp.sum(jax.checkpoint(t(with_own_rule))(x, x)))
    close(run(lanes)(A), run(jax.vmap)(A))


# --- folding ------------------------------------------------------------------------------------


def program(f, *shapes):
    closed = jax.make_jaxpr(f)(*(jax.ShapeDtypeStruct(shape, float) for shape in shapes))
    return scalarise(closed, [True] * len(shapes))


@pytest.mark.parametrize(
    ("f", "left"),
    [
        (lambda x: 0.0 * x + 1.0 * x - 0.0, {}),
        (lambda x: jnp.eye(3) @ x, {}),
        (lambda x: 0.0 / x, {}),
        (lambda x: jnp.negative(-x), {}),
        (lambda x: x * x + x * x, {"mul": 6}),  # 2 (x x)
        (lambda x: (x * 2.0) * (2.0 * x), {"mul": 6}),
        (lambda x: x[0] * x[1] - x[1] * x[0] * 1.0, {"mul": 1, "sub": 1}),
        (lambda x: (-x) * x + x * x, {"mul": 3, "sub": 3}),
        (lambda x: jnp.where(jnp.arange(3) < 1, x, x.astype(float)), {}),
        (lambda x: jnp.cross(x, jnp.array([0.0, 0.0, 1.0])), {"neg": 1}),
        (lambda x: jnp.sin(x)[:1] + 0.0 * jnp.cos(x)[0], {"sin": 1}),
        (lambda x: jnp.full(3, 2.0) * jnp.sqrt(4.0), {}),
    ],
)
def test_what_is_left_after_folding(f, left):
    assert dict(program(f, (3,)).operations()) == left


def test_equal_constants_of_other_types_are_kept_apart():
    f = lambda x: (x + 1.0, x.astype(np.float32) + np.float32(1.0), jnp.ones(3, int))
    found = lanes(f)(A)
    assert [x.dtype for x in found] == [np.float64, np.float32, np.int64]


# --- the equations of motion ---------------------------------------------------------------------


class Swing(eqx.Module):
    amplitude: jax.Array

    def __call__(self, t):
        return self.amplitude * jnp.sin(2.0 * t) - jnp.pi / 2


def swing(n):
    return Swing(RNG.uniform(0.1, 0.5, (BATCH, n)))


BATCH = 7
QUATERNION = unit_quaternions(RNG, BATCH)
CASES = {
    "ball": (two_mass_ball(), (QUATERNION, RNG.normal(size=(BATCH, 2))), 3, swing(2)),
    "top": (HeavyTop(15.0, [15.2, 0.47, 15.2], [0, 1, 0], 9.81), QUATERNION, 3, None),
    "suslov": (
        Suslov([[2.0, 0.2, 0.3], [0.2, 1.5, 0.1], [0.3, 0.1, 1.0]], [0.2, 0.3, 1.0]),
        QUATERNION,
        2,
        None,
    ),
    "free": (FreeRigidBody([1.0, 2.0, 2.5]), QUATERNION, 3, None),
    "disk": (
        ActuatedDisk(
            radius=1.0,
            disk_mass=2.0,
            disk_inertia=1.5,
            disk_com=[0.0, 0.0, -0.05],
            masses=[1.0, 0.5],
            rails=CircularRails([0.8, 0.6], [[0.0, 1, 0]] * 2, [[1.0, 0, 0]] * 2),
        ),
        (RNG.normal(size=(BATCH, 1)), RNG.normal(size=(BATCH, 1))),
        1,
        swing(2),
    ),
}


def rate(route):
    def f(system, q, u, control):
        return VectorField(route)(jnp.asarray(0.3), (q, u), (system, control))

    return f


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", CASES)
def test_right_hand_sides(name, route):
    """Each lane has its own state and control."""
    system, q, k, control = CASES[name]
    args, axes = (system, q, RNG.normal(size=(BATCH, k)), control), (None, 0, 0, 0)
    close(jax.jit(lanes(rate(route), axes))(*args), jax.jit(jax.vmap(rate(route), axes))(*args))


def test_parameters_of_each_lane():
    """Each lane has its own masses, lengths and inertias; the gradient by all of them equals that under `vmap`."""
    system, q, k, control = CASES["ball"]
    spread = 1 + 0.1 * RNG.random(BATCH)
    each = lambda x: jnp.asarray(np.multiply.outer(spread, np.asarray(x)))
    many = eqx.tree_at(  # rails keep their unit vectors
        lambda ball: ball.rails,
        jax.tree.map(each, system),
        jax.tree.map(lambda x: jnp.stack([x] * BATCH), system.rails),
    )
    args = (many, q, RNG.normal(size=(BATCH, k)), control)
    closed = lambda system, q, u, control: system.closed_form(0.3, q, u, control)
    total = lambda t: jax.jit(
        jax.grad(
            lambda *a: jnp.sum(jnp.sin(t(closed)(*a))),
            (0, 3),
        )
    )
    close(total(lanes)(*args), total(jax.vmap)(*args), rtol=1e-12)


def inner_jaxprs(equation):
    """The jaxprs of the functions that an equation calls, loops over or chooses among."""
    for value in equation.params.values():
        for each in value if isinstance(value, list | tuple) else [value]:
            jaxpr = getattr(each, "jaxpr", each)
            if hasattr(jaxpr, "eqns"):
                yield jaxpr


def naive_products(f, *args) -> int:
    """Number of products in the program before folding: entries of each `mul`, terms of each `dot_general`."""

    def count(jaxpr):
        total = 0
        for equation in jaxpr.eqns:
            if equation.primitive.name == "mul":
                total += equation.outvars[0].aval.size
            if equation.primitive.name == "dot_general":
                (summed, _), _ = equation.params["dimension_numbers"]
                terms = np.prod([equation.invars[0].aval.shape[i] for i in summed], dtype=int)
                total += equation.outvars[0].aval.size * int(terms)
            total += sum(map(count, inner_jaxprs(equation)))
        return total

    return count(jax.make_jaxpr(f)(*args).jaxpr)


# the largest number of products that may remain, 10 % above the number measured
@pytest.mark.parametrize(("route", "most"), [("gauss", 230), ("boltzmann-hamel", 470)])
def test_folding_saves_multiplications(route, most):
    system, q, _, control = CASES["ball"]
    one = jax.tree.map(lambda x: jnp.asarray(x[0]), (q, RNG.normal(size=(BATCH, 3)), control))
    f = lambda q, u, control: rate(route)(system, q, u, control)
    closed = jax.make_jaxpr(lambda *a: jax.tree.leaves(f(*a)))(*one)
    left = scalarise(closed, [True] * len(closed.in_avals)).operations()["mul"]
    assert left <= most
    assert left < 0.5 * naive_products(f, *one)
