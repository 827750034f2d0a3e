"""Properties of each named system: routes agree, invariants are conserved, the docstring is complete, bad parameters
are refused."""

import dataclasses
import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import systems
from jaxhamel.mechanics import ROUTES, System, _small_solve, as_control
from tests.systems.cases import ALL
from tests.systems.motion import states

EACH = 3  # random states of each system
EVERY = [pytest.param(case, id=case.name) for case in ALL]


def named_systems():
    """The classes of systems in `jaxhamel.systems`."""
    public = (getattr(systems, name) for name in dir(systems))
    return {
        thing.__name__
        for thing in public
        if isinstance(thing, type) and issubclass(thing, System) and thing is not System
    }


def test_every_system_has_a_case():
    assert named_systems() == {case.name for case in ALL}


def random_states(space, k):
    """Generic states: q = exp(δ) with normal δ, and normal u."""
    rng = np.random.default_rng(17)
    delta = jnp.asarray(rng.normal(size=(EACH, space.dim)))
    q = jax.vmap(lambda delta: space.retract(space.identity(jnp.float64), delta))(delta)
    return q, jnp.asarray(rng.normal(size=(EACH, k)))


@pytest.fixture
def both_triangles(monkeypatch):
    """Makes an asymmetric matrix give NaN, since `symmetric_solve` reads only one triangle."""
    solve = _small_solve._symmetric_solve

    def checked(matrix, rhs):
        odd = jnp.max(jnp.abs(matrix - matrix.T)) > 1e-12 * jnp.max(jnp.abs(matrix))
        return jnp.where(odd, jnp.nan, solve(matrix, rhs))

    monkeypatch.setattr(_small_solve, "_symmetric_solve", checked)


