"""Kane's equations of points and one rotating body, formed by SymPy from the velocities' coefficients.

Every velocity is linear in the speeds, such as ṙ = Σ_r J_r(t) w_r + J_0(t). To `KanesMethod` the coefficients are functions
of time, so that its equations stay short; their values and rates are SymPy's derivatives of the formulas r(x, t). With the
formulas themselves in their places the equations of a system with three coordinates did not fit into an hour: SymPy's
replacements visit an expression as a tree, in which every shared part stands as often as it is used.
"""

import sympy as sm  # pyright: ignore[reportMissingImports]
from sympy.physics import mechanics as me  # pyright: ignore[reportMissingImports]

T = me.dynamicsymbols._t


class Coefficients:
    """Functions of time that stand for formulas in (x, ẋ, t): `functions[i]` stands for `formulas[i]`."""

    def __init__(self, rates, speeds):
        self.rates, self.speeds = rates, speeds
        self.functions, self.formulas = [], []

    def given(self, formula):
        """A new function of time that stands for a formula."""
        self.functions.append(me.dynamicsymbols(f"c{len(self.functions)}"))
        self.formulas.append(formula)
        return self.functions[-1]

    def linear(self, formula):
        """The form Σ_r c_r(t) w_r + c_0(t) of a formula that is linear in the rates."""
        at_rest = formula.xreplace(dict.fromkeys(self.rates, sm.S.Zero))
        parts = zip(self.rates, self.speeds, strict=True)
        terms = [self.given(formula.diff(rate)) * speed for rate, speed in parts]
        return sum(terms, self.given(at_rest))

    def values(self):
        """The formulas of the coefficients and of their rates."""
        return sm.Matrix(self.formulas), sm.Matrix([formula.diff(T) for formula in self.formulas])


def by_kane(x, points, body, constraints):
    """(matrix, right-hand side) of ẍ, the last m of them dependent, as a function; formulas of its first two arguments.

    **Arguments:** `points`: (mass, velocity, force) of each; `body`: (inertia, angular velocity, torque), in its own axes;
    `constraints`: m formulas that vanish. The function is of (coefficients, their rates, ẋ, masses and inertia).
    """
    n, m = len(x), len(constraints)
    speeds = me.dynamicsymbols(f"w:{n}")
    rates = [x_i.diff(T) for x_i in x]
    of = Coefficients(rates, speeds)
    space = me.ReferenceFrame("N")
    bodies, loads, constants = [], [], []
    for i, (mass, velocity, force) in enumerate(points):
        point = me.Point(f"P{i}")
        point.set_vel(space, vector(space, map(of.linear, velocity)))
        bodies.append(me.Particle(f"B{i}", point, mass))
        loads.append((point, vector(space, map(of.given, force))))
        constants.append(mass)
    inertia, omega, torque = body
    rigid, turned = rigid_body(space, inertia, [of.linear(part) for part in omega])
    bodies.append(rigid)
    loads.append((turned, vector(turned, map(of.given, torque))))
    dependent = {
        "u_dependent": speeds[n - m :],
        "velocity_constraints": [of.linear(row) for row in constraints],
    }
    kinematic = [rate - speed for rate, speed in zip(rates, speeds, strict=True)]
    method = me.KanesMethod(space, list(x), speeds[: n - m], kinematic, **(dependent if m else {}))
    method.kanes_equations(bodies, loads)
    equations = method.mass_matrix_full[n:, n:], method.forcing_full[n:, :]
    constants += [*inertia.ravel()]
    return as_function(equations, of, speeds, constants), of.values()


NO_MASS = sm.S.One  # the body's mass has no effect, since its centre does not move


def vector(frame, parts):
    """A vector with three components along the axes of a frame."""
    axes = frame.x, frame.y, frame.z
    return sum((part * axis for part, axis in zip(parts, axes, strict=True)), me.Vector(0))


def rigid_body(space, inertia, omega):
    """A body whose centre is at rest, with its angular velocity in its own axes; its orientation is not needed."""
    turned, centre = me.ReferenceFrame("B"), me.Point("C")
    turned.set_ang_vel(space, vector(turned, omega))
    centre.set_vel(space, 0)
    diagonal, rest = [inertia[i, i] for i in range(3)], [inertia[i, i - 2] for i in range(3)]
    tensor = me.inertia(turned, *diagonal, *rest)
    return me.RigidBody("R", centre, turned, NO_MASS, (tensor, centre)), turned


def as_function(equations, of, speeds, constants):
    """The equations as a NumPy function of (coefficients, rates of coefficients, speeds, constants)."""
    plain = {
        function: sm.Symbol(f"{kind}{i}")
        for kind, functions in (
            ("rate", [c.diff(T) for c in of.functions]),
            ("value", of.functions),
            ("speed", speeds),
        )
        for i, function in enumerate(functions)
    }
    values = [plain[c] for c in of.functions]
    rates = [plain[c.diff(T)] for c in of.functions]
    found = [equation.xreplace(plain) for equation in equations]
    arguments = [values, rates, [plain[w] for w in speeds], constants]
    function = sm.lambdify(arguments, found, "numpy", cse=True)
    return function
