"""Closed loops given as one-forms: projection and drift, against minimal coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import SO3, Euclidean, Product, System, energy, ensemble, examine, simulate
from jaxhamel.geometry import quaternion_matrix, quaternion_rotate
from jaxhamel.mechanics import close_loops

TS = jnp.linspace(0.0, 4.0, 9)


class Rod(System):
    """A point (x, y) on a rod: the constraint x v_x + y v_y = 0, and the angular momentum per mass as quasi-velocity."""

    length: jax.Array
    space = Euclidean(2)
    n_constraints = 1

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(v, v) - 9.81 * q[1]

    def frame(self, t, q):
        return jnp.stack([q, jnp.stack([-q[1], q[0]])])

    def holonomic(self, t, q):
        return (0.5 * (jnp.dot(q, q) - self.length**2))[None]


class Pendulum(System):
    """The same rod, described by its angle."""

    length: jax.Array
    space = Euclidean(1)

    def lagrangian(self, t, q, v):
        return 0.5 * self.length**2 * v[0] ** 2 - 9.81 * self.length * jnp.sin(q[0])


def of_rod(length, **options):
    start = jnp.stack([length, jnp.zeros_like(length)])
    return simulate(Rod(length), start, jnp.zeros(1), TS, rtol=1e-8, atol=1e-10, **options)


def of_pendulum(length):
    return simulate(Pendulum(length), jnp.zeros(1), jnp.zeros(1), TS, rtol=1e-12, atol=1e-13)


def test_a_rod_in_cartesian_coordinates():
    """The motion agrees with the pendulum's. From rest x(t, l) = l X(t/√l), so ∂x/∂l = (x − t ẋ/2)/l."""
    length = jnp.asarray(1.3)
    held = of_rod(length, project=True, dense=True)
    angle = of_pendulum(length).q[:, 0]
    wanted = 1.3 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    np.testing.assert_allclose(held.q, wanted, atol=3e-7)
    for q in (held.q, held.q_end, held.evaluate(1.234)[0]):
        np.testing.assert_allclose(np.linalg.norm(q, axis=-1), 1.3, rtol=4e-16)
    assert "holonomic constraints  0.0e+00 at the start, at most" in str(held)

    end = lambda length: of_rod(length, project=True).q[-1]
    rate = -float(held.u[-1, 0]) * held.q[-1, 1] / 1.3**2  # v_x with u = x v_y − y v_x
    slope = (held.q[-1, 0] - 0.5 * TS[-1] * rate) / 1.3
    np.testing.assert_allclose(jax.jacfwd(end)(length)[0], slope, rtol=1e-5)
    np.testing.assert_allclose(jax.grad(lambda length: end(length)[0])(length), slope, rtol=1e-5)


def test_rods_of_an_ensemble():
    start = jnp.array([[1.0, 0.0], [0.6, 0.8]])
    options = {"dt": 0.1, "in_axes": (None, 0, 0, None), "project": True}
    runs = ensemble.simulate(Rod(jnp.asarray(1.0)), start, jnp.zeros((2, 1)), TS[:3], **options)
    np.testing.assert_allclose(np.linalg.norm(runs.q, axis=-1), 1.0, rtol=4e-16)


LENGTHS = np.array([0.4, 1.1, 0.9, 1.2])  # crank, coupler, rocker, ground


def along(angle, length):
    return length * jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def kinetic(rates):
    """Kinetic energy of point masses at the joints and of a heavier one on the coupler."""
    masses = jnp.array([1.0, 2.0, 1.5])
    return 0.5 * jnp.sum(masses * jnp.sum(rates**2, axis=1))


def joints(angles):
    crank = along(angles[0], LENGTHS[0])
    return jnp.stack([crank, crank + along(angles[1], 0.5), along(angles[2], LENGTHS[2])])


def potential(angles):
    return 9.81 * jnp.dot(jnp.array([1.0, 2.0, 1.5]), joints(angles)[:, 1])


class FourBar(System):
    """A linkage with three angles, in which crank and coupler meet the rocker, which turns about the ground's end."""

    space = Euclidean(3)
    n_constraints = 2

    def lagrangian(self, t, q, v):
        return kinetic(jax.jvp(joints, (q,), (v,))[1]) - potential(q)

    def holonomic(self, t, q):
        end = along(q[0], LENGTHS[0]) + along(q[1], LENGTHS[1])
        return end - along(q[2], LENGTHS[2]) - jnp.array([LENGTHS[3], 0.0])

    def frame(self, t, q):
        loop = jax.jacfwd(lambda q: self.holonomic(t, q))(q)
        return jnp.concatenate([loop, jnp.array([[1.0, 0.0, 0.0]])])


