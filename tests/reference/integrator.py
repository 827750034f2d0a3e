"""A fixed-step integrator of order 8 that also takes complex states, for complex-step derivatives.

The coefficients are Dormand and Prince's (Hairer, Nørsett, Wanner, Solving ODE I, 2nd ed., II.5),
as SciPy tabulates them. Only +, − and × act on the state, so f(x + ih) carries h·f′(x) in its
imaginary part through the whole run, free of cancellation for any h (Squire, Trapp 1998).
"""

import itertools

import numpy as np
from scipy.integrate._ivp import dop853_coefficients as table

STAGES = table.N_STAGES
COMPLEX_STEP = 1e-40


def integrate(rate, t0, t1, state, steps):
    """State at t1 of d(state)/dt = rate(t, state), in equal steps; the state is any array."""
    h = (t1 - t0) / steps
    for n in range(steps):
        state = step(rate, t0 + n * h, state, h)
    return state


def trajectory(rate, ts, state, steps):
    """States at all ts, with `steps` steps between neighbouring times."""
    states = [state]
    for start, end in itertools.pairwise(ts):
        states.append(integrate(rate, start, end, states[-1], steps))
    return np.stack(states)


def step(rate, t, state, h):
    slopes = []
    for stage in range(STAGES):
        moved = state + h * sum(table.A[stage, j] * slopes[j] for j in range(stage))
        slopes.append(rate(t + table.C[stage] * h, moved))
    return state + h * sum(weight * slope for weight, slope in zip(table.B, slopes, strict=True))


def complex_step(function, vector):
    """Derivatives (m, p) of `function`: (p, p) -> (p, m), whose row i is its value for the `vector` (p,) with entry i
    perturbed."""
    perturbed = vector[None, :] + 1j * COMPLEX_STEP * np.eye(vector.size)
    return np.moveaxis(np.imag(function(perturbed)) / COMPLEX_STEP, 0, -1)
