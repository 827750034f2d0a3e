"""Direct collocation against problems with known optima."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxhamel
from jaxhamel import control
from jaxhamel.control._certificate import _certificate
from jaxhamel.control._certificate._certificate import transcription_error
from jaxhamel.control._certificate._cost_error import cost_error
from jaxhamel.systems import ActuatedDisk, CircularRails, KnifeEdge
from tests.control.cart import Cart, least_energy

# Cost, u(0) and Hamiltonian of the disk in test_disk.py, on which Gauss collocation with IPOPT and indirect shooting agree.
J, U_START, HAMILTONIAN = 0.258317584642551, 0.633977983508382, -0.401928083573355


def certificate_of(result):
    assert result.certificate is not None
    return result.certificate


def disk_problem():
    rails = CircularRails(radius=[0.8], normal=[[0.0, -1.0, 0.0]], zero=[[1.0, 0.0, 0.0]])
    disk = ActuatedDisk(
        radius=1.0, disk_mass=4.0, disk_inertia=1.0, masses=[1.0], rails=rails, gravity=9.81
    )
    driven, down = jaxhamel.MovingParts(disk), -np.pi / 2
    q0, u0 = driven.state(
        (jnp.zeros(1), jnp.zeros(1)), jnp.zeros(1), jnp.full(1, down), jnp.zeros(1)
    )
    end = control.StateAtEnd(
        q=(jnp.array([-1.0]), jnp.array([1.0]), jnp.array([1 + down])), u=jnp.zeros(2)
    )
    ts = jnp.array([0.0, 5.0])
    energy = control.ControlEnergy(weight=2.0)
    return control.ControlProblem(driven, q0, u0, ts, lambda t: jnp.zeros(1), (energy,), (end,))


def test_disk_to_all_digits():
    result = control.solve(disk_problem(), control.Collocation(intervals=40))
    assert result.converged
    assert certificate_of(result).holds
    np.testing.assert_allclose(result.cost, J, rtol=0, atol=1e-11)
    ends = [result.control(0.0), result.control(5.0)]
    np.testing.assert_allclose(np.ravel(ends), [U_START, -U_START], atol=1e-6)
    assert certificate_of(result).second_order == "strict minimum"
    assert not certificate_of(result).multipliers_unique  # φ and z = −r φ depend on each other
    rate = jax.jit(jax.vmap(lambda t, q, u: (rate_of(result, t, q, u), result.control(t)[0])))
    rates, values = map(np.asarray, rate(result.ts[:-1], *started(result)))
    hamiltonian = values**2 + np.sum(np.asarray(result.costates)[:-1] * rates, axis=1)
    np.testing.assert_allclose(hamiltonian, HAMILTONIAN, atol=1e-6)


def started(result):
    return jax.tree.map(lambda x: x[:-1], result.states)


def rate_of(result, t, q, u):
    """Body velocity and acceleration (v, u̇) at a point of the result."""
    system = result.problem.system
    q_dot, u_dot = jaxhamel.mechanics.vector_field(t, (q, u), (system, result.control))
    return jnp.concatenate([system.space.velocity(q, q_dot), u_dot])


def height(t, q, u, control):
    return q


def test_bryson_denham(tmp_path):
    """For ẍ = f with x ≤ ℓ = 1/9, from (0, 1) to (0, −1) in unit time, the least ½∫f² is 4/(9 ℓ) (Bryson and Ho 1975,
    3.11).

    An error δ in the slack lets x exceed its limit by δ, which lowers the cost by 4δ/(9 ℓ²).
    """
    limit = control.PathLimit(height, upper=1 / 9)
    end = control.StateAtEnd(q=jnp.zeros(1), u=-jnp.ones(1))
    problem = least_energy(u0=jnp.ones(1), constraints=(end, limit))
    result = control.solve(problem, control.Collocation(intervals=30, degree=3))
    assert result.converged
    assert certificate_of(result).holds
    np.testing.assert_allclose(result.cost, 4.0, atol=1e-5)
    places = np.max(np.asarray(result.states[0]))
    assert places < 1 / 9 + 1e-6
    page = jaxhamel.report(result, tmp_path).read_text(encoding="utf-8")
    for text in (
        "Certificate",
        "Limit: height",
        "Costates",
        "a strict minimum: its certificate holds",
    ):
        assert text in page
    transcription, w, duals = result.optimum
    off = w._replace(slack=w.slack - 1e-3)
    by = cost_error(transcription, off, duals)
    np.testing.assert_allclose(by, 36e-3 / (1 + result.cost), rtol=1e-3)
    assert cost_error(transcription, w, duals) < 1e-8
    assert "barrier" not in certificate_of(result).words
    cost = (
        control.ControlEnergy(1e-8),
    )  # without rescaling, the barrier would raise this cost by a fifth
    tiny = control.solve(
        least_energy(u0=jnp.ones(1), constraints=(end, limit), costs=cost),
        control.Collocation(intervals=30, degree=3),
    )
    assert certificate_of(tiny).holds
    assert "barrier" not in certificate_of(tiny).words
    np.testing.assert_allclose(tiny.cost, 1e-8 * result.cost, rtol=2e-8)
    # Along the arc the limit's multiplier is 0, so that the barrier leaves a distance of about √μ from it.
    np.testing.assert_allclose(tiny.states[0], result.states[0], atol=1e-5)
    np.testing.assert_allclose(tiny.costates, 1e-8 * result.costates, rtol=0, atol=1e-10)
    slopes = [control.sensitivity(x) for x in (result, tiny)]
    by_limit = [float(x.constraints[1].upper) for x in slopes]
    np.testing.assert_allclose(by_limit, [-36.0, -36e-8], rtol=1e-3)  # d(4/9ℓ)/dℓ


class EndTime(control.AbstractCost):
    def final(self, system, t, q, u, control):
        return jnp.sqrt(2 * t)[None]


def force(t, q, u, control):
    return control(t)


def test_disk_behind_an_obstacle():
    """The limit is active at one point, where the barrier's curvature reaches 1e15, and the conditions on φ and z are
    dependent. CasADi with 100 intervals finds the cost 5.6010616, with violations between its points, so that it is too low;
    80 intervals here give 5.6025544."""
    problem = control.problems.disk_obstacle()
    result = control.solve(problem, control.Collocation(intervals=40))
    certificate = certificate_of(result)
    assert certificate.holds
    assert certificate.stationarity < 1e-8
    assert certificate.violation < 1e-7
    assert not certificate.multipliers_unique
    np.testing.assert_allclose(result.cost, 5.6010616, rtol=5e-4)
    np.testing.assert_allclose(result.cost, 5.6025544, rtol=2e-6)
    position = np.asarray(result.states[0][1])[:, 0]
    assert np.max(position - 0.1 - 0.2 * np.asarray(result.ts)) < 1e-7


def slide(t, y, angle):
    """State (x, y, speed) of a bead on a wire with the given downward slope angle; g = 9.80665."""
    direction = jnp.stack([jnp.cos(angle[0]), -jnp.sin(angle[0])])
    return jnp.append(y[2] * direction, 9.80665 * jnp.sin(angle[0]))


def test_brachistochrone():
    """The fastest curve from (0, 0) to (10, −5) is a cycloid and takes 1.801603 s. Without initial multipliers, some
    slope angles would end whole turns off."""
    ts = jnp.linspace(0.0, 2.0, 9)
    line = jnp.outer(ts / 2, jnp.array([10.0, -5.0, 9.9]))
    at_end = control.ConditionsAtEnd(lambda q, u: q[:2] - jnp.array([10.0, -5.0]))
    constraints = at_end, control.FreeEndTime(0.5, 5.0)
    problem = control.ControlProblem(
        jaxhamel.ODE(slide, 3), jnp.zeros(3), jnp.zeros(0), ts, lambda t: 1.5 - t[None], (EndTime(),),
        constraints, (line, jnp.zeros((9, 0))),
    )  # fmt: skip
    result = control.solve(problem, control.Collocation(intervals=8, degree=3))
    assert certificate_of(result).holds
    np.testing.assert_allclose(result.cost, 1.80160312245308, atol=1e-9)


def test_constraints_that_cannot_be_met_are_named():
    """With |f| ≤ 1 a cart moves at most 1/4 from rest to rest in unit time, so 3/4 of the required distance is missing
    and the status says so."""
    end = control.StateAtEnd(q=jnp.ones(1), u=jnp.zeros(1))
    problem = least_energy(constraints=(end, control.PathLimit(force, -1.0, 1.0)))
    result = control.solve(problem, control.Collocation(intervals=10, degree=3))
    assert not result.converged
    assert not certificate_of(result).holds
    assert "`StateAtEnd` by 0.75, while `force` holds" in result.status


UNICYCLE = 11.1581587152  # collocation with IPOPT and indirect shooting agree on it


def sideways(t):
    """A guess on one side of the path, since the straight line is an extremal but no minimum."""
    return jnp.stack([3 * jnp.sin(2 * jnp.pi * t), 3 * jnp.cos(2 * jnp.pi * t)])


def test_unicycle_sideways():
    """A knife edge with prescribed speed v and turning rate ω moves by 1 across its blade with the least ∫ v² + ω²."""
    unicycle = jaxhamel.Kinematic(KnifeEdge(mass=1.0, inertia=1.0, slope=0.0))
    ends = jnp.zeros(3), jnp.array([0.0, 0.0, 1.0])
    problem = control.ControlProblem(
        unicycle, ends[0], jnp.zeros(0), jnp.array([0.0, 1.0]), sideways,
        (control.ControlEnergy(2.0),), (control.StateAtEnd(q=ends[1]),),
    )  # fmt: skip
    result = control.solve(problem, control.Collocation())
    assert certificate_of(result).holds
    np.testing.assert_allclose(result.cost, UNICYCLE, atol=1e-8)
    np.testing.assert_allclose(result.trajectory.q[-1], ends[1], atol=1e-8)
    # the optimal cost is homogeneous of degree 2 in the velocities: with a fixed end, J ∝ 1/T
    by_times = np.asarray(control.sensitivity(result).ts)
    np.testing.assert_allclose(by_times[-1], -result.cost, rtol=1e-7)


def test_sensitivity_of_the_optimal_cost():
    """The derivatives of J* = 6 m² d² / T³ of the cart by mass, end time, target, weight and initial state."""
    mass = 1.3
    problem = least_energy(system=Cart(jnp.array(mass)))
    result = control.solve(problem, control.Collocation(intervals=3, degree=3))
    by = control.sensitivity(result)
    np.testing.assert_allclose(result.cost, 6 * mass**2, rtol=1e-12)
    np.testing.assert_allclose(by.system.mass, 12 * mass, rtol=1e-9)
    np.testing.assert_allclose(by.ts[-1], -18 * mass**2, rtol=1e-9)
    np.testing.assert_allclose(by.constraints[0].q, 12 * mass**2, rtol=1e-9)
    np.testing.assert_allclose(by.costs[0].weight, result.cost, rtol=1e-9)
    np.testing.assert_allclose(by.q0, result.costates[0, :1], rtol=1e-9)
    np.testing.assert_allclose(result.costates[0], [-12 * mass**2, -6 * mass**2], rtol=1e-9)
    # marked as one of a family of minima, it is compared with a second search, which finds the same minimum
    certificate = certificate_of(result)._replace(second_order="minimum, not isolated")
    same = control.sensitivity(result._replace(certificate=certificate))
    jax.tree.map(np.testing.assert_array_equal, same, by)


def test_no_derivative_by_numbers_that_cannot_change_alone():
    """The cart's target is given twice: the derivative by one of the two alone is NaN, those by mass and time are the
    cart's."""
    mass = 1.3
    problem = least_energy(system=Cart(jnp.array(mass)))
    again = control.StateAtEnd(q=jnp.ones(1))
    problem = eqx.tree_at(lambda p: p.constraints, problem, (*problem.constraints, again))
    result = control.solve(problem, control.Collocation(intervals=3, degree=3))
    assert not certificate_of(result).multipliers_unique
    by = control.sensitivity(result)
    assert np.isnan([by.constraints[0].q[0], by.constraints[1].q[0]]).all()
    np.testing.assert_allclose(by.q0, -12 * mass**2, rtol=1e-9)  # both targets stay
    np.testing.assert_allclose(by.system.mass, 12 * mass, rtol=1e-9)
    np.testing.assert_allclose(by.constraints[0].u, -6 * mass**2, rtol=1e-9)
    np.testing.assert_allclose(by.ts[-1], -18 * mass**2, rtol=1e-9)


