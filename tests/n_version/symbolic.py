"""The same random systems by SymPy: Lagrange's equations with multipliers in coordinates, Kane's of points and bodies.

    pip install sympy
    python -m tests.n_version.symbolic --seed 1 --each 50 --out symbolic.jsonl

Coefficients, coordinates and rates are symbols, so one derivation serves all systems of a shape. What is shared with the
package are formulas of the fields and of the coordinates of each space, written again here in SymPy; differentiation, the
equations and their solution are SymPy's and NumPy's.
"""

import argparse
import json
import time
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import sympy as sm  # noqa: E402  # pyright: ignore[reportMissingImports]
from sympy.physics import mechanics as me  # noqa: E402  # pyright: ignore[reportMissingImports]

from jaxhamel.geometry import SE2, SO2, SO3, Euclidean, Helical, Product  # noqa: E402
from tests.n_version.kane import T, by_kane  # noqa: E402
from tests.n_version.kinds import HIDDEN, Kind, draw  # noqa: E402
from tests.n_version.versions import EPS, accelerations, control_of, difference  # noqa: E402

CASES = {
    "Lagrange, R2": (Kind(frame="random"), Euclidean(2), 1),
    "Lagrange, R3": (Kind(frame="random", prescribed=True), Euclidean(3), 2),
    "Lagrange, SO3": (Kind(frame="random", quartic=False), SO3(), 1),
    "Lagrange, SE2": (Kind(frame="inverted"), SE2(), 0),
    "Lagrange, R x SO2 x helical": (Kind(), Product(Euclidean(1), SO2(), Helical(0.3)), 1),
    "Kane, R2": (Kind(bodies=True), Euclidean(2), 0),
    "Kane, R3": (Kind(bodies=True), Euclidean(3), 1),
    "Kane, SE2": (Kind(bodies=True, drift=False), SE2(), 1),
}


def product(a, b):
    """The product of two quaternions, scalar first."""
    (s, *x), (r, *y) = a, b
    x, y = sm.Matrix(x), sm.Matrix(y)
    return [s * r - x.dot(y), *(s * y + r * x + x.cross(y))]


def chart(space, x):
    """The stored numbers of q and v, as functions of the coordinates x(t) of the space's factors."""
    rates = [x_i.diff(T) for x_i in x]
    if isinstance(space, Product):
        stored, v = [], []
        for factor in space.spaces:
            first, x = x[: factor.dim], x[factor.dim :]
            parts = chart(factor, first)
            stored, v = stored + parts[0], v + parts[1]
        return stored, v
    if isinstance(space, SO3):  # rotated about e1, e2, e3 of the body, one after the other
        q = [sm.S.One, 0, 0, 0]
        for axis, angle in enumerate(x):
            turn = [sm.cos(angle / 2), 0, 0, 0]
            turn[axis + 1] = sm.sin(angle / 2)
            q = product(q, turn)
        back = [q[0], *(-part for part in q[1:])]
        return q, [2 * part for part in product(back, [part.diff(T) for part in q])[1:]]
    if isinstance(space, SE2):
        c, s = sm.cos(x[0]), sm.sin(x[0])
        return list(x), [rates[0], c * rates[1] + s * rates[2], c * rates[2] - s * rates[1]]
    return list(x), rates  # R^n, an angle, an angle with a pitch


class Symbols:
    """The coefficients as symbols, name → array, and the fields that they define."""

    def __init__(self, weights, stored):
        self.features = sm.Matrix([*stored, sm.sin(T), sm.cos(2 * T)])
        self.of = {
            name: {key: self._symbols(f"{name}_{key}", value) for key, value in parts.items()}
            for name, parts in weights.items()
        }

    @staticmethod
    def _symbols(name, value):
        array = np.empty(value.shape, object)
        for place in np.ndindex(*value.shape):
            array[place] = sm.Symbol("_".join([name, *map(str, place)]))
        return array

    def field(self, name):
        w = self.of[name]
        waves = [
            sm.sin((sm.Matrix([w["in"][i]]) * self.features)[0] + w["shift"][i])
            for i in range(HIDDEN)
        ]
        return w["out"] @ np.array(waves, object)

    def flat(self):
        return [s for parts in self.of.values() for array in parts.values() for s in array.ravel()]


CONTROL = sm.sin(sm.Rational(13, 10) * T), sm.cos(T) / 2  # `kinds.wave`
TENTH = sm.Rational(1, 10)


