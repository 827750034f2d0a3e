"""A class that overrides methods of a named system: inherited closed forms that ignore the change are no longer used.

References are written out: a homogeneous ball with moment of inertia I that rolls under a torque −c Ω and a spring −k x
has (I + m r²) Ω̇ = −c Ω + r × (−k x), and a body that turns freely under −c Ω about a principal axis has I Ω̇ = −c Ω.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel as jh
from jaxhamel import systems
from jaxhamel.mechanics._system import has_valid, overridden_below, overrides

DRAG, SPRING, MASS, RADIUS, MOMENT = 0.05, 3.0, 2.0, 0.5, 0.3
Q = (jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.array([0.7, -0.4]))
OMEGA = jnp.array([1.0, -2.0, 3.0])


def ball(kind):
    return kind(
        radius=RADIUS,
        shell_mass=MASS,
        shell_inertia=jnp.full(3, MOMENT),
        shell_com=jnp.zeros(3),
        masses=jnp.zeros(0),
    )


class Dragged(systems.RollingBall):
    def force(self, t, q, v, control):
        return super().force(t, q, v, control) - jnp.concatenate([DRAG * v[:3], jnp.zeros(2)])


class Sprung(systems.RollingBall):
    def lagrangian(self, t, q, v, control=None):
        return super().lagrangian(t, q, v, control) - 0.5 * SPRING * jnp.dot(q[1], q[1])


ABOUT_CONTACT = np.array([MOMENT + MASS * RADIUS**2] * 2 + [MOMENT])


def pull():
    """r e₃ × F / (I + m r²) with F = −k x at the centre, the quaternion being the identity."""
    x, y = np.asarray(Q[1])
    return RADIUS * SPRING * np.array([y, -x, 0.0]) / ABOUT_CONTACT


@pytest.mark.parametrize("route", [None, "gauss", "boltzmann-hamel"])
def test_a_force_below_bodies(route):
    found = jh.acceleration(ball(Dragged), 0.0, Q, OMEGA, route=route)
    np.testing.assert_allclose(found, -DRAG * OMEGA / ABOUT_CONTACT, rtol=1e-12)


def test_a_potential_below_bodies():
    found = jh.acceleration(ball(Sprung), 0.0, Q, OMEGA)
    np.testing.assert_allclose(found, pull(), rtol=1e-12, atol=1e-13)


def test_everything_else_takes_the_same_motion():
    system = ball(Dragged)
    balance = jh.power_balance(system, 0.0, Q, OMEGA)
    np.testing.assert_allclose(balance.rate, -DRAG * np.sum(np.square(OMEGA)), rtol=1e-12)
    # the ground brings the centre to a ẍ = −r Ω̇_y …: F = m a
    turn = -DRAG * np.asarray(OMEGA) / ABOUT_CONTACT
    push = MASS * RADIUS * np.array([turn[1], -turn[0]])
    np.testing.assert_allclose(jh.constraint_force(system, 0.0, Q, OMEGA), push, rtol=1e-12)


def test_a_simulation_slows_down():
    spinning = jnp.array([0.0, 0.0, 2.0])
    end = jh.simulate(ball(Dragged), Q, spinning, [0.0, 3.0], dt=0.1).u_end
    np.testing.assert_allclose(end[2], 2.0 * np.exp(-DRAG * 3.0 / MOMENT), rtol=1e-6)


class Turning(systems.FreeRigidBody):
    """A subclass of a named system that overrides nothing."""


class Drag:
    def force(self, t, q, v, control):
        return -DRAG * v


class Mixed(Drag, systems.FreeRigidBody):
    """A mixin before the system: its method comes first."""


class MixedAfter(systems.HeavyTop, Drag):
    """A mixin after the system: the system's own force comes first."""


class AsField(systems.FreeRigidBody):
    force: Callable  # pyright: ignore[reportGeneralTypeIssues]


def _drag(self, t, q, v, control):
    return -DRAG * v


class Assigned(systems.FreeRigidBody):
    force = _drag


class Below(Assigned):
    """A class whose parent overrides the force."""


def turning_about_an_axis(system):
    return jh.acceleration(
        system, 0.0, jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 2.0])
    )[2]


@pytest.mark.parametrize("kind", [Mixed, Assigned, Below, AsField])
def test_by_mixin_assignment_or_field(kind):
    inertia = jnp.array([1.0, 2.0, 2.5])
    others = {"force": lambda t, q, v, control: -DRAG * v} if kind is AsField else {}
    np.testing.assert_allclose(
        turning_about_an_axis(kind(inertia, **others)), -DRAG * 2.0 / 2.5, rtol=1e-13
    )


def test_overrides_follow_the_order_of_the_classes():
    top = MixedAfter(mass=1.0, inertia=jnp.array([1.0, 2.0, 2.5]), com=jnp.ones(3))
    assert not overrides(top, "force")
    assert has_valid(top, "bodies")
    assert overridden_below(Mixed(jnp.ones(3)), "bodies") == ("force",)
    assert not overridden_below(Turning(jnp.ones(3)), "bodies")


class Scaled(systems.ChaplyginSleigh):
    """A frame with u = 2 A v, for which the inherited B is the inverse of another frame."""

    def frame(self, t, q):
        return 2.0 * super().frame(t, q)


class NoInverse(systems.ChaplyginSleigh):
    def inverse_frame(self, t, q):
        return None


