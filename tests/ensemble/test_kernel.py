"""The GPU kernel in Pallas' interpreter against XLA's lanes, and its lowering for CUDA, without a GPU.

Lowering for CUDA ends at Triton's intermediate language. A primitive, a dtype or a shape without a rule there (not a
power of two) fails here on any machine.
"""

from functools import cache

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import ensemble
from jaxhamel.control import Spline
from jaxhamel.ensemble import Kernel
from jaxhamel.ensemble._gpu_kernel import _kernel_trial
from jaxhamel.ensemble._gpu_kernel._kernel_paths import KernelPaths
from jaxhamel.systems import FreeRigidBody
from tests.systems.motion import unit_quaternions

RNG = np.random.default_rng(8)
B = 6  # a block of 4 and half a block
INTERPRET = Kernel(block=4, interpret=True)
UNEVEN = np.array([0.0, 0.1, 0.12, 0.3])  # 5, 1, 9 steps of 0.02
RHO = np.linspace(0.0, 21.0, B)


def lorenz(t, y, rho):
    x, y, z = y
    return jnp.stack([10 * (y - x), x * (rho - z) - y + jnp.sin(3 * t), x * y - 8 / 3 * z])


def solve(rho, y0, kernel, method="rk4", ts=UNEVEN):
    axes = (None, 0)
    return ensemble.integrate(
        lorenz, y0, ts, rho, dt=0.02, in_axes=axes, method=method, kernel=kernel
    )


def start(dtype):
    return jnp.array([1.0, 0.2, 0.5], dtype)


@pytest.mark.parametrize("longest", [0, 10_000], ids=["loop", "written out"])
@pytest.mark.parametrize("method", ["rk4", diffrax.Tsit5()], ids=["rk4", "tsit5"])
@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-13), (np.float32, 3e-5)])
def test_kernel_is_the_plain_rollout(method, longest, dtype, error):
    """The kernel equals lanes with its stages in a loop or unrolled, with intervals of different step counts and a
    partial block."""
    kernel, rho = Kernel(block=4, longest=longest, interpret=True), jnp.asarray(RHO, dtype)
    found = solve(rho, start(dtype), kernel, method)
    assert found.dtype == dtype
    wanted = solve(rho, start(dtype), False, method)
    np.testing.assert_allclose(found, wanted, rtol=error, atol=error)


def test_value_against_a_tight_solution():
    """The kernel's last state equals a solution by diffrax with a tolerance of 1e-11."""
    term = diffrax.ODETerm(lambda t, y, rho: lorenz(t, y, rho))
    controller = diffrax.PIDController(rtol=1e-11, atol=1e-12)
    wanted = diffrax.diffeqsolve(
        term, diffrax.Dopri8(), 0.0, 0.3, 1e-3, start(float), 21.0, stepsize_controller=controller
    )
    found = solve(jnp.asarray(RHO), start(float), INTERPRET, diffrax.Dopri8())
    np.testing.assert_allclose(found[-1, -1], wanted.ys[0], rtol=1e-9)


def mean_of(kernel):
    return lambda rho, y0: jnp.mean(solve(rho, y0, kernel)[:, 1:] ** 2)


@cache
def gradient_in_lanes():
    return jax.jit(jax.grad(mean_of(False), (0, 1)))(jnp.asarray(RHO), start(float))


@pytest.mark.parametrize("kernel", [INTERPRET, True], ids=["interpreter", "no GPU"])
def test_derivatives_are_those_of_the_plain_rollout(kernel):
    """Reverse and forward derivatives by each rho and by the shared initial state equal those of lanes."""
    at, wanted = (jnp.asarray(RHO), start(float)), gradient_in_lanes()
    direction = (jnp.ones(B), jnp.array([0.3, -0.2, 0.5]))
    reverse = jax.jit(jax.grad(mean_of(kernel), (0, 1)))(*at)
    for one, other in zip(reverse, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11)
    forward = jax.jvp(mean_of(kernel), at, direction)[1]
    along = sum(jnp.vdot(g, d) for g, d in zip(wanted, direction, strict=True))
    np.testing.assert_allclose(forward, along, rtol=1e-11)


BODY_TIMES = np.array([0.0, 0.2])


