"""Equations that do not use `acceleration` also name the method that returns a wrong shape."""

import jax.numpy as jnp
import pytest

from jaxhamel import SO3, Euclidean, Product, System, mechanics, quasi_velocity, velocity

N = 4
FORCE = r"`force\(t, q, v, control\)` has shape \(1,\)"
LAGRANGIAN = r"`lagrangian\(t, q, v\)` has shape \(1,\)"
FRAME = r"`frame\(t, q\)` has shape \(4, 3\)"


class Plain(System):
    """L = ½ v·v with the identity frame; a class attribute holds the wrong value that a method returns."""

    wrong = ""
    space = Euclidean(N)

    def lagrangian(self, t, q, v):
        value = 0.5 * jnp.dot(v, v)
        return value[None] if self.wrong == "lagrangian" else value

    def frame(self, t, q):
        return jnp.eye(N)[:, : N - 1] if self.wrong == "frame" else jnp.eye(N)

    def force(self, t, q, v, control):
        return jnp.zeros(1) if self.wrong == "force" else jnp.zeros(N)


def plain(wrong, space=None, m=0):
    body = {"wrong": wrong, "space": space or Euclidean(N), "n_constraints": m}
    return type("Wrong", (Plain,), body)()


GROUP = Product(SO3(), Euclidean(1))
V, U1, U3, RATE = jnp.ones(N), jnp.ones(N - 1), jnp.ones(3), jnp.ones(1)
Q = jnp.zeros(N)
G = (jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(1))
FREE = {
    "linearise": lambda s: mechanics.linearise(s, 0.0, Q, V),
    "relative_equilibrium": lambda s: mechanics.relative_equilibrium(s, 0.0, Q, V),
    "stability_matrix": lambda s: mechanics.stability_matrix(s, 0.0, Q, V),
    "neighbouring_motion": lambda s: mechanics.neighbouring_motion(s, 0.0, Q, V, V, V),
}
CHAPLYGIN = {
    f.__name__: lambda s, f=f: f(s, 0.0, Q, U1)
    for f in (mechanics.hamel_chaplygin, mechanics.chaplygin, mechanics.voronets)
}
REDUCED = {
    "lagrange_poincare": lambda s: mechanics.lagrange_poincare(s, 0.0, G, V),
    "lagrange_poincare_terms": lambda s: mechanics.lagrange_poincare_terms(s, 0.0, G, V),
    "lagrange_routh": lambda s: mechanics.lagrange_routh(s, 0.0, G, RATE),
    "locked_velocity": lambda s: mechanics.locked_velocity(s, 0.0, G, V),
    "spatial_momentum": lambda s: mechanics.spatial_momentum(s, 0.0, G, V),
    "reconstruct_with_momentum": lambda s: mechanics.reconstruct_with_momentum(
        s, lambda t: t[None], jnp.array([0.0, 1.0]), U3
    ),
}
CONSTRAINED = {
    "lagrange_dalembert_poincare": lambda s: mechanics.lagrange_dalembert_poincare(s, 0.0, G, RATE),
    "nonholonomic_momentum_equations": lambda s: mechanics.nonholonomic_momentum_equations(
        s, 0.0, G, jnp.zeros(0), RATE
    ),
}
FORCES = [
    *((name, call, None, 0) for name, call in FREE.items()),
    *((name, call, None, 1) for name, call in CHAPLYGIN.items()),
    *((name, call, GROUP, 0) for name, call in REDUCED.items()),
]
LAGRANGIANS = [
    ("levi_civita", lambda s: mechanics.levi_civita(s, 0.0, Q), None, 0),
    ("riemann_curvature", lambda s: mechanics.riemann_curvature(s, 0.0, Q), None, 0),
    (
        "sectional_curvature",
        lambda s: mechanics.sectional_curvature(s, 0.0, Q, V, V),
        None,
        0,
    ),
    ("mass_blocks", lambda s: mechanics.mass_blocks(s, 0.0, G), GROUP, 0),
    ("mechanical_connection", lambda s: mechanics.mechanical_connection(s), GROUP, 0),
]
FRAMES = [
    ("velocity", lambda s: velocity(s, 0.0, Q, V), None, 0),
    ("quasi_velocity", lambda s: quasi_velocity(s, 0.0, Q, V), None, 0),
    ("kinematic_coefficients", lambda s: mechanics.kinematic_coefficients(s, 0.0, Q), None, 1),
    ("kinematic_curvature", lambda s: mechanics.kinematic_curvature(s, 0.0, Q), None, 1),
    ("principal_connection", lambda s: mechanics.principal_connection(s, 0.0, G), GROUP, 3),
    ("nonholonomic_connection", lambda s: mechanics.nonholonomic_connection(s), GROUP, 3),
    *((name, call, GROUP, 3) for name, call in CONSTRAINED.items()),
]
CASES = [
    *(("force", FORCE, *case) for case in FORCES),
    *(("lagrangian", LAGRANGIAN, *case) for case in (*FORCES, *LAGRANGIANS)),
    *(("frame", FRAME, *case) for case in FRAMES),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[2]}-{case[0]}")
def test_method_is_named(case):
    wrong, message, _, call, space, m = case
    with pytest.raises(ValueError, match=message):
        call(plain(wrong, space, m))


def _spinning(xi, a):
    return 0.5 * jnp.dot(xi, xi) + a[2]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((lambda xi, a: xi, SO3(), U3, U3), {}, r"`lagrangian\(xi, a\)` has shape \(3,\).*one number"),
        ((_spinning, SO3(), V, U3), {}, r"`xi` has shape \(4,\); it must have shape \(3,\)"),
        ((_spinning, SO3(), U3, U3), {"force": 1.0}, r"`force`.*\(\).*shape \(3,\).*zeros are written out"),
        ((_spinning, SO3(), U3, U3), {"action": lambda xi, a: V}, r"`action\(xi, a\)`.*\(4,\)"),
    ],
)  # fmt: skip
def test_euler_poincare(arguments, options, message):
    options = {"action": jnp.cross, **options}
    options = {k: jnp.asarray(v) if k == "force" else v for k, v in options.items()}
    with pytest.raises(ValueError, match=message):
        mechanics.euler_poincare(*arguments, **options)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("coadjoint", (SO3(), V, U3), r"`xi` has shape \(4,\); it must have shape \(3,\)"),
        ("coadjoint", (SO3(), U3, jnp.eye(3)), r"`mu` has shape \(3, 3\)"),
        ("diamond", (jnp.cross, V, U3, 3), r"`w`.*\(4,\)"),
        ("velocity_transformation", (SO3(), V), r"`phi` has shape \(4,\)"),
        ("coriolis_matrix", (SO3(), V), r"`momentum` has shape \(4,\)"),
        ("body_acceleration", (SO3(), jnp.eye(4), U3), r"`inertia` has shape \(4, 4\).*\(3, 3\)"),
        ("body_acceleration", (SO3(), jnp.eye(3), V), r"`v` has shape \(4,\)"),
        ("body_acceleration", (SO3(), jnp.eye(3), U3, jnp.ones(1)), r"`force` has shape \(1,\)"),
        ("symmetric_solve", (jnp.ones((3, 2)), U3), r"`matrix` has shape \(3, 2\).*square"),
        ("symmetric_solve", (jnp.eye(3), V), r"`rhs` has shape \(4,\); it must have shape \(3,\)"),
        ("inverse", (jnp.ones((2, 3, 3)),), r"`matrix` has shape \(2, 3, 3\).*vmap"),
    ],
)  # fmt: skip
def test_argument_is_named(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(mechanics, name)(*arguments)