def quasi_velocities(kind, symbols, v):
    """The quasi-velocities A v + a."""
    n = len(v)
    frame = sm.eye(n)
    field = sm.Matrix(symbols.field("frame"))
    if kind.frame == "random":
        frame = frame + 3 * TENTH * field
    elif kind.frame == "inverted":
        half = n // 2
        frame[:half, half:] = field[:half, half:]
    drift = sm.Matrix(symbols.field("drift")) if kind.drift else sm.zeros(n, 1)
    return frame * v + drift


def lagrangian(kind, symbols, v):
    stretched = v + 3 * TENTH * sm.Matrix(symbols.field("mass")) * v
    dot = lambda name: sm.Matrix(symbols.field(name)).dot(v)
    potential = symbols.field("potential")[0]
    result = stretched.dot(stretched) / 2 + dot("gyro") - potential
    if kind.quartic:
        result += dot("quartic") ** 4 / 20
    if kind.prescribed:
        result += dot("driven") * (CONTROL[0] + CONTROL[1].diff(T)) + CONTROL[1] * potential
    return result


def force(symbols, v):
    own, turning = sm.Matrix(symbols.field("force")), sm.Matrix(symbols.field("turning"))
    pushed = own * CONTROL[0] + sm.Matrix(symbols.field("driven")) * CONTROL[1]
    return own - TENTH * v + (turning - turning.T) * v + pushed


def by_lagrange(kind, symbols, x, v, constraints):
    """(matrix, right-hand side) of the accelerations and multipliers, in the order ẍ, λ."""
    rates = sm.Matrix([x_i.diff(T) for x_i in x])
    reference = me.ReferenceFrame("N")
    generalised = v.jacobian(rates).T * force(symbols, v)
    loads = []
    for i, rate in enumerate(
        rates
    ):  # a point that moves with one coordinate has its generalised force
        point = me.Point(f"P{i}")
        point.set_vel(reference, rate * reference.x)
        loads.append((point, generalised[i] * reference.x))
    method = me.LagrangesMethod(
        lagrangian(kind, symbols, v),
        list(x),
        forcelist=loads if kind.force else None,
        frame=reference,
        nonhol_coneqs=list(constraints) or None,
    )
    method.form_lagranges_equations()
    n = len(x)
    return method.mass_matrix_full[n:, n:], method.forcing_full[n:, :]


def points_and_body(symbols, x):
    """The arguments of `kane.by_kane`: (mass, velocity, force) of the points, (inertia, angular velocity, torque) of
    the body."""
    p, push = symbols.of["points"], CONTROL[0] + 3 * TENTH * CONTROL[1]
    flat = sm.Matrix(p["out"]) * symbols.features + sm.Matrix(symbols.field("places"))
    points = []
    for i, mass in enumerate(p["mass"]):
        place = flat[3 * i : 3 * i + 3]
        velocity = [part.diff(T) for part in place]
        force = [
            -sm.cos(r) - r / 5 - TENTH * r_dot + push * share
            for r, r_dot, share in zip(place, velocity, p["push"][i], strict=True)
        ]
        points.append((mass, velocity, force))
    turn = sm.Matrix(symbols.field("turned"))
    angle = sm.sqrt(turn.dot(turn))
    quaternion = [sm.cos(angle / 2), *(sm.sin(angle / 2) / angle * turn)]
    back = [quaternion[0], *(-part for part in quaternion[1:])]
    omega = [2 * part for part in product(back, [part.diff(T) for part in quaternion])[1:]]
    return points, (p["inertia"], omega, [push - part / 5 for part in omega])


def derived(kind, space, m, weights):
    """The equations of a shape as a function of (coefficients, t, x, ẋ).

    It returns the stored numbers of q, u, the matrix and right-hand side of ẍ, ∂(A v + a)/∂ẋ and its rate at ẍ = 0.
    """
    n = space.dim
    x = me.dynamicsymbols(f"x:{n}")
    rates = [x_i.diff(T) for x_i in x]
    stored, v = chart(space, x)
    symbols, v = Symbols(weights, stored), sm.Matrix(v)
    u = quasi_velocities(kind, symbols, v)
    kane = None
    if kind.bodies:
        kane, equations = by_kane(x, *points_and_body(symbols, x), u[:m])
    else:
        equations = by_lagrange(kind, symbols, x, v, u[:m])
    rows = u.jacobian(rates)
    turning = no_acceleration(u.diff(T), x)
    results = [
        sm.Matrix(stored),
        u,
        *(no_acceleration(part, x) if kind.bodies else part for part in equations),
        rows,
        turning,
    ]
    found = as_function(results, x, symbols.flat())
    if not kind.bodies:
        return found
    constants = [symbols.of["points"][name] for name in ("mass", "inertia")]
    return with_kane(found, kane, places(symbols.flat(), constants), n)