def tumble(kernel, inertia, in_axes):
    q0, u0 = unit_quaternions(np.random.default_rng(3), B), np.full((B, 3), 0.7)
    body = FreeRigidBody(inertia) if in_axes is None else jax.vmap(FreeRigidBody)(inertia)
    axes = (in_axes, 0, 0, None)
    return ensemble.rollout(body, q0, u0, BODY_TIMES, dt=0.1, in_axes=axes, kernel=kernel)


@pytest.mark.parametrize("in_axes", [None, 0], ids=["shared", "own"])
def test_rollout_takes_the_kernel(in_axes):
    """The kernel normalises quaternions. It reads shared parameters as scalars and those of each trajectory as vectors."""
    inertia = jnp.array([1.0, 2.0, 2.5])
    inertia = inertia if in_axes is None else jnp.outer(jnp.linspace(0.5, 1.5, B), inertia)
    (q, u), (wanted_q, wanted_u) = (tumble(k, inertia, in_axes) for k in (INTERPRET, False))
    np.testing.assert_allclose(q, wanted_q, rtol=0, atol=1e-15)
    np.testing.assert_allclose(u, wanted_u, rtol=0, atol=1e-14)


def curves(own):
    """A spline shared by all lanes, or one with another time span in each lane, whose windows begin at different
    indices."""
    coefficients = jnp.asarray(RNG.normal(size=(12, 2)))
    if not own:
        return Spline(coefficients, 0.0, 1.0)
    return jax.vmap(lambda s: Spline(s * coefficients, 0.0, s))(jnp.linspace(0.1, 1.0, B))


@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
def test_look_ups(own):
    """The kernel reads windows of a table at computed indices from memory."""
    curve = curves(own)

    def follow(kernel):
        return ensemble.integrate(
            lambda t, y, curve: curve(t) - y,
            jnp.zeros((B, 2)),
            [0.0, 0.5, 1.0],
            curve,
            dt=0.1,
            in_axes=(0, 0 if own else None),
            kernel=kernel,
        )

    np.testing.assert_allclose(follow(INTERPRET), follow(False), rtol=1e-12, atol=1e-14)


