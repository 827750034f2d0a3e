"""Each primitive that lanes know, against `jax.vmap` of the original function."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from jaxhamel._lanes._rules._primitives import PRIMITIVES
from jaxhamel._lanes._solutions._symmetric_solve import NAME as SYMMETRIC_SOLVE
from jaxhamel.ensemble import lanes

BATCH = 5

X = np.random.default_rng(0).uniform(0.2, 0.9, (BATCH, 3, 4))
INTEGERS = np.random.default_rng(1).integers(-5, 6, (BATCH, 3, 4))

UNARY = {
    "abs": jnp.abs,
    "acos": jnp.arccos,
    "acosh": lambda x: jnp.arccosh(1.0 + x),
    "asin": jnp.arcsin,
    "asinh": jnp.arcsinh,
    "atan": jnp.arctan,
    "atanh": jnp.arctanh,
    "bessel_i0e": lax.bessel_i0e,
    "bessel_i1e": lax.bessel_i1e,
    "cbrt": jnp.cbrt,
    "ceil": lambda x: jnp.ceil(3.0 * x),
    "clamp": lambda x: lax.clamp(0.3, x, 0.6),
    "copy": jnp.copy,
    "cos": jnp.cos,
    "cosh": jnp.cosh,
    "digamma": lambda x: lax.digamma(x),
    "erf": lax.erf,
    "polygamma": lambda x: jax.scipy.special.polygamma(2, x + 0.5),
    "erf_inv": lax.erf_inv,
    "erfc": lax.erfc,
    "exp": jnp.exp,
    "exp2": jnp.exp2,
    "expm1": jnp.expm1,
    "floor": lambda x: jnp.floor(3.0 * x),
    "integer_pow": lambda x: x**3 + x**-2,
    "is_finite": jnp.isfinite,
    "lgamma": lax.lgamma,
    "log": jnp.log,
    "log1p": jnp.log1p,
    "log2": jnp.log2,
    "logistic": jax.nn.sigmoid,
    "neg": jnp.negative,
    "one_minus_square": getattr(lax, "one_minus_square", lambda x: (1.0 + x) * (1.0 - x)),
    "round": lambda x: jnp.round(5.0 * x),
    "reduce_precision": lambda x: lax.reduce_precision(x, 8, 10),
    "rsqrt": lax.rsqrt,
    "sign": lambda x: jnp.sign(x - 0.5),
    "sin": jnp.sin,
    "sinh": jnp.sinh,
    "sqrt": jnp.sqrt,
    "square": jnp.square,
    "stop_gradient": lax.stop_gradient,
    "tan": jnp.tan,
    "tanh": jnp.tanh,
}
BINARY = {
    "add": jnp.add,
    "atan2": jnp.arctan2,
    "bitcast_convert_type": lambda x, y: jnp.copysign(x, y - 0.5),
    "div": jnp.divide,
    "eq": jnp.equal,
    "ge": jnp.greater_equal,
    "gt": jnp.greater,
    "le": jnp.less_equal,
    "lt": jnp.less,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "mul": jnp.multiply,
    "ne": jnp.not_equal,
    "nextafter": jnp.nextafter,
    "pow": jnp.power,
    "rem": lax.rem,
    "sub": jnp.subtract,
}
LOGICAL = {
    "and": jnp.bitwise_and,
    "or": jnp.bitwise_or,
    "xor": jnp.bitwise_xor,
    "clz": lambda x, y: lax.clz(x),
    "population_count": lambda x, y: lax.population_count(x),
    "remainder of known numbers": lambda x, y: x[np.arange(4) % 3] + jnp.arange(-2, 2) // 3,
    "not": lambda x, y: ~x,
    "shift_left": lambda x, y: lax.shift_left(x, jnp.abs(y)),
    "shift_right_arithmetic": lambda x, y: lax.shift_right_arithmetic(x, jnp.abs(y)),
    "shift_right_logical": lambda x, y: lax.shift_right_logical(x, jnp.abs(y)),
    "integer division": lambda x, y: x // (jnp.abs(y) + 1),
    "integer remainder": lambda x, y: x % (jnp.abs(y) + 1),
}
SHAPED = {
    "argmax": lambda x: x[jnp.argmax(x, axis=0), jnp.argmin(x[:, 0])],
    "argmin": lambda x: jnp.argmin(x.at[0, 1].set(jnp.nan), axis=1),
    "broadcast_in_dim": lambda x: jnp.broadcast_to(x[None], (2, 3, 4)) * 2.0,
    "cholesky": lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(3)),
    "cholesky of what is not positive": lambda x: jnp.isnan(
        jnp.linalg.cholesky(x @ x.T - jnp.eye(3))
    ),
    "complex": lambda x: jnp.abs(lax.complex(x, 2.0 * x) ** 2),
    "conj": lambda x: jnp.angle(jnp.conj(lax.complex(x, x * x))),
    "concatenate": lambda x: jnp.concatenate([x, 2.0 * x], axis=1),
    "convert_element_type": lambda x: x.astype(np.float32),
    "cummax": lambda x: lax.cummax(x, axis=1),
    "cummin": lambda x: lax.cummin(x, axis=0, reverse=True),
    "cumprod": lambda x: jnp.cumprod(x, axis=0),
    "cumsum": lambda x: jnp.cumsum(x, axis=1),
    "cumsum reversed": lambda x: lax.cumsum(x, axis=0, reverse=True),
    "dot_general": lambda x: x @ x.T,
    "dot_general vector": lambda x: jnp.dot(x[0], x[1]),
    "dot_general batched": lambda x: jnp.einsum("ij,ikj->ik", x, jnp.stack([x, 2.0 * x], axis=1)),
    "conv_general_dilated": lambda x: jnp.convolve(x[0], x[1, :3], mode="same"),
    "convolution with strides": lambda x: lax.conv_general_dilated(
        x.reshape(1, 2, 6), x[:, :2].reshape(1, 2, 3), (2,), [(1, 3)], (2,), (2,)
    ),
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (1, 7), (2, 2)),
    "dynamic_update_slice": lambda x: lax.dynamic_update_slice(x, 2.0 * x[:2, 1:], (7, 1)),
    "eigh": lambda x: jnp.abs(jnp.linalg.eigh(x @ x.T)[1]),
    "empty": lambda x: x[:0],
    "expand_dims": lambda x: lax.expand_dims(x, (1,)),
    "gather": lambda x: x[np.array([2, 0, 2])],
    "gather pairs": lambda x: x[np.array([2, 0]), np.array([1, 3])],
    "gather at data": lambda x: x[jnp.argsort(x[:, 0])],
    "gather along an axis": lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1),
    "gather beyond the end": lambda x: jnp.take(
        x[0], jnp.argsort(x[1]) + 1, mode="fill", fill_value=7
    ),
    "imag": lambda x: jnp.imag(jnp.exp(lax.complex(x, x))),
    "interpolation": lambda x: jnp.interp(x[0], np.linspace(0, 1, 12), np.cos(np.arange(12.0))),
    "iota": lambda x: x + jnp.arange(4.0)[None, :],
    "le_to": lambda x: jnp.searchsorted(np.linspace(0, 1, 5), x[0], side="right"),
    "lt_to": lambda x: jnp.searchsorted(np.linspace(0, 1, 5), x[0]),
    "lu": lambda x: jnp.linalg.inv(x[:, :3] - jnp.eye(3)[::-1]),
    "lu of a stack": lambda x: jnp.linalg.solve(
        x.reshape(3, 2, 2) + jnp.eye(2)[None], jnp.ones((3, 2, 1))
    ),
    "lu determinant": lambda x: jnp.linalg.det(jnp.pad(x, ((0, 1), (0, 0))) + 2 * jnp.eye(4)),
    "optimization_barrier": lambda x: lax.optimization_barrier(x),
    "pad": lambda x: lax.pad(x, 7.0, ((1, 2, 1), (-1, 1, 0))),
    "qr": lambda x: jnp.linalg.qr(x.T),
    "real": lambda x: jnp.real(jnp.exp(lax.complex(x, x))),
    "reduce_and": lambda x: jnp.all(x > 0.3, axis=0),
    "reduce_max": lambda x: jnp.max(x, axis=1),
    "reduce_min": lambda x: jnp.min(x),
    "reduce_or": lambda x: jnp.any(x > 0.8, axis=0),
    "reduce_prod": lambda x: jnp.prod(x, axis=0),
    "reduce_sum": lambda x: jnp.sum(x, axis=(0, 1)),
    "reduce_sum of nothing": lambda x: jnp.sum(x[:, :0], axis=1),
    "reshape": lambda x: jnp.reshape(x, (2, 6)),
    "rev": lambda x: x[::-1, ::-1],
    "scatter": lambda x: x.at[1, np.array([0, 2])].set(x[0, :2]),
    "scatter-add": lambda x: x.at[np.array([0, 2, 0])].add(x),
    "scatter at data": lambda x: x.at[jnp.argsort(x[:, 0]), jnp.argmax(x[0])].set(x[:, 0]),
    "scatter beyond the end": lambda x: x.at[jnp.argsort(x[:, 0]) + 1].set(7.0, mode="drop"),
    "scatter-max": lambda x: x.at[np.array([0, 2]), 1].max(0.5),
    "scatter-min": lambda x: x.at[0, jnp.argsort(x[1])[:2]].min(0.5, mode="clip"),
    "scatter-mul": lambda x: x.at[jnp.array([0, 0])].multiply(2.0, mode="promise_in_bounds"),
    "scatter-sub": lambda x: x.at[jnp.argsort(x[:, 0])[:2]].subtract(x[1:]),
    "select_n": lambda x: jnp.where(x > 0.5, x, -x),
    "select_n scalar": lambda x: lax.select_n(x[0, 0] > 0.5, x, -x),
    "slice": lambda x: x[1:, ::2],
    "sort": lambda x: jnp.sort(x.at[0, 1].set(jnp.nan), axis=1)[:, :3],
    "sort of integers": lambda x: lax.sort(
        ((40 * jnp.tile(x.ravel(), 3)).astype(int) % 5, jnp.arange(36)), num_keys=1
    ),
    "sort by two keys": lambda x: lax.sort((jnp.round(3 * x), x.T.reshape(3, 4), x), num_keys=2)[2],
    "split": lambda x: jnp.split(x, [1, 2], axis=1),
    "squeeze": lambda x: jnp.squeeze(x[:1]),
    "stack": lambda x: jnp.stack([x, x + 1.0], axis=2),
    "svd": lambda x: jnp.linalg.svd(x, compute_uv=False) ** 2,
    "tile": lambda x: jnp.tile(x, (2, 1)),
    "top_k": lambda x: lax.top_k(jnp.round(3 * x).at[0, 1].set(jnp.nan), 3),
    "top_k along the first axis": lambda x: lax.top_k(x, 2, axis=0),
    "transpose": lambda x: jnp.transpose(x),
    "triangular_solve": lambda x: [
        lax.linalg.triangular_solve(
            x[:, :3], x if left else x.T, left_side=left, lower=low, transpose_a=t
        )
        for left in (True, False)
        for low in (True, False)
        for t in (True, False)
    ],
    "unstack": lambda x: jnp.unstack(x, axis=1),
}


def same(f, *args, rtol=1e-14, **kwargs):
    found, wanted = jax.jit(lanes(f, **kwargs))(*args), jax.vmap(f, **kwargs)(*args)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-15)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    same(UNARY[name], X[:, 0], rtol=1e-13)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    same(BINARY[name], X[:, 0], np.roll(X[:, 0], 1).round(1), rtol=1e-13)


@pytest.mark.parametrize("name", LOGICAL)
def test_integers(name):
    same(LOGICAL[name], INTEGERS[:, 0], INTEGERS[:, 1])


@pytest.mark.parametrize("name", SHAPED)
def test_shapes_sums_and_products(name):
    same(SHAPED[name], X)


def test_convolutions_in_the_plane():
    """Values by NumPy, and gradients one by one: XLA's convolution of a batch with kernels of its own is wrong in places
    where it is compiled without optimisation (jaxlib 0.10.2)."""

    def f(x):
        image, kernel, around = x.reshape(1, 3, 4, 1), x[:2].reshape(2, 2, 1, 2), [(0, 1), (-1, 1)]
        names = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(image, kernel, (1, 1), around, dimension_numbers=names)[0]

    padded = np.pad(X, ((0, 0), (0, 1), (0, 1)))[:, :, 1:, None]
    kernels = np.asarray(X[:, :2]).reshape(-1, 2, 2, 1, 2)
    exact = sum(
        padded[:, p : p + 3, q : q + 3] * kernels[:, p : p + 1, q : q + 1, 0]
        for p, q in np.ndindex(2, 2)
    )
    np.testing.assert_allclose(jax.jit(lanes(f))(X), exact, rtol=1e-14)
    gradient = jax.grad(lambda x: jnp.sum(jnp.sin(f(x))))
    one_by_one = jax.lax.map(gradient, jnp.asarray(X))
    np.testing.assert_allclose(jax.jit(lanes(gradient))(X), one_by_one, rtol=1e-13, atol=1e-14)


def test_every_rule_is_tested():
    """Each rule's name appears in a test, so that no new rule is forgotten; `add_any` occurs in derivatives."""
    tested = UNARY | BINARY | LOGICAL | SHAPED
    rules = {name for name, record in PRIMITIVES.items() if record.rule and not record.nested}
    assert {"asin", "dot_general", "scatter-add"} <= rules
    # these occur with devices, in derivatives of branches, and in tests/lanes/test_symmetric_solve.py
    elsewhere = {"add_any", "reshard", "empty2", SYMMETRIC_SOLVE}
    assert rules - set(tested) == elsewhere