def test_guess_from_another_state(monkeypatch):
    """A guess that begins in another state changes neither the initial state nor the optimum. The certificate fails if
    errors of the transcription exceed 1e-6 of the cost."""
    elsewhere = jnp.linspace(0.4, 2.0, 5)[:, None]
    problem = least_energy(system=Cart(jnp.array(1.3)), guess=(elsewhere, 1.0 + elsewhere))
    method = control.Collocation(intervals=3, degree=3)
    result = control.solve(problem, method)
    np.testing.assert_array_equal([result.states[0][0], result.states[1][0]], np.zeros((2, 1)))
    np.testing.assert_allclose(result.cost, 6 * 1.3**2, rtol=1e-12)
    assert certificate_of(result).holds
    transcription, w, duals = result.optimum
    moved = w._replace(x=w.x.at[-1, 0].add(1e-4))  # λ = ∂J/∂q = −12 m²
    found = transcription_error(transcription, moved, duals.costates)
    np.testing.assert_allclose(found, [1e-4, 12 * 1.3**2 * 1e-4], rtol=1e-9)
    most = 1e-6 * (1 + result.cost)
    for share, holds in ((0.9, True), (1.1, False)):
        errors = jnp.zeros(()), jnp.asarray(-share * most)
        monkeypatch.setattr(_certificate, "transcription_error", lambda *_, errors=errors: errors)
        certificate = certificate_of(control.solve(problem, method))
        assert certificate.holds == holds
        assert ("errors of the transcription" in certificate.words) != holds