@pytest.mark.parametrize(("kind", "factor"), [(Scaled, 2.0), (NoInverse, 1.0)])
def test_a_frame_below_its_inverse(kind, factor):
    """Quasi-velocities twice as large describe the same motion."""
    numbers, q, u = (1.5, 0.4, 0.3), jnp.array([0.3, 1.0, 2.0]), jnp.array([0.8, -0.6])
    wanted = jh.acceleration(systems.ChaplyginSleigh(*numbers), 0.0, q, u)
    found = jh.acceleration(kind(*numbers), 0.0, q, factor * u)
    np.testing.assert_allclose(found, factor * wanted, rtol=1e-12)
    np.testing.assert_allclose(
        jh.energy(kind(*numbers), 0.0, q, factor * u),
        jh.energy(systems.ChaplyginSleigh(*numbers), 0.0, q, u),
        rtol=1e-12,
    )


class Bodies(systems.FreeRigidBody):
    def bodies(self, t, q, v, control):
        """The bodies with a torque that is also in the force; `Wrong` has another one."""
        torque = -DRAG * v * (1.0 if self.right else 1.5)
        omega, inertia = v[None], jnp.diag(self.inertia)[None]
        return (jh.Spins(inertia, omega, torque[None]),)

    def force(self, t, q, v, control):
        return -DRAG * v

    right = True


class Wrong(Bodies):
    right = False


class Heavier(Bodies):
    def bodies(self, t, q, v, control):
        (spins,) = super().bodies(t, q, v, control)
        return (jh.Spins(1.1 * spins.inertia, spins.omega, spins.torque),)


AT_REST = (jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(3))


def test_bodies_that_agree():
    jh.acceleration(Bodies(jnp.array([1.0, 2.0, 2.5])), 0.0, *AT_REST)


@pytest.mark.parametrize(("kind", "words"), [(Wrong, "forces"), (Heavier, "mass matrices")])
def test_bodies_that_disagree(kind, words):
    """Bodies that contradict the force are found also at rest, where a drag vanishes."""
    system = kind(jnp.array([1.0, 2.0, 2.5]))
    message = (
        rf"`bodies` of {kind.__name__} disagree with its `lagrangian`.*{words}.*leave `bodies` out"
    )
    for call in (
        lambda: jh.acceleration(system, 0.0, *AT_REST),
        lambda: jh.simulate(system, *AT_REST, [0.0, 1.0]),
        lambda: jh.energy(system, 0.0, *AT_REST),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_values_that_are_traced_are_not_looked_at():
    jax.make_jaxpr(lambda i: jh.acceleration(Wrong(i), 0.0, *AT_REST))(jnp.ones(3))


class WrongInverse(systems.RigidBody):
    """An inverse frame that is right only at the identity and for rotations about z."""

    def frame(self, t, q):
        return jnp.eye(6).at[0, 1].set(q[4])

    def inverse_frame(self, t, q):
        return self.frame(t, q).T


class RightInverse(WrongInverse):
    def frame(self, t, q):
        return super().frame(t, q)

    def inverse_frame(self, t, q):
        return jnp.eye(6).at[0, 1].set(-q[4])


def test_an_inverse_that_is_none():
    q, u = jnp.array([1.0, 0, 0, 0, 0, 0, 0]), jnp.ones(6)
    message = r"`inverse_frame` of WrongInverse is not the inverse of its `frame`.*leave it out"
    with pytest.raises(ValueError, match=message):
        jh.acceleration(WrongInverse(1.0, jnp.ones(3)), 0.0, q, u)
    with pytest.raises(ValueError, match=message):
        jh.simulate(WrongInverse(1.0, jnp.ones(3)), q, u, [0.0, 1.0])
    jh.energy(RightInverse(1.0, jnp.ones(3)), 0.0, q, u)


@pytest.mark.parametrize("name", [n for n in dir(systems) if isinstance(getattr(systems, n), type)])
def test_named_systems_give_whole_forms(name):
    """Closed forms that a system defines together with its force do not count as out of date."""
    kind = getattr(systems, name)
    if not issubclass(kind, jh.System):
        return
    system = object.__new__(kind)
    for form in ("bodies", "inverse_frame", "invariants", "closed_form", "contact_force"):
        assert not overrides_known(system, form) or not overridden_below(system, form)


def overrides_known(system, form):
    return hasattr(type(system), form) and (not hasattr(jh.System, form) or overrides(system, form))


class Skating(systems.ChaplyginSleigh):
    """A sleigh whose blade may slip sideways: u = (v_y, v_x, ω) are all free."""

    n_constraints = 0


class OnTorus(systems.ChaplyginSleigh):
    space = jh.Product(jh.SO2(), jh.Euclidean(2))  # pyright: ignore[reportAssignmentType]


def test_attributes_of_the_class_count_as_methods_do():
    """`n_constraints` and `space`, when assigned in a subclass, override the parent's values."""
    skating, elsewhere = (kind(1.2, 0.5, 0.3) for kind in (Skating, OnTorus))
    assert overridden_below(skating, "bodies") == ("n_constraints",)
    assert overridden_below(elsewhere, "bodies") == ("space",)
    assert overridden_below(elsewhere, "inverse_frame") == ("space",)
    assert not has_valid(skating, "bodies")
    assert not has_valid(elsewhere, "inverse_frame")
    # the centre of mass, 0.3 ahead of the blade, keeps its velocity in space: v̇ = −ω × v in the body's axes
    u = jnp.array([0.4, 0.7, 1.3])
    rate = jh.acceleration(skating, 0.0, jnp.zeros(3), u)
    sideways, forward, omega = np.asarray(u)
    wanted = [-omega * forward, omega * (sideways + 0.3 * omega), 0.0]
    np.testing.assert_allclose(rate, wanted, rtol=1e-12, atol=1e-14)