def test_add_any():
    f = jax.grad(lambda x: jnp.sum(jnp.sin(x) * x))
    assert "add_any" in str(jax.make_jaxpr(f)(X[0]))
    same(f, X)


@pytest.mark.parametrize("place", [-2, 0, 1, 3, 9])
def test_an_index_that_differs_from_lane_to_lane(place):
    """For `x[i]` with a computed i, negative indices count from the end, and those outside are clamped."""
    places = place + np.arange(BATCH) % 2
    same(lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, axis=1), X, places)
    same(lambda x, i: x[0][i], X, np.clip(places, -4, 3))


@pytest.mark.parametrize("place", [-2, 1, 9])
def test_a_window_written_where_data_say(place):
    places = place + np.arange(BATCH) % 2
    update = lax.dynamic_update_slice
    same(lambda x, i: update(x, 2.0 * x[:2], (i, 0)), X, places)
    same(lambda x, i: update(x, 2.0 * x[:2, :3], (i, i - 1)), X, places)


WITHOUT_DERIVATIVE = {"nextafter"}  # which JAX does not differentiate


NAMES = list(SHAPED)  # in five groups: one program of all took five times as long to compile


@pytest.mark.parametrize(
    ("group", "arguments"),
    [
        (UNARY, X[:, 0]),
        (BINARY, (X[:, 0], np.roll(X[:, 0], 1) + 0.05)),
        *(({name: SHAPED[name] for name in NAMES[i::5]}, X) for i in range(5)),
    ],
    ids=["unary", "binary", *(f"shaped {i}" for i in range(5))],
)
def test_derivatives_of_every_primitive_stay_in_lanes(group, arguments):
    """Derivatives of a group of primitives equal those of `vmap`, without the warning for a missing rule."""
    arguments = arguments if isinstance(arguments, tuple) else (arguments,)

    def every(transform, *x):
        def f(*x):
            found = [group[name](*x) for name in group if name not in WITHOUT_DERIVATIVE]
            return [y for y in jax.tree.leaves(found) if jnp.issubdtype(y.dtype, jnp.floating)]

        return sum(jnp.sum(jnp.cos(y.astype(float))) for y in transform(f)(*x))

    for by in range(len(arguments)):
        found, wanted = (
            jax.jit(jax.grad(lambda *x, t=t: every(t, *x), by))(*arguments)
            for t in (lanes, jax.vmap)
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-13)