def test_derivatives_of_the_optimum_itself():
    """Through the solve, f(t) = m d (6 − 12 t), x(t) = d (3 t² − 2 t³) and J = 6 w m² d² of the cart are differentiated
    by mass m and target d.

    The path limit of the problem is inactive.
    """
    far, w = control.PathLimit(height, upper=9.0), 1e-6
    ends = (control.StateAtEnd(q=jnp.ones(1), u=jnp.zeros(1)), far)
    cart = Cart(jnp.array(1.3))
    problem = least_energy(system=cart, constraints=ends, costs=(control.ControlEnergy(w),))
    result = control.solve(problem, control.Collocation(intervals=3, degree=3))

    def optimum(mass, target):
        selected = lambda p: (p.system.mass, p.constraints[0].q)
        near = control.neighbouring(eqx.tree_at(selected, problem, (mass, target[None])), result)
        return jnp.stack([near.control(0.25)[0], near.states[0][1, 0], near.cost / w])

    by_mass, by_target = jax.jit(jax.jacrev(optimum, (0, 1)))(jnp.array(1.3), jnp.array(1.0))
    x = 3 / 9 - 2 / 27  # at t = 1/3
    np.testing.assert_allclose(by_mass, [3.0, 0.0, 12 * 1.3], atol=1e-8)
    np.testing.assert_allclose(by_target, [3 * 1.3, x, 12 * 1.3**2], atol=1e-8)