def no_acceleration(expr, x):
    return expr.xreplace({x_i.diff(T, 2): sm.S.Zero for x_i in x})


def places(flat, arrays):
    """The indices of each array's symbols in the list of all symbols."""
    index = {symbol: i for i, symbol in enumerate(flat)}
    return [index[symbol] for array in arrays for symbol in array.ravel()]


def with_kane(found, kane, constants, n):
    """`found`, with the values and rates of the coefficients replaced by Kane's equations."""

    def function(*numbers):
        stored, u, values, rates, rows, turning = found(*numbers)
        given = [numbers[i] for i in constants]
        matrix, right = kane(values[:, 0], rates[:, 0], numbers[-n:], given)
        return stored, u, matrix, right, rows, turning

    return function


def as_function(results, x, coefficients):
    """Expressions as a NumPy function of (coefficients, t, x, ẋ)."""
    n = len(x)
    plain_x, plain_rates = sm.symbols(f"y:{n}"), sm.symbols(f"z:{n}")
    rates = dict(zip([x_i.diff(T) for x_i in x], plain_rates, strict=True))
    time_symbol = sm.Symbol("time")
    plain = [
        expr.xreplace(rates).xreplace(dict(zip(x, plain_x, strict=True))).xreplace({T: time_symbol})
        for expr in results
    ]
    arguments = [*coefficients, time_symbol, *plain_x, *plain_rates]
    return sm.lambdify(arguments, plain, "numpy", cse=True)


def compared(name, seed, each):
    """A line of the report."""
    kind, space, m = CASES[name]
    n = space.dim
    started = time.process_time()
    (system, t, q, u) = draw(seed, kind, space, m, each)
    weights = jax.tree.map(np.asarray, system.weights)
    one = jax.tree.map(lambda w: w[0], weights)
    function = derived(kind, space, m, one)
    generator = np.random.default_rng(seed)
    stored, u, wanted = [], [], []
    for i in range(each):
        flat = [w[i].ravel() for parts in weights.values() for w in parts.values()]
        numbers = [*np.concatenate(flat), float(t[i])]
        x, rates = generator.normal(size=n), generator.normal(size=n)
        _, bias, _, _, rows, _ = function(*numbers, *x, *rates)
        onto = (
            np.linalg.pinv(rows[:m]) @ bias[:m, 0] if m else 0.0
        )  # rates that obey the constraints
        rates = rates - onto
        place, quasi, matrix, right, rows, turning = function(*numbers, *x, *rates)
        solution = np.linalg.solve(matrix, right)[:n]
        stored.append(place[:, 0])
        u.append(quasi[m:, 0])
        wanted.append((rows @ solution + turning)[m:, 0])
    q = as_configuration(q, np.stack(stored))
    found, _, condition = accelerations((system, t, q, jnp.asarray(np.stack(u))), control_of(kind))
    apart = difference({**found, "sympy": np.stack(wanted)}, "sympy")
    allowed = 1e3 * EPS * np.asarray(condition)
    return {
        "case": name,
        "kind": str(kind),
        "m": m,
        "systems": each,
        "largest": {route: float(np.max(x)) for route, x in apart.items()},
        "disagree": {route: np.flatnonzero(~(x <= allowed)).tolist() for route, x in apart.items()},
        "seconds": round(time.process_time() - started, 1),
    }


def as_configuration(like, stored):
    """The columns of `stored` as the arrays of a configuration."""
    leaves, structure = jax.tree.flatten(like)
    cuts = np.cumsum([leaf[0].size for leaf in leaves])[:-1]
    parts = np.split(stored, cuts, axis=1)
    return jax.tree.unflatten(
        structure,
        [jnp.asarray(x).reshape(leaf.shape) for x, leaf in zip(parts, leaves, strict=True)],
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("symbolic.jsonl"))
    parser.add_argument("--only", default=None)
    options = parser.parse_args()
    done = options.out.read_text() if options.out.exists() else ""
    for number, name in enumerate(CASES):
        if f'"{name}"' in done or (options.only and options.only != name):
            continue
        row = compared(name, [options.seed, number], options.each)
        with options.out.open("a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