@pytest.mark.parametrize("case", EVERY)
def test_routes_agree_and_invariants_are_kept(case, both_triangles):
    """Each route equals the closed form to 1e-12 of its size; each invariant is kept along a motion to 1e-11 of its
    size.

    Each mass matrix that is solved on the way is symmetric.
    """
    system, (control, still) = case(), map(as_control, (case.control, case.still))
    k = system.n_independent
    q, u = random_states(system.space, k)
    start = case.start(system) if case.start else jax.tree.map(lambda x: x[0], (q, u))
    times = jnp.linspace(0.0, case.seconds, 4)

    @jax.jit
    def by_each_route(system, q, u):
        rates = {name: route(system, 0.3, q, u, control) for name, route in ROUTES.items()}
        if hasattr(system, "closed_form"):
            form = case.make.closed_form  # its own body: it may have been traced before
            traced_here = getattr(form, "__wrapped__", form)
            rates["closed form"] = traced_here(system, 0.3, q, u, case.value)
        return rates

    @jax.jit
    def moved(system, start):
        path = states(system, *start, times, still, steps=case.steps // 3)
        return path, jax.vmap(lambda t, q, u: system.invariants(t, q, u, still))(times, *path)

    several = [
        by_each_route(system, *jax.tree.map(lambda x, i=i: x[i], (q, u))) for i in range(EACH)
    ]
    rates = jax.tree.map(lambda *x: np.stack(x), *several)
    path, kept = moved(system, start)
    wanted = rates["multipliers"]
    assert wanted.shape == (EACH, k)
    size = 1.0 + np.max(np.abs(wanted))
    for name, rate in rates.items():
        assert np.max(np.abs(rate - wanted)) < 1e-12 * size, name
    moving = jax.tree.leaves(path[0] if case.steady else path[1])
    assert max(np.max(np.abs(x[-1] - x[0])) for x in moving) > 1e-3
    assert kept
    for name, values in kept.items():
        scale = 1.0 + np.max(np.abs(values[0]))
        assert np.max(np.abs(values - values[:1])) < 1e-11 * scale, name


# --- known solutions ------------------------------------------------------------------------------

# the test that compares a system with the known solution of its docstring
KNOWN = {
    "ActuatedDisk": "disk::test_small_oscillation",
    "BallOnTurntable": "nonholonomic_balls::test_turntable_solution_and_invariants",
    "CartPole": "cart_pole::test_half_a_swing_takes_the_time_of_the_quadrature",
    "ChaplyginSleigh": "nonholonomic_plane::test_sleigh_solution",
    "ChaplyginSphere": "nonholonomic_balls::test_sphere_keeps_its_density",
    "CoupledSnakeboard": "snakeboard::test_coupled_board_glides_round_a_circle",
    "FallingCat": "zero_momentum::test_a_bend_along_a_ray_turns_nothing",
    "FreeRigidBody": "bodies::test_free_body_in_elliptic_functions",
    "HeavyTop": "bodies::test_steady_precession",
    "InhomogeneousBall": "inhomogeneous_ball::test_it_is_chaplygins_sphere",
    "KnifeEdge": "nonholonomic_plane::test_knife_edge_from_any_start",
    "NonSpinningBall": "nonholonomic_balls::test_non_spinning_ball_round_a_circle",
    "PendulumInStand": "soft_rolling_pendulum::test_stand_swings_as_a_pendulum",
    "Rattleback": "rattleback::test_reversal",
    "RigidBody": "rigid_body::test_one_motion_by_five_choices",
    "RollingBall": "ball_motion::test_homogeneous_ball_keeps_its_spatial_velocity",
    "RollingDisk": "nonholonomic_disk::test_steady_circle_closes",
    "RollingPendulumBall": "pendulum_ball_period::test_swings",
    "RollingRotorBall": "driven_balls::test_a_rotor_rolls_the_ball_by_what_its_angle_is_worth",
    "Satellite": "satellite::test_phases",
    "SatelliteMixed": "satellite::test_both_groups_are_one_satellite",
    "Snakeboard": "snakeboard::test_ellipsograph",
    "SoftRollingPendulum": "soft_rolling_pendulum::test_contact_is_a_spring_about_the_rest_angle",
    "SpaceRobot": "space_robot::test_cycle_of_zero_phase",
    "Suslov": "bodies::test_suslov_exact_solution",
    "TwoWheelSatellite": "zero_momentum::test_wheels_without_torque_turn_the_satellite_steadily",
    "UnderwaterBody": "underwater_body::test_munk_moment_is_a_pendulum",
    "WhippleBicycle": "whipple_bicycle::test_wheels_carry_the_bicycle",
}


@pytest.mark.parametrize("case", EVERY)
def test_known_solution_has_a_test(case):
    """For each system this file names an existing test of its known solution."""
    where, test = KNOWN[case.name].split("::")
    text = (Path(__file__).parent / f"test_{where}.py").read_text()
    assert f"def {test}(" in text


# --- parameters and documentation -----------------------------------------------------------------


@pytest.mark.parametrize("case", EVERY)
def test_docstring_says_what_a_user_needs(case):
    """Each docstring has parameters with units, state, invariants, a known solution, errors and a source."""
    text = case.make.__doc__
    for heading in ("**Arguments:**", "**Invariants", "**Known solution", "**Raises:**"):
        assert heading in text, heading
    assert re.search(r"^\s*Source: ", text, re.MULTILINE)
    assert re.search(r"Configuration\s+`q", text)
    arguments = text.split("**Arguments:**")[1].split("Configuration")[0]
    for field in dataclasses.fields(case.make):
        assert f"`{field.name}`" in arguments, field.name
    assert "[kg" in arguments


@pytest.mark.parametrize("case", EVERY)
def test_parameters_are_leaves(case):
    """Each parameter has a value in the case, and each number is a differentiable leaf."""
    given, system = case.parameters, case()
    assert {*given, *case.bare} == {field.name for field in dataclasses.fields(case.make)}
    leaves = jax.tree.leaves(system)
    assert all(eqx.is_inexact_array(leaf) for leaf in leaves)
    numbers = [value for value in given.values() if not (callable(value) or isinstance(value, str))]
    assert len(leaves) >= len(numbers)


@pytest.mark.parametrize("case", EVERY)
def test_bad_parameters_are_refused_by_name(case):
    """NaN, a wrong shape, a negative mass or length, an inertia that no body has: a ValueError that names the argument."""
    for name, good in case.parameters.items():
        if callable(good):
            continue
        bad = [np.full(np.shape(good), np.nan), np.ones((7, 5, 7))]
        if isinstance(good, str):
            bad = ["nonsense"]
        if name in case.positive:
            bad.append(-np.asarray(good))
        if name.endswith("inertia") and np.shape(good):
            bad += [np.array([1.0, 1.0, 3.0]), -np.asarray(good)]
        for value in bad:
            with pytest.raises(ValueError, match=f"`{name}`"):
                case.make(**{**case.parameters, name: value})