def of_crank(angle):
    """The three angles for a given crank angle, by the intersection of two circles."""
    away = along(angle, LENGTHS[0]) - jnp.array([LENGTHS[3], 0.0])
    length = jnp.sqrt(jnp.dot(away, away))
    corner = (LENGTHS[2] ** 2 + length**2 - LENGTHS[1] ** 2) / (2 * LENGTHS[2] * length)
    rocker = jnp.arctan2(away[1], away[0]) - jnp.arccos(corner)
    bar = jnp.array([LENGTHS[3], 0.0]) + along(rocker, LENGTHS[2]) - along(angle, LENGTHS[0])
    return jnp.stack([angle, jnp.arctan2(bar[1], bar[0]), rocker])


class Crank(System):
    """The linkage, described by the crank angle."""

    space = Euclidean(1)

    def lagrangian(self, t, q, v):
        angles, rates = jax.jvp(lambda angle: of_crank(angle), (q[0],), (v[0],))
        return kinetic(jax.jvp(joints, (angles,), (rates,))[1]) - potential(angles)


def test_a_four_bar_linkage():
    start, rate = of_crank(jnp.asarray(1.0)), jnp.array([9.0])  # several turns
    options = {"rtol": 1e-9, "atol": 1e-10}
    linkage = FourBar()
    held = simulate(linkage, start, rate, TS, project=True, **options)
    free = simulate(linkage, start, rate, TS, **options)
    crank = simulate(Crank(), start[:1], rate, TS, rtol=1e-11, atol=1e-12)
    assert abs(float(crank.q[-1, 0] - crank.q[0, 0])) > 2 * np.pi
    np.testing.assert_allclose(held.q[:, 0], crank.q[:, 0], atol=1e-6)
    np.testing.assert_allclose(held.u, crank.u, rtol=1e-6, atol=1e-6)
    open_by = lambda run: np.max(np.abs(jax.vmap(linkage.holonomic)(TS, run.q)))
    assert open_by(held) < 1e-14
    assert open_by(free) > 1e-10
    near = start + jnp.array([0.0, 0.2, -0.1])
    np.testing.assert_allclose(
        linkage.holonomic(0.0, close_loops(linkage, 0.0, near)), 0, atol=1e-15
    )


class Pinned(System):
    """A body held at a point s away from its centre of mass: x + Λ s = 0, stated twice (redundant)."""

    arm: jax.Array
    space = Product(SO3(), Euclidean(3))
    n_constraints = 3

    def lagrangian(self, t, q, v):
        inertia = jnp.array([0.4, 0.5, 0.3], v.dtype)
        return 0.5 * jnp.dot(inertia * v[:3], v[:3]) + 0.5 * jnp.dot(v[3:], v[3:]) - 9.81 * q[1][2]

    def frame(self, t, q):
        x, y, z = self.arm
        o = jnp.zeros_like(x)
        cross = jnp.stack([jnp.stack([o, -z, y]), jnp.stack([z, o, -x]), jnp.stack([-y, x, o])])
        eye = jnp.eye(3, dtype=x.dtype)
        return jnp.block([[-quaternion_matrix(q[0]) @ cross, eye], [eye, 0.0 * eye]])

    def holonomic(self, t, q):
        away = q[1] + quaternion_rotate(q[0], self.arm)
        return jnp.concatenate([away, away])


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_a_pinned_body_with_its_quaternion(dtype):
    """Quaternions stay unit, the redundant loops stay closed, and the energy is kept, in both precisions."""
    arm = jnp.array([0.1, -0.3, 0.2], dtype)
    q0 = (jnp.array([1, 0, 0, 0], dtype), -arm)
    body, u0, ts = Pinned(arm), jnp.array([0.3, 2.0, 1.0], dtype), jnp.array([0, 0.5, 1], dtype)
    run = simulate(body, q0, u0, ts, rtol=1e-5, atol=1e-6, project=True)
    eps = float(jnp.finfo(dtype).eps)
    assert run.q_end[1].dtype == dtype
    assert np.max(np.abs(body.holonomic(ts[2], run.q_end))) < 8 * eps
    assert abs(np.linalg.norm(run.q_end[0]) - 1) < 4 * eps
    first = energy(body, ts[0], q0, u0)
    np.testing.assert_allclose(energy(body, ts[2], run.q_end, run.u_end), first, rtol=2e-4)


class Shifted(Rod):
    """A rod whose holonomic constraint does not belong to its one-forms."""

    def holonomic(self, t, q):
        return (q[0] - self.length)[None]