def test_interpolation_and_branches():
    """The kernel takes `jnp.interp` and `lax.cond` as lanes do, without a warning."""
    knots, values = np.linspace(0.0, 1.0, 7), np.cos(np.arange(7.0))

    def bounce(t, y, stiffness):
        wall = jax.lax.cond(y[0] > 1, lambda x: stiffness * (1 - x), lambda x: 0.0 * x, y[0])
        return jnp.stack([y[1], jnp.interp(t, knots, values) + wall])

    found, wanted = (
        ensemble.integrate(
            bounce,
            jnp.array([0.9, 0.5]),
            [0, 0.5, 1],
            RHO,
            dt=0.1,
            in_axes=(None, 0),
            kernel=kernel,
        )
        for kernel in (INTERPRET, False)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


LIBDEVICE = {np.float32: "__nv_atan2f", np.float64: "__nv_atan2"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lowers_for_cuda(dtype):
    """Without a GPU, the program lowers to one Triton kernel, without a gather or a loop outside it."""

    def swirl(t, y, spline):
        angle = jnp.arctan2(y[1], y[0]) + jnp.where(y[0] > 0, y[0], -y[1]) ** 2
        return jnp.sqrt(1 + y**2) * jnp.exp(-(angle**2)) * jnp.sin(t * y) + spline(t)

    spline = jax.tree.map(lambda x: x.astype(dtype), curves(own=True))
    program = jax.jit(
        lambda y: ensemble.integrate(
            swirl, y, np.array([0.0, 0.1, 0.3]), spline, dt=0.1, method=diffrax.Tsit5(), kernel=True
        )
    )
    try:
        lowered = program.trace(jnp.ones((B, 2), dtype)).lower(lowering_platforms=("cuda",))
    except ImportError as error:
        pytest.skip(f"this jaxlib cannot lower for CUDA: {error}")
    text = lowered.as_text()
    assert text.count("xla.gpu.triton") + text.count("triton_kernel_call") == 1
    assert LIBDEVICE[dtype] in text
    assert "stablehlo.gather" not in text
    assert "stablehlo.while" not in text


def test_gradient_lowers_for_cuda():
    """The gradient's program lowers for CUDA and contains the kernel."""
    loss = lambda rho: jnp.sum(solve(rho, start(np.float32), True) ** 2)
    rho = jnp.asarray(RHO, np.float32)
    lowered = jax.jit(jax.grad(loss)).trace(rho).lower(lowering_platforms=("cuda",))
    assert "triton" in lowered.as_text()


def test_what_a_kernel_cannot_take_runs_in_lanes():
    """A primitive without a rule for the kernel runs in lanes, with a warning that names it."""
    y0 = jnp.linspace(0.1, 1.0, B)

    def decay(kernel):
        f = lambda t, y, _: -jax.scipy.special.erf(y)
        return ensemble.integrate(f, y0, [0.0, 0.2], dt=0.1, in_axes=(0, None), kernel=kernel)

    with pytest.warns(UserWarning, match=r"cannot take the primitive `erf`.*kernel=False"):
        found = decay(INTERPRET)
    np.testing.assert_array_equal(found, decay(False))


# --- the trial of a kernel that is not trusted ------------------------------------------------------------------------


def clock(kernel, lanes):
    """A clock on which three timed runs of the kernel, then three of lanes, last the given seconds."""
    times = iter(np.cumsum([x for each in (kernel, lanes) for x in 3 * [1.0, each]]).tolist())
    return lambda: next(times)


def tried(monkeypatch, number, *, kernel=0.1, lanes=0.2):
    """Solves with a kernel on trial. Each test passes another `number`, since a program is compiled only once."""
    monkeypatch.setattr(_kernel_trial, "perf_counter", clock(kernel, lanes))
    new = Kernel(block=4, longest=1_000 + number, interpret=True, trusted=False)
    return solve(jnp.asarray(RHO), start(float), new)


def by_kernel(monkeypatch, function):
    monkeypatch.setattr(KernelPaths, "by_kernel", function)


def test_the_faster_kernel_is_used(monkeypatch):
    runs, integrate = [], KernelPaths.by_kernel
    by_kernel(monkeypatch, lambda *at: runs.append(at) or integrate(*at))
    found = tried(monkeypatch, 1)
    assert len(runs) == 2  # once in the trial, once after it
    np.testing.assert_allclose(found, solve(jnp.asarray(RHO), start(float), False), rtol=1e-13)


def test_the_slower_kernel_is_not_used(monkeypatch):
    lanes = solve(jnp.asarray(RHO), start(float), False)
    with pytest.warns(UserWarning, match=r"is slower than lanes \(200 ms, 100 ms\).*kernel=False"):
        found = tried(monkeypatch, 2, kernel=0.2, lanes=0.1)
    np.testing.assert_array_equal(found, lanes)


def test_a_wrong_kernel_is_not_used(monkeypatch):
    lanes, integrate = solve(jnp.asarray(RHO), start(float), False), KernelPaths.by_kernel
    by_kernel(monkeypatch, lambda *at: tuple(x * (1 + 1e-6) for x in integrate(*at)))
    with pytest.warns(
        UserWarning, match=r"other results than lanes \(relative difference 1\.0e-06"
    ):
        found = tried(monkeypatch, 3)
    np.testing.assert_array_equal(found, lanes)


def test_a_kernel_that_does_not_compile_is_not_used(monkeypatch):
    lanes = solve(jnp.asarray(RHO), start(float), False)

    def refused(*at):
        raise RuntimeError("ptxas exited with 1\nmore lines")

    by_kernel(monkeypatch, refused)
    with pytest.warns(UserWarning, match=r"compiled here \(RuntimeError: ptxas exited with 1\)"):
        found = tried(monkeypatch, 4)
    np.testing.assert_array_equal(found, lanes)


def test_messages():
    rho = jnp.asarray(RHO)
    with pytest.raises(TypeError, match=r"`kernel` is 'pallas'.*True, False, or"):
        solve(rho, start(float), "pallas")
    with pytest.raises(ValueError, match=r"`block` is 96.*power of two"):
        solve(rho, start(float), Kernel(block=96))
    with pytest.raises(ValueError, match=r"`y0` holds numbers of int64.*floating"):
        solve(rho, jnp.array([1, 0, 0]), False)
    with pytest.raises(ValueError, match=r"`y0` is .*nan.*finite"):
        solve(rho, jnp.array([1.0, np.nan, 0]), False)
    with pytest.raises(ValueError, match=r"`f` returned float64\[2\] for a state float64\[3\]"):
        ensemble.integrate(lambda t, y, _: y[:2], jnp.ones((B, 3)), [0, 0.1], dt=0.1)
