"""`examine` reports properties of systems for which they are known by construction."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel as jh
from jaxhamel import systems
from jaxhamel.mechanics._examination._boundary import conditioning


class Two(jh.System):
    """Two coordinates with L = ½ (m₁ v₁² + m₂ v₂²) + g t q₂ v₁ + h v₂⁴."""

    masses: jax.Array
    linear: jax.Array
    quartic: jax.Array
    space = jh.Euclidean(2)

    def lagrangian(self, t, q, v):
        kinetic = 0.5 * jnp.dot(self.masses, v * v)
        return kinetic + self.linear * t * q[1] * v[0] + self.quartic * v[1] ** 4


def two(masses=(2.0, 0.5), linear=0.0, quartic=0.0):
    return Two(*map(jnp.asarray, (masses, linear, quartic)))


@pytest.mark.parametrize(
    ("linear", "quartic", "expected"),
    [
        (0.0, 0.0, (True, True, ())),
        (0.3, 0.0, (True, False, ("lagrangian",))),
        (0.0, 0.1, (False, True, ())),
    ],
)
def test_lagrangian(linear, quartic, expected):
    found = jh.examine(two(linear=linear, quartic=quartic), t=1.0)
    assert (found.quadratic, found.homogeneous, found.depends_on_time) == expected
    assert found.holds
    assert found.problems == ()


def test_mass_matrix():
    found = jh.examine(two())
    assert found.mass_matrix.rank == 2
    np.testing.assert_allclose(found.mass_matrix.condition, 4.0)
    assert found.constraints.rank == 0
    assert "quadratic in v, no terms linear in v, does not depend on t" in str(found)
    assert "rank 2, condition number 4" in str(found)


def test_a_mass_of_zero():
    found = jh.examine(two((0.0, 0.0)))
    assert (found.mass_matrix.rank, found.mass_matrix.condition) == (0, np.inf)
    (problem,) = found.problems
    assert "singular: rank 0 of 2" in problem
    assert "`masses`" in problem
    assert "problem: the mass matrix" in str(found)


class Rows(jh.System):
    """A unit mass in R³ with two given constraint one-forms."""

    rows: jax.Array
    space = jh.Euclidean(3)
    n_constraints = 2

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(v, v)

    def frame(self, t, q):
        return jnp.concatenate([self.rows, jnp.array([[0.0, 0.3, 1.0]])])


def test_constraints():
    found = jh.examine(Rows(jnp.array([[1.0, 0.0, 0.0], [1.0, 0.01, 0.0]])))
    np.testing.assert_allclose(
        found.constraints.condition, np.linalg.cond([[1.0, 0.0], [1.0, 0.01]])
    )
    assert found.constraints.rank == 2
    assert "2 linear, rank 2, condition number 2" in str(found)
    found = jh.examine(Rows(jnp.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])))
    assert found.constraints.rank == 1
    assert "dependent constraint one-forms" in found.problems[0]


@pytest.mark.parametrize(
    ("matrix", "rank", "condition"),
    [
        (np.diag([4.0, 2.0, 1.0])[:, :2], 2, 2.0),
        (np.ones((2, 3)), 1, np.inf),
        (np.zeros((0, 4)), 0, 1.0),
        (np.full((2, 2), np.nan), 0, np.inf),
        (np.zeros((2, 2)), 0, np.inf),
    ],
)
def test_conditioning(matrix, rank, condition):
    found = conditioning(matrix)
    assert found.rank == rank
    np.testing.assert_allclose(found.condition, condition)


SLEIGH = (1.5, 0.4, 0.3)


class Pushed(systems.ChaplyginSleigh):
    def force(self, t, q, v, control):
        return jnp.zeros(3) if control is None else jnp.stack([control, 0.0 * t, 0.0 * t])


def test_a_named_system_and_one_below_it():
    found = jh.examine(systems.ChaplyginSleigh(*SLEIGH))
    assert found.holds
    assert "on the bodies" in found.why
    assert found.bodies is not None
    assert max(found.bodies.mass_matrix, found.bodies.force) < 1e-12
    np.testing.assert_allclose(found.inverse_error, 0.0, atol=1e-12)
    assert found.not_used == {}
    below = jh.examine(Pushed(*SLEIGH), control=jnp.sin)
    assert below.holds
    assert below.not_used == {"bodies": ("force",), "invariants": ("force",)}
    assert "inherited bodies: force overridden below" in str(below)
    assert "out of date" in below.why
    assert below.depends_on_time == ("force",)


def test_its_formulas_are_refused_and_its_invariants_not_shown():
    below, q, u = Pushed(*SLEIGH), jnp.array([0.3, 1.0, 2.0]), jnp.array([0.8, -0.6])
    with pytest.raises(
        TypeError,
        match=r"`closed_form` of Pushed is inherited.*`force` is overridden.*Override `closed_form`",
    ):
        below.closed_form(0.0, q, u)
    with pytest.raises(TypeError, match=r"`solution` of Pushed"):
        below.solution(0.0, u)
    trajectory = jh.simulate(below, q, u, [0.0, 0.1], 1.0, dt=0.05)
    assert "drift of energy" not in str(trajectory)
    own = systems.ChaplyginSleigh(*SLEIGH)
    assert "drift of energy" in str(jh.simulate(own, q, u, [0.0, 0.1], dt=0.05))
    np.testing.assert_allclose(own.closed_form(0.0, q, u), jh.acceleration(own, 0.0, q, u))


def test_a_moved_ball_has_no_formula_for_the_ground():
    class Windy(systems.RollingBall):
        def force(self, t, q, v, control):
            return jnp.zeros(5).at[3].set(1.0)

    numbers = {"shell_inertia": jnp.ones(3), "shell_com": jnp.zeros(3), "masses": jnp.zeros(0)}
    ball = Windy(radius=1.0, shell_mass=1.0, **numbers)
    state = (0.0, (jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(2)), jnp.zeros(3))
    for formula in (ball.contact_force, ball.contact, ball.closed_form):
        with pytest.raises(
            TypeError, match=r"of Windy is inherited from a class below which `force` is overridden"
        ):
            formula(*state)


def test_what_cannot_be_looked_at_is_a_line():
    ball = systems.RollingBall(
        radius=1.0, shell_mass=1.0, shell_inertia=jnp.ones(3), shell_com=jnp.zeros(3),
        masses=jnp.ones(1), rails=systems.CircularRails(jnp.ones(1), jnp.eye(3)[1:2], jnp.eye(3)[:1]),
    )  # fmt: skip
    found = jh.examine(ball)
    assert "`control` is missing" in found.problems[0]
    assert "not examined" in str(found)
    assert jh.examine(ball, control=jnp.zeros(1)).holds
    wrong = jh.examine(two(), jnp.zeros(3))
    assert "`q` has shape (3,)" in wrong.problems[0]
    nan = jh.examine(two(quartic=jnp.nan))
    assert "`quartic` of Two is nan" in nan.problems[0]


class Driven(Two):
    """The system Two with a force from one control."""

    n_controls = 1

    def force(self, t, q, u, control):
        return jnp.array([1.0, 0.0]) * control[0]


def test_control_is_zero_where_its_size_is_known():
    found = jh.examine(Driven(jnp.ones(2), jnp.zeros(()), jnp.zeros(())))
    assert found.holds
    assert found.returns["force"].shape == (2,)
    assert "not examined" not in str(found)


def test_fields_can_be_read_one_by_one():
    found = jh.examine(two())
    names = [field.name for field in dataclasses.fields(found)]
    assert {"quadratic", "constraints", "mass_matrix", "bodies", "inverse_error", "route"} <= set(
        names
    )
    assert found.returns["lagrangian"].shape == ()


@pytest.mark.parametrize("what", [None, systems.HeavyTop, 3.0])
def test_no_system(what):
    with pytest.raises(TypeError, match=r"`system` is .*jaxhamel.System with its values"):
        jh.examine(what)


def test_traced_values():
    with pytest.raises(TypeError, match=r"`examine` needs concrete values, but these are traced"):
        jax.jit(lambda m: jh.examine(two(m)).mass_matrix.condition)(jnp.ones(2))


def test_single_precision(float32):
    found = jh.examine(two())
    assert found.holds
    assert found.q.dtype == jnp.float32


def test_a_zero_mass_is_named_by_the_equations():
    system = two((0.0, 1.0))
    with pytest.raises(ValueError, match=r"mass matrix of Two is singular.*belongs to u\[0\]"):
        jh.acceleration(system, 0.0, jnp.ones(2), jnp.ones(2))
    trajectory = jh.simulate(system, jnp.ones(2), jnp.ones(2), [0.0, 1.0], dt=0.5)
    with pytest.raises(RuntimeError, match=r"stopped at t = 0.*mass matrix of Two is singular"):
        trajectory.raise_if_failed()


class Hoist(jh.System):
    """A load of mass m on a drive, with its parameters in a dict and one control."""

    parameters: dict
    space = jh.Euclidean(1)

    def lagrangian(self, t, q, v):
        return self.parameters["m"] * (0.5 * v[0] ** 2 - self.parameters["g"] * q[0])

    def force(self, t, q, v, control):
        return control[:1]


def test_numbers_in_a_dict_and_a_control_that_is_missing():
    hoist = Hoist({"m": 2.0, "g": 9.81})
    q, u = jnp.ones(1), jnp.ones(1)
    with pytest.raises(TypeError, match=r"`force` of Hoist fails where `control` is None"):
        jh.acceleration(hoist, 0.0, q, u)
    np.testing.assert_allclose(jh.energy(hoist, 0.0, q, u), 0.5 * 2.0 + 2.0 * 9.81)
    np.testing.assert_allclose(jh.momentum(hoist, 0.0, q, u), [2.0])
    with pytest.raises(ValueError, match=r"`u` has shape \(2,\)"):
        jh.energy(hoist, 0.0, q, jnp.ones(2))


def test_an_error_of_the_lagrangian_is_a_problem_with_its_line():
    (problem,) = jh.examine(Hoist({"m": 2.0})).problems
    assert problem.startswith("KeyError: 'g'. It is line")
    assert problem.endswith(
        'self.parameters["m"] * (0.5 * v[0] ** 2 - self.parameters["g"] * q[0])'
    )


class CallingHoist(Hoist):
    """A hoist whose force wrongly calls its control as a function of time."""

    def force(self, t, q, v, control):
        return control(t)[:1]


def test_force_that_calls_its_control():
    hoist = CallingHoist({"m": 2.0, "g": 9.81})
    said = r"`force` of CallingHoist calls an array as a function; its `control` is the value.*return control\(t\)\[:1\]"
    with pytest.raises(TypeError, match=said):
        jh.simulate(hoist, jnp.ones(1), jnp.ones(1), [0.0, 1.0], lambda t: jnp.ones(1))


class Well(jh.System):
    """A particle of mass 1 whose Lagrangian is given."""

    of: Any = eqx.field(static=True)
    space = jh.Euclidean(2)

    def lagrangian(self, t, q, v):
        return self.of(q, v)


def test_forces_that_are_no_numbers_at_the_state_are_a_problem():
    """The force of the potential −1/|q| is NaN at its centre, where a user of polar coordinates often starts."""
    well = Well(lambda q, v: 0.5 * v @ v + 1.0 / jnp.sqrt(q @ q))
    assert "the forces of Well at this state are [nan nan]" in jh.examine(well).problems[0]
    assert jh.examine(well, jnp.ones(2)).holds


def test_a_mass_matrix_with_nan_is_not_called_singular():
    """√(1 − v²) of a relativistic particle beyond the speed of light has no value."""
    fast = Well(lambda q, v: -jnp.sqrt(1.0 - v @ v))
    (problem,) = jh.examine(fast, u=jnp.ones(2)).problems
    assert "mass matrix of Well has entries that are NaN or infinite" in problem


def test_a_coordinate_without_inertia_beside_another_is_named():
    """A row of zeros in the mass matrix, which the elimination without its entries met as a `KeyError`."""
    massless = Well(lambda q, v: 0.5 * v[0] ** 2 - 0.5 * (q[0] - q[1]) ** 2)
    motion = jh.simulate(massless, jnp.ones(2), jnp.zeros(2), [0.0, 1.0])
    with pytest.raises(RuntimeError, match=r"rank 1 of 2, no kinetic energy belongs to u\[1\]"):
        motion.raise_if_failed()


def test_parts_in_which_jax_finds_no_numbers_are_named():
    @dataclasses.dataclass
    class Spring:
        stiffness: float

    class Oscillator(jh.System):
        spring: Spring
        sizes: list = eqx.field(static=True, default=())
        space = jh.Euclidean(1)

        def lagrangian(self, t, q, v):
            return 0.5 * v[0] ** 2 - 0.5 * self.spring.stiffness * q[0] ** 2

    with pytest.raises(TypeError, match=r"`spring` of Oscillator .*register_dataclass"):
        jh.simulate(Oscillator(Spring(1.0)), jnp.ones(1), jnp.zeros(1), [0.0, 1.0])
    with pytest.warns(UserWarning, match="set as static"):
        arrays = Oscillator(jnp.ones(()), np.arange(2))
    with pytest.raises(TypeError, match=r"`sizes` of Oscillator is an array in a static field"):
        jh.examine(arrays)
