"""`Projected`: unit quaternions, dense output, implicit methods, derivatives, and the spaces that it takes."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest

import jaxhamel.geometry as geo
from jaxhamel.simulate import LieGroup, Projected, simulate
from tests.simulate.curves_on_groups import (
    Kinematics,
    after_steps,
    distance,
    exact,
    solve,
    start,
)
from tests.simulate.small_systems import Body

SO3, SE3 = geo.SO3(), geo.SE3()
SL2 = geo.MatrixGroup([[[1.0, 0], [0, -1]], [[0, 1], [0, 0]], [[0, 0], [1, 0]]])


def test_quaternions_stay_unit_over_many_steps():
    q, _ = after_steps(Projected(diffrax.Euler(), SO3), 1000.0, 100_000)
    assert abs(np.linalg.norm(np.asarray(q)) - 1.0) < 4e-16


def test_dense_output_event_and_exact_motion():
    controller = diffrax.PIDController(rtol=1e-9, atol=1e-11)
    ts = jnp.linspace(0.0, 3.0, 17)
    saveat = diffrax.SaveAt(ts=ts, dense=True)
    event = diffrax.Event(lambda t, y, args, **_: y[0][4] - 5.0, optx.Newton(1e-13, 1e-13))
    solution = solve(
        SE3, Projected(diffrax.Tsit5(), SE3), 3.0, None, stepsize_controller=controller,
        saveat=saveat, max_steps=2000, event=event,
    )  # fmt: skip
    q_dense, _ = jax.vmap(solution.evaluate)(ts)
    np.testing.assert_allclose(q_dense, solution.ys[0], atol=1e-12)
    np.testing.assert_allclose(q_dense, jax.vmap(lambda t: exact(SE3, t))(ts), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(q_dense[:, :4], axis=1), 1.0, atol=5e-16)
    q, q_dot = solution.evaluate(1.3)[0], solution.derivative(1.3)[0]
    assert abs(float(jnp.dot(q[:4], q_dot[:4]))) < 1e-12  # tangent to the unit sphere


def test_as_near_to_the_exact_motion_as_a_lie_group_method():
    controller = diffrax.PIDController(rtol=1e-8, atol=1e-8)
    end = exact(SE3, 5.0)
    errors = [
        float(
            distance(
                SE3,
                solve(SE3, wrapper(diffrax.Dopri8(), SE3), 5.0, None, stepsize_controller=controller)
                .ys[0][0],
                end,
            )
        )
        for wrapper in (Projected, LieGroup)
    ]  # fmt: skip
    assert errors[0] < 1e-6
    assert errors[0] < 10 * errors[1]


def test_an_implicit_method():
    """`simulate` projects an implicit method, too: quaternions stay unit, and the motion is that of the default solver."""
    body, q0, u0, ts = Body(jnp.array([1.0, 2.0, 2.5])), [1.0, 0, 0, 0], [0.3, 1.0, 0.2], [0.0, 1.0]
    runs = [
        simulate(body, q0, u0, ts, solver=solver, rtol=1e-9, atol=1e-9)
        for solver in (diffrax.Kvaerno5(), None)
    ]
    np.testing.assert_allclose(runs[0].q[-1], runs[1].q[-1], atol=1e-6)
    assert abs(np.linalg.norm(runs[0].q[-1]) - 1.0) < 4e-16


def test_gradient_backward_forward_and_by_richardson():
    """The gradient of a free body's end by its inertia, with the solver that `simulate` chooses."""
    q0, u0, ts = jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.array([0.3, 1.0, 0.2]), jnp.array([0.0, 1.5])
    weight = jnp.array([0.3, -1.0, 0.5, 0.8])

    def end(inertia):
        return weight @ simulate(Body(inertia), q0, u0, ts, dt=0.05).q[-1]

    at, along = jnp.array([1.0, 2.0, 2.5]), jnp.array([0.6, -0.3, 0.2])
    backward = jax.jit(jax.grad(end))(at) @ along
    value_and_slope = jax.jit(lambda x: jax.jvp(end, (x,), (along,)))
    forward = value_and_slope(at)[1]
    value = lambda h: value_and_slope(at + h * along)[0]
    difference = lambda h: (value(h) - value(-h)) / (2 * h)
    richardson = (4 * difference(1e-3) - difference(2e-3)) / 3
    np.testing.assert_allclose(backward, forward, rtol=1e-11)
    np.testing.assert_allclose(forward, richardson, rtol=1e-8)


@pytest.mark.usefixtures("float32")
def test_single_precision():
    q, _ = after_steps(Projected(diffrax.Tsit5(), SE3), 2.0, 40)
    assert q.dtype == jnp.float32
    assert float(distance(SE3, q, exact(SE3, 2.0))) < 1e-5


def test_which_spaces_can_be_projected():
    free = [geo.Euclidean(3), geo.SO2(), geo.SE2(), geo.Schoenflies(), geo.Helical(0.1)]
    assert all(space.independent and space.projects for space in free)
    assert all(space.projects and not space.independent for space in (SO3, SE3))
    assert geo.Product(SO3, geo.Euclidean(2)).projects
    assert not SL2.projects
    assert not geo.Product(SO3, SL2).projects


def test_misuse_is_explained():
    with pytest.raises(TypeError, match=r"`solver` is the class Tsit5.*Projected wraps a method"):
        Projected(diffrax.Tsit5, SO3)
    with pytest.raises(
        TypeError, match=r"`space` is None.*Projected\(diffrax.Tsit5\(\), system.space\)"
    ):
        Projected(diffrax.Tsit5())
    with pytest.raises(ValueError, match=r"`space` is MatrixGroup.*use LieGroup"):
        Projected(diffrax.Tsit5(), SL2)
    field = diffrax.ODETerm(lambda t, y, args: y)
    with pytest.raises(ValueError, match=r"Projected steps a pair \(q, rest\)"):
        diffrax.diffeqsolve(field, Projected(space=SO3), 0.0, 1.0, 0.1, jnp.ones(4))
    with pytest.raises(ValueError, match=r"BacksolveAdjoint.*use RecursiveCheckpointAdjoint"):
        jax.grad(lambda q: jnp.sum(_backsolved(q)))(SO3.identity(jnp.float64))


def _backsolved(q0):
    field = diffrax.ODETerm(Kinematics(SO3))
    return diffrax.diffeqsolve(
        field, Projected(space=SO3), 0.0, 1.0, 0.1, (q0, start(SO3)[1]), adjoint=diffrax.BacksolveAdjoint()
    ).ys[0]  # fmt: skip