def test_constants_beyond_an_array_are_what_the_mode_says():
    same(lambda x: jnp.take(x, np.array([0, 9]), axis=0, mode="fill"), X)
    same(lambda x: jnp.take(x, np.array([0, 9]), axis=0, mode="clip"), X)


def test_single_precision_stays_single(float32):
    x = X.astype(np.float32)
    same(lambda x: jnp.sin(x) @ x.T + 2.0 * jnp.eye(3, dtype=x.dtype), x, rtol=2e-6)


OPERATIONS = [
    lambda x, y, c: x * y,
    lambda x, y, c: x + y,
    lambda x, y, c: x - y,
    lambda x, y, c: c * x,
    lambda x, y, c: x + c,
    lambda x, y, c: c - x,
    lambda x, y, c: -x,
    lambda x, y, c: c / (2.0 + y * y),
    lambda x, y, c: jnp.sin(x),
    lambda x, y, c: jnp.where(x > y, x, c * y),
    lambda x, y, c: x * jnp.zeros_like(y) + y,
    lambda x, y, c: jnp.stack([x[1], y[0]]),
    lambda x, y, c: jnp.eye(2) @ x,
]
CONSTANTS = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5])
STEPS = st.lists(
    st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 9), st.integers(0, 9), CONSTANTS),
    min_size=1,
    max_size=8,
)


