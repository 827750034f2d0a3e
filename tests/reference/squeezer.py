"""Andrews' squeezing mechanism by a quadrature: one degree of freedom, started from rest, and energy.

The torque does the work τ(β − β₀), the spring stores ½ c₀ s²; so ½ M(x) ẋ² = W(x) for any coordinate x of the one-parameter
family of configurations, and t = ∫ √(M/2W) dx. No accelerations, no constraint forces, no steps in time. Here x = −Θ, the
angle between rod and crank: every configuration has one, and at the start, where the spring's arm stands still, differences
come without cancellation. Points of the plane are complex numbers, in extended precision where the machine has it.

Run as a program it prints the state at 0.03 s for four quadratures.
"""

import numpy as np

# parameters of the IVP test set, in its names
M = ".04325 .00365 .02373 .00706 .07050 .00706 .05498"
J = "2.194e-6 4.410e-7 5.255e-6 5.667e-7 1.169e-5 5.667e-7 1.912e-5"
NAMES = "xa ya xb yb xc yc d da e ea rr ra ss sa sb sc sd ta tb u ua ub zf zt fa c0 l0 mom"
VALUES = (
    "-.06934 -.00227 -.03635 .03273 .014 .072 .028 .0115 .02 .01421 .007 .00092 .035 .01874 .01043 .018 .02 .02308 .00916 "
    ".04 .01228 .00449 .02 .04 .01421 4530 .07785 .033"
)


def _extended(text):
    return np.array([np.longdouble(number) for number in text.split()])


MASSES, INERTIAS = _extended(M), _extended(J)
P = dict(zip(NAMES.split(), _extended(VALUES), strict=True))
A, B, C = (P["x" + point] + 1j * P["y" + point] for point in "abc")


def configuration(x):
    """The angles (β, β+Θ, γ, Φ+δ, δ, Ω+ε, ε) of the seven bodies, and the joint where all chains meet."""
    start, turned = arm(x)
    joint = B - 1j * P["ss"] * _turn(start + turned)
    beta = np.angle(1j * P["ss"] * _turn(start) - B) + crank(x)
    delta, phi_delta = _dyad(joint - A, P["zt"], P["e"])
    omega_epsilon, epsilon = _dyad(joint - A, P["zf"], P["u"])
    angles = [beta, beta - x, start + turned, phi_delta, delta, omega_epsilon, epsilon]
    return np.stack(angles), joint


def arm(x):
    """γ₀ and γ − γ₀, the latter with full relative accuracy also where it is small."""
    start, now = np.arcsin(_sine_of_arm(0 * x)), np.arcsin(_sine_of_arm(x))
    rise = 2 * P["rr"] * P["d"] * np.sin(x / 2) ** 2 / (P["ss"] * abs(B))  # of the sine
    return np.angle(-B) - start, -2 * np.arcsin(rise / (2 * np.cos((start + now) / 2)))


def crank(x):
    """β − β₀, accurate also where it is small: the joint seen from the crank's pivot rotates, and so does the crank
    seen from the joint."""
    start, turned = arm(x)
    joint = B - 1j * P["ss"] * _turn(start)
    moved = 2 * P["ss"] * np.sin(turned / 2) * _turn(start + turned / 2)
    return np.angle(1 + moved / joint) + x - np.angle(1 - P["rr"] / P["d"] * _turn(x))


def _turn(angle):
    return np.cos(angle) + 1j * np.sin(angle)


def _sine_of_arm(x):
    """sin(γ − arg B), from |joint|² = (d − rr)² + 4 rr d sin²(x/2)."""
    square = (P["d"] - P["rr"]) ** 2 + 4 * P["rr"] * P["d"] * np.sin(x / 2) ** 2
    return (square - abs(B) ** 2 - P["ss"] ** 2) / (2 * P["ss"] * abs(B))


def _dyad(w, a, b):
    """(μ, ν) of w = a e^{iμ} − i b e^{iν}, cos(μ − ν) > 0."""
    between = np.arcsin((a * a + b * b - abs(w) ** 2) / (2 * a * b))
    nu = np.angle(w / (a * _turn(between) - 1j * b))
    return nu + between, nu


