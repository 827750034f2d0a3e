"""Block-by-block solution of the stages' linear equations against NumPy's solution of the whole system, and the blocks
of known systems."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import ODE, control
from jaxhamel.control._collocation._points import rule
from jaxhamel.control._collocation._start import transcribe
from jaxhamel.control._collocation._transcription import CollocationPoint
from jaxhamel.control._interior_point import _stage_equations
from jaxhamel.control._interior_point._stage_equations import (
    StageBlock,
    adjoint_solution,
    blocks_of,
    factored,
    solution,
)

RNG = np.random.default_rng(0)
D = np.asarray(rule("gauss", 3).derivative)[:, 1:]
BLOCKS = (
    StageBlock((3,), (), False),
    StageBlock((0, 2), (3,), True),
    StageBlock((1, 4), (0, 3), False),
)
EDGES = [(0, 0), (0, 2), (2, 0), (0, 3), (2, 3), (1, 0), (4, 3)]


def jacobian():
    J = np.zeros((3, 5, 5))
    for edge in EDGES:
        J[:, *edge] = RNG.normal(size=3)
    return J


def whole(J):
    s, d = J.shape[:2]
    stages = np.eye(s)[:, None, :, None] * J[:, :, None]
    return (D[:, None, :, None] * np.eye(d)[None, :, None] - stages).reshape(s * d, s * d)


@jax.jit
def both(J, right):
    equations = factored(BLOCKS, D, J)
    adjoint = adjoint_solution(BLOCKS, D, equations, right[..., 0])
    return solution(BLOCKS, D, equations, right), adjoint


def test_blocks_give_the_solutions_of_the_whole():
    J, right = jacobian(), RNG.normal(size=(3, 5, 2))
    x, adjoint = both(jnp.asarray(J), jnp.asarray(right))
    wanted = np.linalg.solve(whole(J), right.reshape(15, 2)).reshape(3, 5, 2)
    np.testing.assert_allclose(x, wanted, rtol=1e-10, atol=1e-12)
    wanted = np.linalg.solve(whole(J).T, right[..., 0].ravel()).reshape(3, 5)
    np.testing.assert_allclose(adjoint, wanted, rtol=1e-10, atol=1e-12)


def blocks(rate, size: int) -> tuple[StageBlock, ...]:
    """Blocks of the stage equations of ẏ = rate(t, y, control)."""
    dtype = jnp.zeros(()).dtype
    ts, y, none = jnp.linspace(0.0, 1.0, 3), jnp.zeros(size), jnp.zeros(0, dtype)
    problem = control.ControlProblem(
        ODE(rate, size), y, none, ts, lambda t: jnp.zeros(1), (control.ControlEnergy(),), (),
        (jnp.zeros((3, size)), jnp.zeros((3, 0))),
    )  # fmt: skip
    transcription = transcribe(problem, rule("gauss", 3), ts)
    rest: Any = jnp.zeros((2, 3, size)), jnp.zeros((2, 3, 1)), jnp.zeros(0), jnp.zeros((2, 3, 0))
    return blocks_of(
        transcription, CollocationPoint(jnp.zeros((3, size)), jnp.zeros((3, size)), *rest)
    )


def test_blocks_of_a_pendulum_on_a_driven_cart():
    """The control prescribes the speed, and the position is its integral. Angle and rate depend on each other, on time
    and on the speed."""

    def rate(t, y, c):
        place, angle, spin, speed = y
        return jnp.stack([speed, spin, -t * jnp.sin(angle) + speed**2, c[0] + 0.0 * place])

    assert blocks(rate, 4) == (
        StageBlock((3,), (), False),
        StageBlock((0,), (3,), False),
        StageBlock((1, 2), (3,), True),
    )


def test_a_coordinate_that_follows_a_block_comes_after_it():
    """The angle of a motor depends on its speed, which does not depend on the angle: the angle is solved after the
    block."""
    found = blocks(lambda t, y, c: jnp.stack([y[2], y[2] + c[0], y[1]]), 3)
    assert found == (StageBlock((1, 2), (), True), StageBlock((0,), (2,), False))


@pytest.mark.parametrize("hidden", [True, False])
def test_equations_that_cannot_be_read_are_one_block(hidden):
    """A `while_loop` hides the dependencies, so all coordinates form one block; without it the coordinates are
    separate."""

    def rate(t, y, c):
        more = lambda x: 2.0 * x
        first = jax.lax.while_loop(lambda x: x < 1.0, more, y[0]) if hidden else more(y[0])
        return jnp.stack([first, c[0]])

    found = blocks(rate, 2)
    separate = (StageBlock((1,), (), False), StageBlock((0,), (), True))
    assert found == ((StageBlock((0, 1), (), True),) if hidden else separate)
    assert _stage_equations._dependent_coordinates(found[0], found[1:]) == []
