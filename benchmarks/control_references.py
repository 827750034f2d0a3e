"""Reference costs of the built-in control problems, computed without this package.

Every problem of docs/optimal_control_problems.md is written here once more in CasADi, with equations of motion derived by
hand or by d'Alembert's principle from the velocities of the bodies, transcribed by Gauss collocation of degree 4 on two
meshes, and solved by IPOPT. Nothing is imported from jaxhamel. The table has both costs; digits that agree are published.

    pip install casadi numpy
    python benchmarks/control_references.py [NAME ...]
"""

import sys
import time
from dataclasses import dataclass
from typing import Any

try:
    import casadi as ca
    import numpy as np
except ImportError:
    sys.exit(
        "control_references.py needs CasADi, which brings IPOPT along: pip install casadi numpy"
    )

DEGREE = 4


@dataclass
class Problem:
    """min ∫ cost dt, x(0) = start, end(x(T)) = 0, lower ≤ path(t, x, c) ≤ 0, ẋ = rate(x, c)."""

    start: list[float]
    controls: int
    duration: float
    rate: Any
    cost: Any
    end: Any
    path: Any = None  # (t, x, c) -> values that must not be positive
    guess: Any = lambda s: None  # t / T -> (x, c)
    intervals: tuple[int, int] = (20, 40)


def gauss(degree: int):
    """Nodes c, matrix A and weights b of Gauss collocation on [0, 1]."""
    nodes = 0.5 * (1.0 + np.polynomial.legendre.leggauss(degree)[0])
    powers = np.arange(degree)
    vandermonde = nodes[:, None] ** powers
    integrals = nodes[:, None] ** (powers + 1) / (powers + 1)
    A = integrals @ np.linalg.inv(vandermonde)
    b = (1.0 / (powers + 1)) @ np.linalg.inv(vandermonde)
    return nodes, A, b