def turning(angles, joint):
    """The rates of the seven angles by x."""
    along = np.conj(_turn(angles[2]))
    rod = P["d"] * _turn(angles[1])
    beta = -(along * rod).real / (along * joint).real
    gamma = -(along * (beta * joint + rod)).imag / P["ss"]
    moving = P["ss"] * gamma * _turn(angles[2])
    delta, phi_delta = _dyad_rates(moving, P["zt"], P["e"], angles[4], angles[3])
    omega_epsilon, epsilon = _dyad_rates(moving, P["zf"], P["u"], angles[5], angles[6])
    return np.stack([beta, beta - 1, gamma, phi_delta, delta, omega_epsilon, epsilon])


def _dyad_rates(moving, a, b, mu, nu):
    cos = np.cos(mu - nu)
    return (moving * _turn(-nu)).imag / (a * cos), (moving * _turn(-mu)).real / (b * cos)


def inertia(angles, rates):
    """M(x) = Σ m |c'|² + J θ'², c the centres of mass."""
    beta, rod, gamma, phi_delta, delta, omega_epsilon, epsilon = 1j * rates * _turn(angles)
    centres = [
        P["ra"] * beta,
        P["rr"] * beta - P["da"] * rod,
        (P["sa"] + 1j * P["sb"]) * gamma,
        P["zt"] * delta - 1j * (P["e"] - P["ea"]) * phi_delta,
        (P["ta"] - 1j * P["tb"]) * delta,
        (P["zf"] - P["fa"]) * omega_epsilon - 1j * P["u"] * epsilon,
        (P["ua"] - 1j * P["ub"]) * epsilon,
    ]
    return np.tensordot(MASSES, abs(np.stack(centres)) ** 2, 1) + np.tensordot(
        INERTIAS, rates**2, 1
    )


def work(x):
    """W(x), the work done on the bodies since the start."""
    start, turned = arm(x)
    spring = P["sd"] - 1j * P["sc"]
    length, first = (abs(spring * _turn(gamma) + B - C) for gamma in (start + turned, start))
    moved = 2j * np.sin(turned / 2) * _turn(start + turned / 2)
    longer = 2 * (np.conj(B - C) * spring * moved).real / (length + first)
    return P["mom"] * crank(x) - P["c0"] * longer * (length + first - 2 * P["l0"]) / 2


def speed(x):
    """The rate ẋ."""
    angles, joint = configuration(x)
    return np.sqrt(2 * work(x) / inertia(angles, turning(angles, joint)))


def time(x, panels, order):
    """t(x) by Gauss and Legendre's rule on panels of z = √x, in which the integrand is smooth."""
    nodes, weights = _legendre(order)
    width = np.sqrt(x) / panels
    z = (np.arange(panels)[:, None] + (nodes + 1) / 2) * width
    return np.sum(weights * 2 * z / speed(z * z)) * width / 2


def _legendre(order):
    """Nodes and weights in the precision of the machine's longest float: Newton's steps from NumPy's."""
    x = np.polynomial.legendre.leggauss(order)[0].astype(np.longdouble)
    for _ in range(2):
        before, p = np.ones_like(x), x
        for n in range(2, order + 1):
            before, p = p, ((2 * n - 1) * x * p - (n - 1) * before) / n
        slope = order * (x * p - before) / (x * x - 1)
        x = x - p / slope
    return x, 2 / ((1 - x * x) * slope**2)


def state(t, panels=200, order=20, guess=15.7563710570):
    """The coordinates (β, Θ, γ, Φ, δ, Ω, ε) of the test set at time t, and their rates."""
    x = np.longdouble(guess)
    for _ in range(6):
        x = x + (np.longdouble(t) - time(x, panels, order)) * speed(x)
    angles, joint = configuration(x)
    return _relative(angles), _relative(turning(angles, joint)) * speed(x)


def _relative(angles):
    beta, rod, gamma, phi_delta, delta, omega_epsilon, epsilon = angles
    rest = [phi_delta - delta, delta, omega_epsilon - epsilon, epsilon]
    return np.stack([beta, rod - beta, gamma, *rest])


if __name__ == "__main__":
    for panels, order in [(100, 20), (200, 20), (200, 30), (1000, 20)]:
        q, rate = state("0.03", panels, order)
        print(f"{panels} panels of {order} nodes")
        for name, value in [("q", q), ("q'", rate)]:
            print(" ", name, *(np.format_float_positional(v, precision=18) for v in value))