class Number(Rod):
    def holonomic(self, t, q):
        return jnp.dot(q, q) - self.length**2


@pytest.mark.parametrize(
    ("kind", "start", "options", "error", "message"),
    [
        (Rod, [1.1, 0.0], {}, ValueError, r"the loops of Rod are open: .*close_loops\(system, t, q\)"),
        (Rod, [1.0, 0.0], {"project": "yes"}, TypeError, "`project` is 'yes'; it must be True"),
        (Shifted, [1.0, 0.5], {}, ValueError, r"`holonomic\(t, q\)\[0\]` of Shifted changes along u\[0\]"),
        (Number, [1.0, 0.0], {}, ValueError, r"shape \(\), as Number returns it; it must have shape \(h,\).*jnp.stack"),
    ],
)  # fmt: skip
def test_loops_that_do_not_fit(kind, start, options, error, message):
    with pytest.raises(error, match=message):
        simulate(kind(jnp.asarray(1.0)), jnp.array(start), jnp.zeros(1), TS, **options)


@pytest.mark.parametrize(
    ("kind", "start", "message"),
    [(Rod, [1.1, 0.0], "are open"), (Shifted, [1.0, 0.5], r"changes along u\[0\]")],
)
def test_loops_are_checked_in_jit_too(kind, start, message):
    """A system and a configuration that a jitted function closes over are concrete, so that the same errors are raised."""
    system, start = kind(jnp.asarray(1.0)), jnp.array(start)
    of_speed = jax.jit(lambda u: simulate(system, start, u, TS).u)
    with pytest.raises(ValueError, match=message):
        of_speed(jnp.zeros(1))