@dataclass
class Built:
    """A problem on a mesh as a function of IPOPT; `arguments`: guess and bounds; `where`: the times of the states."""

    nlp: Any
    arguments: dict[str, Any]
    where: Any
    sizes: tuple[int, int]

    def solve(self):
        """(optimal cost, iterations, seconds, status, the solution (t, x, c) from which a finer mesh starts)."""
        began = time.perf_counter()
        out = self.nlp(**self.arguments)
        seconds = time.perf_counter() - began
        stats, w, (n, m) = self.nlp.stats(), np.array(out["x"]).ravel(), self.sizes
        at = self.where
        count, order = n * len(at), np.argsort(at, kind="stable")
        of_controls = at[len(at) - (len(w) - count) // m :]
        found = at[order], w[:count].reshape(-1, n)[order], of_controls, w[count:].reshape(-1, m)
        return float(out["f"]), stats["iter_count"], seconds, stats["return_status"], found


def built(p: Problem, intervals: int, near=None, tolerance=1e-11) -> Built:
    """The transcription of a problem; `near`: a solution from which it starts."""
    n, m, d = len(p.start), p.controls, DEGREE
    nodes, A, b = gauss(d)
    h = p.duration / intervals
    t0, x0 = ca.SX.sym("t"), ca.SX.sym("x", n)
    stages, values = ca.SX.sym("X", n, d), ca.SX.sym("C", m, d)
    rates = [p.rate(stages[:, j], values[:, j]) for j in range(d)]
    gaps = [stages[:, j] - x0 - h * sum(A[j, i] * rates[i] for i in range(d)) for j in range(d)]
    end = x0 + h * sum(b[j] * rates[j] for j in range(d))
    cost = h * sum(b[j] * p.cost(stages[:, j], values[:, j]) for j in range(d))
    limits = (
        [p.path(t0 + h * nodes[j], stages[:, j], values[:, j]) for j in range(d)] if p.path else []
    )
    step = ca.Function(
        "step",
        [t0, x0, stages, values],
        [ca.vertcat(*gaps), end, cost, ca.vertcat(ca.SX(0, 1), *limits)],
    )
    X, S = ca.MX.sym("X", n, intervals + 1), ca.MX.sym("S", n, d * intervals)
    C = ca.MX.sym("C", m, d * intervals)
    ts = ca.DM(np.arange(intervals) * h).T
    found = step.map(intervals)(ts, X[:, :-1], S, C)
    final = p.end(X[:, -1])
    equal = [X[:, 0] - ca.DM(p.start), ca.vec(found[0]), ca.vec(found[1] - X[:, 1:]), final]
    g = ca.vertcat(*equal, ca.vec(found[3]))
    n_equal = g.shape[0] - found[3].numel()
    w = ca.vertcat(ca.vec(X), ca.vec(S), ca.vec(C))
    where = np.concatenate(
        [np.arange(intervals + 1), np.ravel(np.arange(intervals)[:, None] + nodes)]
    )
    guess = p.guess if near is None else (lambda s: between(near, s))
    at = [guess(t / intervals) for t in where]
    w0 = np.concatenate(
        [np.ravel([x for x, _ in at]), np.ravel([c for _, c in at[intervals + 1 :]])]
    )
    options = {
        "print_time": 0,
        "ipopt": {"print_level": 0, "sb": "yes", "tol": tolerance, "max_iter": 500},
    }
    nlp = ca.nlpsol("nlp", "ipopt", {"x": w, "f": ca.sum2(found[2]), "g": g}, options)
    lower = np.concatenate([np.zeros(n_equal), np.full(found[3].numel(), -np.inf)])
    arguments = {"x0": w0, "lbg": lower, "ubg": np.zeros(g.shape[0])}
    return Built(nlp, arguments, where / intervals, (n, m))


def between(near, s: float):
    """(x, c) of a solution at t/T = s, by linear interpolation between its points."""
    times_x, xs, times_c, cs = near
    row = lambda times, values: [np.interp(s, times, column) for column in values.T]
    return row(times_x, xs), row(times_c, cs)


# --- rotations ------------------------------------------------------------------------------------


def times(a, b):
    """The product of quaternions, scalar first."""
    return ca.vertcat(
        a[0] * b[0] - ca.dot(a[1:], b[1:]), a[0] * b[1:] + b[0] * a[1:] + ca.cross(a[1:], b[1:])
    )


def matrix(q):
    """The rotation matrix of a unit quaternion, from body to space."""
    w, x, y, z = q[0], q[1], q[2], q[3]
    return ca.vertcat(
        ca.horzcat(1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        ca.horzcat(2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        ca.horzcat(2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )


def turned(q, target):
    """Three numbers that vanish where q = ± target."""
    conjugate = ca.vertcat(target[0], -ca.DM(target[1:]))
    return times(conjugate, q)[1:]


def body_rate(q, omega):
    return 0.5 * times(q, ca.vertcat(0, omega))


def about_z(angle):
    return [np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2)]


def dalembert(velocities, masses, forces, spins, q, q_dot, u, known=()):
    """M and k of M u̇ = k by d'Alembert's principle, Σ (∂v/∂u)ᵀ (F − m v̇) + Σ (∂ω/∂u)ᵀ (τ − L̇) = 0.

    `velocities`, `forces`: in space; `spins`: (ω in space, L in space, applied moment in space); `known`: pairs of
    further symbols with their rates.
    """
    symbols, rates = (
        ca.vertcat(q, *[s for s, _ in known]),
        ca.vertcat(q_dot, *[r for _, r in known]),
    )
    M, k = 0, 0
    for v, m, F in zip(velocities, masses, forces, strict=True):
        J = ca.jacobian(v, u)
        M += m * J.T @ J
        k += J.T @ (F - m * ca.jtimes(v, symbols, rates))
    for omega, L, moment in spins:
        J = ca.jacobian(omega, u)
        M += J.T @ ca.jacobian(L, u)
        k += J.T @ (moment - ca.jtimes(L, symbols, rates))
    return M, k


def solved(M, k):
    """M⁻¹ k of a symmetric positive M, by LDLᵀ."""
    n = M.shape[0]
    L, d = [[0] * n for _ in range(n)], [0] * n
    for j in range(n):
        d[j] = M[j, j] - sum(L[j][s] ** 2 * d[s] for s in range(j))
        for i in range(j + 1, n):
            L[i][j] = (M[i, j] - sum(L[i][s] * L[j][s] * d[s] for s in range(j))) / d[j]
    y = []
    for i in range(n):
        y.append(k[i] - sum(L[i][s] * y[s] for s in range(i)))
    x: list[Any] = [0] * n
    for i in reversed(range(n)):
        x[i] = y[i] / d[i] - sum(L[s][i] * x[s] for s in range(i + 1, n))
    return ca.vertcat(*x)


# --- the problems -----------------------------------------------------------------------------------


def disk(limit=None, distance=1.0, duration=5.0):
    g = 9.81

    def rate(x, c):
        phi, th, w, v = x[0], x[1], x[2], x[3]
        u = c[0]
        z1, z3 = 0.8 * ca.cos(th), 0.8 * ca.sin(th)
        p1, p3 = -z3, z1
        K = (g + w**2) * (z3 * ca.sin(phi) - z1 * ca.cos(phi))
        K += (ca.cos(phi) + z3) * (-2 * w * v * p3 - v**2 * z1 + u * p1)
        K -= (ca.sin(phi) + z1) * (2 * w * v * p1 - v**2 * z3 + u * p3)
        inertia = 5 + (ca.sin(phi) + z1) ** 2 + (ca.cos(phi) + z3) ** 2
        return ca.vertcat(w, v, K / inertia, u)

    a, b = [0, -np.pi / 2, 0, 0], [-distance, distance - np.pi / 2, 0, 0]
    line = lambda s: (np.array(a) + s * (np.array(b) - np.array(a)), [0.0])
    path = None if limit is None else lambda t, x, c: -x[0] - limit(t)
    end = lambda x: x - ca.DM(b)
    return Problem(a, 1, duration, rate, lambda x, c: c[0] ** 2, end, path, line)


def disk_obstacle():
    """The same disk behind a body that moves ahead of it: z ≤ 0.1 + 0.2 t."""
    found = disk(lambda t: 0.1 + 0.2 * t)
    found.intervals = (50, 100)
    return found


def plate_ball(angle=np.pi / 2):
    def rate(x, c):
        omega = ca.vertcat(-c[1], c[0], 0)
        return ca.vertcat(0.5 * times(ca.vertcat(0, omega), x[:4]), c)

    def guess(s):
        size, turn = np.sqrt(angle / np.pi), 2 * np.pi * s
        u = 2 * np.pi * size * np.array([-np.sin(turn), np.cos(turn)])
        return [*about_z(s * angle), size * (np.cos(turn) - 1), size * np.sin(turn)], u

    target = about_z(angle)
    end = lambda x: ca.vertcat(turned(x[:4], target), x[4:])
    return Problem([1, 0, 0, 0, 0, 0], 2, 1.0, rate, lambda x, c: ca.dot(c, c), end, guess=guess)


def unicycle(shift=1.0, duration=1.0):
    def rate(x, c):
        return ca.vertcat(c[1], c[0] * ca.cos(x[0]), c[0] * ca.sin(x[0]))

    guess = lambda s: (
        [np.sin(np.pi * s), 0, shift * s],
        [shift / duration, np.pi / duration * np.cos(np.pi * s)],
    )
    return Problem(
        [0, 0, 0],
        2,
        duration,
        rate,
        lambda x, c: ca.dot(c, c),
        lambda x: x - ca.DM([0, 0, shift]),
        guess=guess,
    )


def sleigh(a=0.5):
    def rate(x, c):
        phi, v, w = x[0], x[3], x[4]
        return ca.vertcat(
            w,
            v * ca.cos(phi),
            v * ca.sin(phi),
            a * w**2 + c[0],
            (-a * v * w + c[1]) / (1 + a * a),
        )

    guess = lambda s: ([np.sin(np.pi * s), 0, s, 0.2, 0.0], [0.0, 0.0])
    return Problem(
        [0, 0, 0, 0, 0],
        2,
        5.0,
        rate,
        lambda x, c: ca.dot(c, c),
        lambda x: x - ca.DM([0, 0, 1, 0, 0]),
        guess=guess,
    )


def cart_pole(pole_mass=0.3, duration=2.0):
    """Kelly 2017, section 6: q = (cart, pole from hanging)."""
    m1, m2, length, g = 1.0, pole_mass, 0.5, 9.81

    def rate(x, c):
        s, co, w = ca.sin(x[1]), ca.cos(x[1]), x[3]
        bottom = m1 + m2 * s**2
        cart = (length * m2 * s * w**2 + c[0] + m2 * g * co * s) / bottom
        pole = -(length * m2 * co * s * w**2 + c[0] * co + (m1 + m2) * g * s) / (length * bottom)
        return ca.vertcat(x[2], x[3], cart, pole)

    end = lambda x: x - ca.DM([1, np.pi, 0, 0])
    limits = lambda t, x, c: ca.vertcat(c[0] - 20, -c[0] - 20, x[0] - 2, -x[0] - 2)
    guess = lambda s: ([s, np.pi * s, 0, 0], [0.0])
    cost = lambda x, c: c[0] ** 2
    return Problem([0, 0, 0, 0], 1, duration, rate, cost, end, limits, guess, intervals=(40, 80))


def snakeboard():
    """Coupled trucks: x = (angle, x, y, ψ, φ, σ, ψ̇, φ̇), controls torques on ψ and φ, parked sideways."""
    m, J, Jr, Jw, ell = 3.0, 0.11, 0.05, 0.013, 0.3

    def rate(x, c):
        psi_dot, phi, sigma, phi_dot = x[6], x[4], x[5], x[7]
        turn, ahead = -ca.sin(phi) * sigma / ell, ca.cos(phi) * sigma
        # d'Alembert along σ: m v ∂v + J ω ∂ω + Jr (ω+ψ̇) ∂ω + 2 Jw ω ∂ω, the trucks' spins ±φ̇ cancel
        M = m * ca.cos(phi) ** 2 + (J + Jr + 2 * Jw) / ell**2 * ca.sin(phi) ** 2
        half = (-m + (J + Jr + 2 * Jw) / ell**2) * ca.sin(phi) * ca.cos(phi) * phi_dot * sigma
        # Jr (ω̇ + ψ̈) = τ_ψ and 2 Jw φ̈ = τ_φ
        K = ca.sin(phi) / ell
        # M σ̇ + half − Jr K ψ̈ = 0 ,  Jr (−K σ̇ − K̇ σ + ψ̈) = τ_ψ
        K_dot = ca.cos(phi) / ell * phi_dot
        sigma_dot = (-half + K * (c[0] + Jr * K_dot * sigma)) / (M - Jr * K**2)
        psi_ddot = c[0] / Jr + K * sigma_dot + K_dot * sigma
        pose = ca.vertcat(turn, ahead * ca.cos(x[0]), ahead * ca.sin(x[0]))
        return ca.vertcat(pose, psi_dot, phi_dot, sigma_dot, psi_ddot, c[1] / (2 * Jw))

    target = [0, 0, 0.3, 0, 0, 0, 0, 0]

    def guess(s):
        angles = [0.75 * np.sin(4 * np.pi * s), 0.3 * np.sin(6 * np.pi * s)]
        return [np.sin(np.pi * s), 0.0, 0.3 * s, *angles, 0, 0, 0], [0.0, 0.0]

    cost = lambda x, c: ca.dot(c, c)
    return Problem(
        [0.0] * 8, 2, 5.0, rate, cost, lambda x: x - ca.DM(target), guess=guess, intervals=(40, 80)
    )


def satellite(inertia=(1.0, 1.2, 1.5), wheel=0.1, angle=np.pi / 2, duration=10.0):
    def rate(x, c):
        omega = ca.vertcat(-wheel / inertia[0] * c[0], -wheel / inertia[1] * c[1], 0)
        return body_rate(x, omega)

    def guess(s):
        turn = 2 * np.pi * s
        size = np.sqrt(angle * (4 * np.pi - angle)) / duration
        return about_z(s * angle), [
            -size * inertia[0] / wheel * np.cos(turn),
            -size * inertia[1] / wheel * np.sin(turn),
        ]

    target = about_z(angle)
    return Problem(
        [1, 0, 0, 0],
        2,
        duration,
        rate,
        lambda x, c: ca.dot(c, c),
        lambda x: turned(x, target),
        guess=guess,
    )


def falling_cat(bend=0.8, angle=np.pi):
    """Two equal halves, R = M exp(±b̂/2) with b ⟂ e1, joined at a point; momentum zero; controls ḃ."""
    m, ell, axial, across = 1.5, 0.12, 0.0027, 0.00855
    I = ca.diag(ca.DM([axial, across, across]))
    b, db = ca.SX.sym("b", 2), ca.SX.sym("db", 2)
    e1 = ca.DM([1, 0, 0])

    def half(sign):
        size = ca.sqrt(ca.dot(b, b))
        E = matrix(ca.vertcat(ca.cos(size / 4), 0, sign * b * ca.sin(size / 4) / size))
        spin = ca.reshape(ca.jtimes(E, b, db), 3, 3) @ E.T
        return E, ca.vertcat(spin[2, 1], spin[0, 2], spin[1, 0])

    (F, wf), (B, wb) = half(1), half(-1)
    reach = ell * (F + B) @ e1
    moving = ca.jtimes(reach, b, db)
    skew = ca.vertcat(
        ca.horzcat(0, -reach[2], reach[1]),
        ca.horzcat(reach[2], 0, -reach[0]),
        ca.horzcat(-reach[1], reach[0], 0),
    )
    locked = F @ I @ F.T + B @ I @ B.T - 0.5 * m * skew @ skew
    own = F @ I @ F.T @ wf + B @ I @ B.T @ wb + 0.5 * m * ca.cross(reach, moving)
    turning = ca.Function("turning", [b, db], [-solved(locked, own)])

    def rate(x, c):
        return ca.vertcat(body_rate(x[:4], turning(x[4:], c)), c)

    target = [np.cos(angle / 2), np.sin(angle / 2), 0, 0]

    def guess(s):
        turn = 2 * np.pi * s
        shape = [bend * np.cos(turn), -bend * np.sin(turn)]
        rates = [-2 * np.pi * bend * np.sin(turn), -2 * np.pi * bend * np.cos(turn)]
        return [np.cos(s * angle / 2), np.sin(s * angle / 2), 0, 0, *shape], rates

    end = lambda x: ca.vertcat(turned(x[:4], target), x[4:] - ca.DM([bend, 0]))
    return Problem(
        [1, 0, 0, 0, bend, 0],
        2,
        1.0,
        rate,
        lambda x, c: ca.dot(c, c),
        end,
        guess=guess,
        intervals=(40, 80),
    )


REST = np.array([0.0, -np.pi / 2, -np.pi / 2])


class Ball:
    """The ball of Putkaradze and Rogers with three masses on circular rails; x = (quaternion, place, Ω, θ, θ̇), c = θ̈."""

    def __init__(self, radius, rail, g=9.81, shell=1.0, mass=0.5):
        self.radius, self.rail, self.g, self.mass = radius, rail, g, mass
        q, omega = ca.SX.sym("q", 4), ca.SX.sym("omega", 3)
        th, dth, c = ca.SX.sym("th", 3), ca.SX.sym("dth", 3), ca.SX.sym("c", 3)
        R, up = matrix(q), ca.DM([0, 0, 1])
        cos, sin = ca.cos(th), ca.sin(th)
        chi = [
            rail * ca.vertcat(cos[0], sin[0], 0),
            rail * ca.vertcat(0, cos[1], sin[1]),
            rail * ca.vertcat(sin[2], 0, cos[2]),
        ]
        arms = [ca.SX(3, 1), *chi]
        moving = [ca.SX(3, 1), *[ca.jtimes(x, th, dth) for x in chi]]
        masses = [shell, mass, mass, mass]
        v = [
            ca.cross(R @ omega, R @ x + radius * up) + R @ dx
            for x, dx in zip(arms, moving, strict=True)
        ]
        weights = [-m * g * up for m in masses]
        spin = 2 / 3 * shell * radius**2 * R @ omega
        q_dot = body_rate(q, omega)
        known = ((th, dth), (dth, c))
        M, k = dalembert(
            v, masses, weights, [(R @ omega, spin, ca.SX(3, 1))], q, q_dot, omega, known
        )
        omega_dot = solved(M, k)
        symbols, rates = ca.vertcat(q, omega, th, dth), ca.vertcat(q_dot, omega_dot, dth, c)
        force = sum(
            m * (ca.jtimes(x, symbols, rates) + g * up) for m, x in zip(masses, v, strict=True)
        )
        offset = (R @ (chi[0] + chi[1] + chi[2]))[:2] / rail
        place_dot = radius * ca.vertcat((R @ omega)[1], -(R @ omega)[0])
        self.of = ca.Function(
            "ball", [q, omega, th, dth, c], [ca.vertcat(q_dot, place_dot, omega_dot, dth, c)]
        )
        self.contact = ca.Function("contact", [q, omega, th, dth, c], [force])
        self.offset = ca.Function("offset", [q, th], [offset])

    def parts(self, x, c):
        return x[:4], x[6:9], x[9:12], x[12:15], c

    def rate(self, x, c):
        return self.of(*self.parts(x, c))

    def end(self, target):
        def end(x):
            balance = self.offset(x[:4], x[9:12])
            return ca.vertcat(x[4:6] - ca.DM(target), x[6:9], x[12:15], balance)

        return end

    def guess(self, target, theta, bow=0.0, duration=4.0):
        """A guess that rolls along a bowed line, with the masses at theta(s)."""
        length = np.hypot(*target)
        along = np.array(target) / length
        left = np.array([-along[1], along[0]])

        def guess(s):
            way, h = 3 * s**2 - 2 * s**3, 1e-3
            q = self.turned(target, s)
            place = way * np.array(target) + bow * np.sin(np.pi * way) * left
            omega = np.array([*left, 0.0]) * length / self.radius * 6 * s * (1 - s) / duration
            a, b, c = theta(max(s - h, 0.0)), theta(s), theta(min(s + h, 1.0))
            rate = (c - a) / (min(s + h, 1.0) - max(s - h, 0.0)) / duration
            return [*q, *place, *omega, *b, *rate], np.zeros(3)

        return guess

    def turned(self, target, s):
        """The orientation after rolling straight over the share 3 s² − 2 s³ of the way."""
        length = np.hypot(*target)
        angle = (3 * s**2 - 2 * s**3) * length / self.radius
        axis = np.array([-target[1], target[0], 0.0]) / length
        return [np.cos(angle / 2), *(np.sin(angle / 2) * axis)]

    def in_balance(self, target):
        """The function s ↦ θ that keeps the masses' centre below the ball's along the straight way, by Newton's method."""
        q, th = ca.SX.sym("q", 4), ca.SX.sym("th", 3)
        offset = self.offset(q, th)
        both = ca.Function("both", [q, th], [offset, ca.jacobian(offset, th)])
        shares, theta, rows = np.linspace(0, 1, 201), REST.copy(), []
        for s in shares:
            for _ in range(6):
                r, J = (np.array(x) for x in both(self.turned(target, s), theta))
                theta = theta - (J.T @ np.linalg.solve(J @ J.T + 1e-9 * np.eye(2), r)).ravel()
            rows.append(theta)
        table = np.array(rows)
        return lambda s: np.array([np.interp(s, shares, column) for column in table.T])


def ball_to_point(mass=0.5, x=0.5):
    ball, target = Ball(0.1, 0.07, mass=mass), (x, 0.25)
    start = [1, 0, 0, 0, 0, 0, 0, 0, 0, *REST, 0, 0, 0]
    cost = lambda x, c: ca.dot(c, c)
    return Problem(
        start,
        3,
        4.0,
        ball.rate,
        cost,
        ball.end(target),
        guess=ball.guess(target, ball.in_balance(target)),
    )


def ball_obstacle():
    ball, target = Ball(0.15, 0.1), (1.0, 0.0)
    start = [1, 0, 0, 0, 0, 0, 0, 0, 0, *REST, 0, 0, 0]

    def path(t, x, c):
        away = (0.1 + 0.15) ** 2 - (x[4] - 0.5) ** 2 - x[5] ** 2
        force = ball.contact(*ball.parts(x, c))
        slip = force[0] ** 2 + force[1] ** 2 - (0.3 * force[2]) ** 2
        rails = [s * (x[9 + i] - REST[i]) - 2.0 for i in (0, 1) for s in (1, -1)]
        return ca.vertcat(away, slip, -force[2], *rails)

    cost = lambda x, c: ca.dot(c, c)

    def theta(s):
        aside, way = min(2 * s, 1.0), 3 * s**2 - 2 * s**3
        turn = 0.5 * np.pi * (3 * aside**2 - 2 * aside**3)
        return REST + np.array([-turn, turn, -way / 0.15 - turn])

    found = Problem(
        start, 3, 4.0, ball.rate, cost, ball.end(target), path, ball.guess(target, theta, 0.3)
    )
    found.intervals = (20, 40)
    return found


def pendulum_ball():
    """Two pendula about e1 and e2 of the ball; x = (quaternion, place, angles, Ω, rates), c = torques."""
    radius, shell, inertia, mass, own, arm, g = 0.2, 1.0, 0.03, 0.5, 0.001, 0.1, 9.81
    q, u, th, c = ca.SX.sym("q", 4), ca.SX.sym("u", 5), ca.SX.sym("th", 2), ca.SX.sym("c", 2)
    R, up = matrix(q), ca.DM([0, 0, 1])
    omega, dth = u[:3], u[3:]
    cos, sin = ca.cos(th), ca.sin(th)
    # turned right-handed about e1 and e2 from (0, 0, −arm)
    chi = [arm * ca.vertcat(0, sin[0], -cos[0]), arm * ca.vertcat(-sin[1], 0, -cos[1])]
    axes = [ca.DM([1, 0, 0]), ca.DM([0, 1, 0])]
    v = [ca.cross(R @ omega, radius * up)]
    for x in chi:
        v.append(ca.cross(R @ omega, R @ x + radius * up) + R @ ca.jtimes(x, th, dth))
    masses = [shell, mass, mass]
    spins = [(R @ omega, inertia * R @ omega, -R @ (axes[0] * c[0] + axes[1] * c[1]))]
    for i, axis in enumerate(axes):
        w = R @ (omega + axis * dth[i])
        spins.append((w, own * w, R @ axis * c[i]))
    state, state_dot = ca.vertcat(q, th), ca.vertcat(body_rate(q, omega), dth)
    M, k = dalembert(v, masses, [-m * g * up for m in masses], spins, state, state_dot, u)
    place_dot = radius * ca.vertcat((R @ omega)[1], -(R @ omega)[0])
    of = ca.Function(
        "of", [q, th, u, c], [ca.vertcat(body_rate(q, omega), place_dot, dth, solved(M, k))]
    )
    offset = ca.Function("offset", [q, th], [(R @ (chi[0] + chi[1]))[:2] / arm])
    target = (0.6, 0.3)

    def guess(s):
        way = 3 * s**2 - 2 * s**3
        length = np.hypot(*target)
        angle, axis = way * length / radius, np.array([-target[1], target[0], 0]) / length
        turn = [np.cos(angle / 2), *(np.sin(angle / 2) * axis)]
        spin = (6 * s - 6 * s**2) / 4.0 * length / radius * axis
        return [*turn, *(way * np.array(target)), *(-angle * axis[:2]), *spin, *(-spin[:2])], [
            0.0,
            0.0,
        ]

    rate = lambda x, c: of(x[:4], x[6:8], x[8:], c)
    end = lambda x: ca.vertcat(x[4:6] - ca.DM(target), x[8:], offset(x[:4], x[6:8]))
    return Problem(
        [1, *[0] * 12],
        2,
        4.0,
        rate,
        lambda x, c: ca.dot(c, c),
        end,
        guess=guess,
        intervals=(40, 80),
    )


PROBLEMS = {
    "falling-cat": falling_cat,
    "ball-to-point": ball_to_point,
    "ball-obstacle": ball_obstacle,
    "pendulum-ball-to-point": pendulum_ball,
    "disk-to-point": disk,
    "disk-obstacle": disk_obstacle,
    "plate-ball": plate_ball,
    "plate-ball, angle π": lambda: plate_ball(np.pi),
    "unicycle-sideways": unicycle,
    "sleigh-park": sleigh,
    "sleigh-park, a = 0": lambda: sleigh(0.0),
    "cart-pole": cart_pole,
    "snakeboard-park": snakeboard,
    "satellite-turn": satellite,
    "satellite-turn, equal moments": lambda: satellite((1.2, 1.2, 1.5)),
}


def main(names: list[str]) -> None:
    for name, make in PROBLEMS.items():
        if names and name not in names:
            continue
        problem = make()
        rows = [built(problem, problem.intervals[0]).solve()]
        rows.append(built(problem, problem.intervals[1], rows[0][-1]).solve())
        words = "  ".join(
            f"N={n}: {r[0]:.13g} ({r[1]} it, {1e3 * r[2]:.0f} ms, {r[3]})"
            for n, r in zip(problem.intervals, rows, strict=True)
        )
        print(f"{name:32s} {words}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