@settings(max_examples=40)
@given(STEPS)
def test_any_program_of_a_few_operations(steps):
    """Values and gradient stay those of the original, whichever constants are folded."""

    def f(x):
        known = [x, jnp.array([0.0, 1.0])]
        for which, i, j, c in steps:
            known.append(OPERATIONS[which](known[i % len(known)], known[j % len(known)], c))
        return known[-1]

    x = X[:, :2, 0]
    same(f, x, rtol=1e-12)
    total = lambda transform: jax.grad(lambda x: jnp.sum(jnp.cos(transform(f)(x))))
    np.testing.assert_allclose(total(lanes)(x), total(jax.vmap)(x), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize(
    ("named", "f"),
    {
        "sort` of more than 16": lambda x: jnp.sort(jnp.tile(x[0], 5)),
        "sort` of more than 64": lambda x: x[
            0, jnp.argsort(jnp.arange(65) + jnp.argmax(x))[:2] % 4
        ],
        "conv_general_dilated` with groups": lambda x: lax.conv_general_dilated(
            x.reshape(1, 2, 6), x[:, :2].reshape(2, 1, 3), (1,), "SAME", feature_group_count=2
        ),
        "top_k` of more than 16": lambda x: lax.top_k(jnp.tile(x[0], 5), 2)[0],
        "bitcast_convert_type between": lambda x: lax.bitcast_convert_type(x, jnp.int32),
        "cholesky` of complex": lambda x: jnp.linalg.cholesky(lax.complex(x @ x.T, 0.0 * x[:, :3])),
        "eigh` of complex": lambda x: jnp.linalg.eigvalsh(lax.complex(x @ x.T, 0.0 * x[:, :3])),
        "fft` of more than 64": lambda x: jnp.fft.rfft(jnp.tile(x[0], 20)),
        "pure_callback": lambda x: jax.pure_callback(
            np.sin, jax.ShapeDtypeStruct((4,), float), x[0], vmap_method="broadcast_all"
        ),
    }.items(),
)
def test_what_has_no_rule_is_named_and_runs_under_vmap(named, f):
    with pytest.warns(UserWarning, match=f"lanes cannot take .*{named}.*jax.vmap instead"):
        found = lanes(f)(X)
    np.testing.assert_allclose(found, jax.vmap(f)(X), rtol=1e-13)


def test_no_warning_without_cause():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lanes(jnp.sin)(X)