def test_a_rod_that_a_jitted_function_closes_over():
    """Only the speed is traced; the motion is that of the same call without `jit`."""
    rod, start, speed = Rod(jnp.asarray(1.3)), jnp.array([1.3, 0.0]), jnp.array([0.4])
    run = lambda u: simulate(rod, start, u, TS, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(jax.jit(lambda u: run(u).q)(speed), run(speed).q, rtol=1e-12)
    of_length = lambda length: simulate(_rod_of_length(length), start, speed, TS[:2]).q
    assert np.all(np.isfinite(jax.jit(of_length)(1.3)))


def _rod_of_length(length):
    """A rod whose class closes over a length, which may be a tracer that is no leaf of the system."""

    class Own(Rod):
        def holonomic(self, t, q):
            return (0.5 * (jnp.dot(q, q) - length**2))[None]

    return Own(jnp.asarray(1.3))


def test_nothing_to_project_onto():
    with pytest.raises(TypeError, match=r"`system` Pendulum has no method `holonomic\(t, q\)`"):
        simulate(Pendulum(jnp.asarray(1.0)), jnp.zeros(1), jnp.zeros(1), TS, project=True)


class Close(System):
    """Two constraint one-forms that are nearly parallel."""

    distance: jax.Array
    space = Euclidean(3)
    n_constraints = 2

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(v, v)

    def frame(self, t, q):
        other = jnp.stack([0.0 * self.distance, self.distance, 0.0 * self.distance])
        return jnp.eye(3).at[1].set(jnp.array([1.0, 0.0, 0.0]) + other)


@pytest.mark.parametrize(("distance", "said"), [(1e-7, "2.0e+07 at the start"), (0.1, None)])
def test_the_summary_has_the_condition_number(distance, said):
    """(1, 0) and (1, δ), scaled to unit length, have the condition number 2/δ."""
    run = simulate(Close(jnp.asarray(distance)), jnp.zeros(3), jnp.ones(1), TS[:2], dt=1.0)
    assert ("condition number" in str(run)) == (said is not None)
    assert said is None or said in str(run)


class Dumbbell(System):
    """Two masses on a rod of length 1 in the plane; the coordinates y are in units of `unit` metres."""

    masses: jax.Array
    unit: jax.Array
    space = Euclidean(4)
    n_constraints = 1

    def lagrangian(self, t, q, v):
        x_dot = v.reshape(2, 2) * jnp.stack([jnp.ones_like(self.unit), self.unit])[None]
        return 0.5 * jnp.sum(self.masses[:, None] * x_dot * x_dot)

    def apart(self, q):
        return (q[2:] - q[:2]) * jnp.stack([jnp.ones_like(self.unit), self.unit])

    def holonomic(self, t, q):
        return 0.5 * (jnp.dot(self.apart(q), self.apart(q)) - 1.0)[None]

    def frame(self, t, q):
        row = jax.grad(lambda q: self.holonomic(t, q)[0])(q)
        return jnp.concatenate([row[None], jnp.eye(4)[1:]])


def test_projection_in_the_mass_metric():
    """Masses move along the rod in the ratio 1/m, so the centre of mass stays, in any unit of y. The Euclidean metric
    moves it."""
    masses, start = jnp.array([3.0, 0.5]), jnp.array([0.1, 0.2, 0.9, 0.9])
    centre = lambda q: np.asarray(masses) @ np.asarray(q).reshape(2, 2) / 3.5
    held = close_loops(Dumbbell(masses, jnp.asarray(1.0)), 0.0, start, metric="mass")
    along = np.array([0.8, 0.7]) / np.hypot(0.8, 0.7)
    first = centre(start) - 0.5 / 3.5 * along
    np.testing.assert_allclose(held, [*first, *(first + along)], rtol=1e-14)

    millimetres = jnp.array([1.0, 1e3, 1.0, 1e3])
    other = close_loops(
        Dumbbell(masses, jnp.asarray(1e-3)), 0.0, start * millimetres, metric="mass"
    )
    np.testing.assert_allclose(other, held * millimetres, rtol=1e-13)
    plain = close_loops(Dumbbell(masses, jnp.asarray(1.0)), 0.0, start)
    assert np.linalg.norm(centre(plain) - centre(start)) > 1e-3


def test_a_motion_projected_in_the_mass_metric():
    """A free dumbbell keeps its length, and its centre of mass moves uniformly."""
    dumbbell = Dumbbell(jnp.array([3.0, 0.5]), jnp.asarray(1.0))
    start, rates = jnp.array([0.0, 0.0, 1.0, 0.0]), jnp.array([0.3, 0.0, 2.0])
    options = {"dt": 0.05, "project": "mass", "dense": True}
    run = simulate(dumbbell, start, rates, TS[:2], **options)  # it turns by 0.85 rad
    assert run.metric == "mass"
    for q, t in ((run.q[-1], 0.5), (run.evaluate(0.123)[0], 0.123)):
        first, second = np.asarray(q).reshape(2, 2)
        np.testing.assert_allclose(np.linalg.norm(second - first), 1.0, rtol=1e-15)
        along = np.array([np.cos(1.7 * t), np.sin(1.7 * t)])
        centre = np.array([0.5, (3.0 * 0.3 + 0.5 * 2.0) * t]) / 3.5
        np.testing.assert_allclose(first, centre - along / 7, atol=1e-6)


def test_no_such_metric():
    with pytest.raises(ValueError, match="`metric` is 'kinetic'; it must be \"identity\""):
        close_loops(Rod(jnp.asarray(1.0)), 0.0, jnp.ones(2), metric="kinetic")  # pyright: ignore


@pytest.mark.parametrize(("closeness", "said"), [(1e-6, "2.0e+06 at the start"), (0.5, None)])
def test_the_summary_has_the_condition_of_the_mass_matrix(closeness, said):
    """[[1, 1 − δ], [1 − δ, 1]] has the condition number (2 − δ)/δ, in any units."""
    run = simulate(Coupled(jnp.asarray(closeness)), jnp.zeros(2), jnp.ones(2), TS[:2], dt=1.0)
    assert ("condition of the mass" in str(run)) == (said is not None)
    assert said is None or said in str(run)


class Coupled(System):
    """Two coordinates in units that differ by 1e5, with nearly singular mass matrix."""

    closeness: jax.Array
    space = Euclidean(2)

    def lagrangian(self, t, q, v):
        v = v * jnp.array([1.0, 1e5])
        return 0.5 * jnp.dot(v, v) + (1 - self.closeness) * v[0] * v[1]


def test_examine_knows_holonomic_constraints():
    """`examine` reports an open loop, and a constraint whose differential is not among the one-forms."""
    found = examine(Rod(jnp.asarray(1.0)), jnp.array([0.6, 0.8]))
    assert found.holds
    np.testing.assert_allclose(found.holonomic, [0.0], atol=1e-16)
    assert "holonomic          1 constraint, at most" in str(found)
    problems = examine(Rod(jnp.asarray(1.0)), jnp.array([1.0, 0.5])).problems
    assert len(problems) == 1
    assert "the loops of Rod are open: `holonomic(t, q)` is [0.125]" in problems[0]
    problems = examine(Shifted(jnp.asarray(1.0)), jnp.array([1.0, 0.5])).problems
    assert len(problems) == 1
    assert "`holonomic(t, q)[0]` of Shifted changes along u[0]" in problems[0]
