"""A disk with one mass, an optimal control problem with an optimum from independent software.

The planar disk of Putkaradze and Rogers (2018), eq. (3.39), with r = 1, d_2 = 1, m_0 = 4, m_1 = 1 on a circle of 0.8
and g = 9.81, rolls 1 m in 5 s from rest to rest with the least J = ∫ u² dt, u = θ̈. Hermite–Simpson collocation with
800 intervals, solved by IPOPT to 1e-10 (CasADi), gives J = 0.2583175847 and u(0) = 0.633978 = −u(5).
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import control
from jaxhamel.control._problem._costs import second_rate
from jaxhamel.systems import ActuatedDisk, CircularRails

J, U_START = 0.2583175847, 0.633978
MIDDLE = (-0.5, -1.07079633, -0.464306, 0.13871205)  # phi, theta and their rates at 2.5 s
START, END = np.array([-np.pi / 2]), np.array([1 - np.pi / 2])


def problem(n_intervals=16):
    rails = CircularRails(radius=[0.8], normal=[[0.0, -1.0, 0.0]], zero=[[1.0, 0.0, 0.0]])
    disk = ActuatedDisk(
        radius=1.0, disk_mass=4.0, disk_inertia=1.0, masses=[1.0], rails=rails, gravity=9.81
    )
    ts = np.linspace(0.0, 5.0, 101)
    return control.ControlProblem(
        disk,
        q0=(jnp.zeros(1), jnp.zeros(1)),
        u0=jnp.zeros(1),
        ts=jnp.linspace(0.0, 5.0, n_intervals + 1),
        curve=control.Spline.fit(ts, np.linspace(START, END, 101), n_intervals + 5),
        costs=(control.MassAcceleration(weight=2.0),),
        constraints=(
            control.ControlAt(value=START, rate=[0.0]),
            control.ControlAt(value=END, rate=[0.0], at_end=True),
            control.StateAtEnd(q=(jnp.array([-1.0]), jnp.array([1.0])), u=[0.0]),
        ),
    )


def test_disk_reaches_the_known_optimum():
    method = control.MultipleShooting(damping=1e-3, switch=10.0, cost_tolerance=1e-10)
    result = control.solve(problem(), method)
    assert result.converged
    np.testing.assert_allclose(result.cost, J, rtol=2e-8)

    @jax.jit
    def of_control(ts):
        u = jax.vmap(lambda t: second_rate(result.control, t))(ts)
        return u, *jax.jvp(result.control, (ts[1],), (jnp.ones_like(ts[1]),))

    u, theta, rate = of_control(np.array([0.0, 2.5, 5.0]))
    np.testing.assert_allclose(u[:, 0], [U_START, 0.0, -U_START], atol=1e-4)
    motion = control.replay(problem(), result.control, ts=[0.0, 2.5, 5.0])
    middle = (motion.q[0][1, 0], theta[0], motion.u[1, 0], rate[0])
    np.testing.assert_allclose(middle, MIDDLE, atol=1e-5)
    np.testing.assert_allclose(motion.q[0][2, 0], -1.0, atol=1e-9)
    np.testing.assert_allclose(motion.q[1][2, 0], 1.0, atol=1e-9)
