"""The default costs of a regulator (Bryson's rule), against sizes by hand and gains in closed form; their independence of
units, and the stability of sampled loops."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import Euclidean, MovingParts, simulate
from jaxhamel.control import Sampled, closed_loop, loop_growth, regulate
from jaxhamel.mechanics import Part, State
from jaxhamel.systems import ChaplyginSleigh
from tests.control.cart import Cart
from tests.control.test_regulator import Crane
from tests.systems.ball import two_mass_ball

GRAVITY = 9.81


class Wave(eqx.Module):
    """The control amplitude · sin(rate t)."""

    amplitude: jax.Array
    rate: float

    def __call__(self, t):
        return self.amplitude * jnp.sin(self.rate * t)


class Furuta(jaxhamel.System):
    """A pendulum of 24 g on an arm of 85 mm; q = (angle of the arm, angle of the pendulum from above), driven by a torque
    on the arm."""

    space = Euclidean(2)
    n_controls = 1

    def lagrangian(self, t, q, v):
        m, r, l, sine = 0.024, 0.085, 0.0645, jnp.sin(q[1])
        arm = (2e-4 + m * r**2 + m * (l * sine) ** 2) * v[0] ** 2
        both = 2 * m * r * l * jnp.cos(q[1]) * v[0] * v[1]
        return 0.5 * (arm + both + 1.3e-4 * v[1] ** 2) - m * GRAVITY * l * jnp.cos(q[1])

    def force(self, t, q, v, control):
        return jnp.stack([control[0], 0.0])


class Drone(jaxhamel.System):
    """A drone in a vertical plane, q = (x, z, angle), with the thrusts of two rotors."""

    space = Euclidean(3)
    n_controls = 2
    state_names: ClassVar[State] = State(
        (Part("q", ("x", "z", "angle"), "m, m, rad"),),
        (Part("u", ("v_x", "v_z", "turning"), "m/s, m/s, rad/s"),),
        (Part("thrusts", "thrust", "N"),),
    )

    def lagrangian(self, t, q, v):
        return 0.5 * (v[0] ** 2 + v[1] ** 2 + 0.02 * v[2] ** 2) - GRAVITY * q[1]

    def force(self, t, q, v, control):
        total, moment = jnp.sum(control), 0.2 * (control[1] - control[0])
        return jnp.stack([-total * jnp.sin(q[2]), total * jnp.cos(q[2]), moment])


class Pendulum(jaxhamel.System):
    """An upright pendulum of 0.5 kg and 0.2 m, with a torque."""

    space = Euclidean(1)

    def lagrangian(self, t, q, v):
        return 0.5 * 0.02 * v[0] ** 2 - 0.1 * GRAVITY * jnp.cos(q[0])

    def force(self, t, q, v, control):
        return control


class OtherUnits(Crane):
    """The crane with the place of the trolley in units of `length` metres and the force in units of `unit` newtons."""

    length: float
    unit: float

    def lagrangian(self, t, q, v):
        scale = jnp.array([self.length, 1.0])
        return super().lagrangian(t, scale * q, scale * v)

    def force(self, t, q, v, control):
        return self.length * self.unit * super().force(t, q, v, control)


def plan_about(system, q0, u0, ts, control):
    """The arguments of `regulate` for the motion under a control."""
    plan = simulate(system, q0, u0, ts, control, rtol=1e-11, atol=1e-11)
    return system, ts, plan.q, plan.u, control


def sizes_of(law):
    """The sizes of the state and of the control in the costs of a regulator."""
    return tuple(np.diag(np.asarray(cost)) ** -0.5 for cost in law.costs[:2])


def moved_cart(**costs):
    """About the motion of a cart of 2 kg over 3 m in 2 s from rest to rest, x = 3 s² (3 − 2 s)."""
    ts = jnp.linspace(0.0, 2.0, 41)
    s = 0.5 * ts[:, None]
    plan = 3.0 * s**2 * (3.0 - 2.0 * s), 9.0 * s * (1.0 - s)
    return regulate(Cart(jnp.array(2.0)), ts, *plan, lambda t: 9.0 * (1.0 - t)[None], **costs)


def test_costs_are_those_of_the_largest_values_of_the_plan():
    """3 m, 2.25 m/s in the middle and 9 N at both ends; a given cost stays, without one at the end S = 0."""
    law = moved_cart()
    state, control = sizes_of(law)
    np.testing.assert_allclose(state, [3.0, 2.25], rtol=1e-12)
    np.testing.assert_allclose(control, [9.0], rtol=1e-12)
    given = moved_cart(state_cost=jnp.array([4.0, 1.0]))
    np.testing.assert_array_equal(given.costs[0], np.diag([4.0, 1.0]))
    np.testing.assert_allclose(given.costs[1], [[1 / 81]], rtol=1e-12)
    assert not np.any(given.costs[2])
    np.testing.assert_array_equal(law.costs[2], law.values[-1])


def test_the_final_cost_is_that_of_a_plan_that_goes_on():
    """About a state of rest the gains are those of the first half of a plan of double length."""
    ts = jnp.linspace(0.0, 8.0, 161)
    rest = jnp.zeros((161, 1))
    short = regulate(Pendulum(), ts[:81], rest[:81], rest[:81], jnp.zeros(1))
    costs = {"state_cost": short.costs[0], "control_cost": short.costs[1]}
    long = regulate(Pendulum(), ts, rest, rest, jnp.zeros(1), **costs)
    np.testing.assert_allclose(short.gains, long.gains[:81], rtol=1e-8)


def test_sizes_of_a_plan_at_rest_follow_from_its_equations():
    """About the upright pendulum an angle of 1 rad has the rate λ = √(g/l) and the torque m g l, in which units
    θ'' = θ + c has the gains (1 + √2) (1, 1)."""
    rest = jnp.zeros((201, 1))
    law = regulate(Pendulum(), jnp.linspace(0.0, 8.0, 201), rest, rest, jnp.zeros(1))
    fast, weight = np.sqrt(GRAVITY / 0.2), 0.1 * GRAVITY
    state, control = sizes_of(law)
    np.testing.assert_allclose([*state, *control], [1.0, fast, weight], rtol=1e-8)
    gains = (1 + np.sqrt(2)) * weight * np.array([1.0, 1.0 / fast])
    np.testing.assert_allclose(law.gains[0, 0], gains, rtol=1e-8)


def test_entries_that_do_not_move_have_a_tenth_of_the_size_that_others_give_them():
    """A drone rises 1 m in 1 s by constant thrusts, g + 2 in sum: x and v_x have the sizes of z and v_z. An angle of
    2/(g + 2) changes v_x by 2 m/s in a second, as does a thrust of 2 N with v_z."""
    ts, thrust = jnp.linspace(0.0, 1.0, 101), jnp.full(2, 0.5 * (GRAVITY + 2.0))
    law = regulate(*plan_about(Drone(), jnp.zeros(3), jnp.zeros(3), ts, thrust))
    state, control = sizes_of(law)
    angle = 0.1 * 2.0 / (GRAVITY + 2.0)
    np.testing.assert_allclose(state, [1.0, 1.0, angle, 2.0, 2.0, angle], rtol=1e-6)
    np.testing.assert_allclose(control, [0.2, 0.2], rtol=1e-6)
    growth = loop_growth(Sampled(law, 0.01), 1.0 / state**2)
    assert growth.growth[-1] < 10.0
    assert growth.multipliers.max() < 1.01


@pytest.mark.parametrize(("length", "unit"), [(1e-3, 1.0), (1.0, 1e-3), (1e-3, 1e3)])
def test_closed_loops_do_not_depend_on_units(length, unit):
    """The sampled loop of a crane from a deviation, with the trolley's place in millimetres and the force in millinewtons
    or kilonewtons: the same motion and commands in SI units."""
    ts, scale = jnp.linspace(0.0, 3.0, 61), jnp.array([length, 1.0])

    def loop(system, scale, unit):
        start, force = jnp.array([0.0, 0.2]), Wave(jnp.array([8.0 / unit]), 2.0)
        law = regulate(*plan_about(system, start / scale, jnp.zeros(2), ts, force))
        off = (start + jnp.array([0.1, 0.05])) / scale
        found = closed_loop(system, off, jnp.zeros(2), Sampled(law, 0.02), 150)
        return np.asarray(found.q) * np.asarray(scale), found.given()[1].commands * unit

    q, commands = loop(OtherUnits(length, unit), scale, unit)
    q_si, commands_si = loop(Crane(), jnp.ones(2), 1.0)
    np.testing.assert_allclose(q, q_si, atol=1e-7)
    np.testing.assert_allclose(commands, commands_si, atol=1e-5)


def furuta():
    """Swung from its rest below by torques up to 0.02 N m."""
    start, torque = jnp.array([0.0, np.pi]), Wave(jnp.array([0.02]), 12.0)
    return plan_about(Furuta(), start, jnp.zeros(2), jnp.linspace(0.0, 1.0, 201), torque)


def upright_furuta():
    rest = jnp.zeros((101, 2))
    return Furuta(), jnp.linspace(0.0, 2.0, 101), rest, rest, jnp.zeros(1)


def sleigh():
    system = ChaplyginSleigh(mass=2.0, inertia=0.3, offset=0.2)
    push = Wave(jnp.array([1.5, 0.4]), 1.3)
    return plan_about(
        system, jnp.zeros(3), jnp.array([0.2, 0.0]), jnp.linspace(0.0, 4.0, 161), push
    )


def ball_with_masses():
    system = MovingParts(two_mass_ball())
    q, u = system.state(
        (jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(2)), jnp.zeros(3), jnp.zeros(2), jnp.zeros(2)
    )
    push = Wave(jnp.array([3.0, -2.0]), 2.5)
    return plan_about(system, q, u, jnp.linspace(0.0, 3.0, 241), push)


@pytest.mark.parametrize("plan", [furuta, upright_furuta, sleigh, ball_with_masses])
def test_sampled_loops_are_stable(plan):
    """At 100 Hz small deviations grow less than ten times by the end, in the norm of the costs; with costs of 1 they grow
    1e30 times about the plans of the small pendulum."""
    given = plan()
    law = regulate(*given)
    weights = np.diag(np.asarray(law.costs[0]))
    growth = loop_growth(Sampled(law, 0.01), weights)
    assert growth.growth[-1] < 10.0
    assert growth.multipliers.max() < 1.2
    if isinstance(given[0], Furuta):
        ones = {"state_cost": jnp.ones(4), "control_cost": jnp.ones(1)}
        assert loop_growth(Sampled(regulate(*given, **ones), 0.01), weights).growth[-1] > 1e30


def test_missing_costs_inside_of_jit():
    rest = jnp.zeros((5, 1))
    with pytest.raises(
        ValueError, match=r"`state_cost` and `control_cost` .* not known inside jit, .*Give both"
    ):
        jax.jit(lambda ts: regulate(Pendulum(), ts, rest, rest, jnp.zeros(1)).gains)(
            jnp.linspace(0.0, 1.0, 5)
        )
