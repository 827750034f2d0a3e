"""Random systems of many kinds: the methods that a class defines, with random smooth coefficients for all of them.

A `Kind` says which methods a class overrides; two systems of one kind and one space share their compiled programs. The
fields are those of `tests.mechanics.random_systems`.
"""

from dataclasses import dataclass, fields
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.geometry import SO3, AbstractSpace
from jaxhamel.mechanics import Points, Spins, System
from tests.mechanics.random_systems import features, random_weights

HIDDEN = 3


@dataclass(frozen=True)
class Kind:
    """What a class defines.

    - `frame`: `"identity"`, `"random"` (moving, too: it depends on t) or `"inverted"` (with its own `inverse_frame`).
    - `drift`, `force`: whether they are defined. `quartic`: whether L has a term of fourth order in v.
    - `prescribed`: whether L depends on the control and its rate.
    - `bodies`: whether kinetic energy, potential and forces are those of points and rotations.
    """

    frame: str = "random"
    drift: bool = True
    force: bool = True
    quartic: bool = True
    prescribed: bool = False
    bodies: bool = False

    def __str__(self) -> str:
        on = [f.name for f in fields(self) if getattr(self, f.name) is True]
        return "+".join([f"{self.frame} frame", *on])


class Random(System):
    """Fields with random coefficients; `class_of` makes subclasses that define the methods."""

    space: AbstractSpace
    weights: dict
    n_constraints: int = eqx.field(static=True)

    def field(self, name, t, q):
        w = self.weights[name]
        return jnp.tensordot(w["out"], jnp.sin(w["in"] @ features(t, q) + w["shift"]), axes=1)


def wave(t):
    """A control of two numbers."""
    return jnp.stack([jnp.sin(1.3 * t), 0.5 * jnp.cos(t)])


def _lagrangian(self, t, q, v):
    stretched = v + 0.3 * self.field("mass", t, q) @ v  # M = (1 + 0.3 R)ᵀ(1 + 0.3 R)
    kinetic = 0.5 * jnp.dot(stretched, stretched) + jnp.dot(self.field("gyro", t, q), v)
    return kinetic - self.field("potential", t, q)[0]


def _quartic(self, t, q, v):
    return _lagrangian(self, t, q, v) + 0.05 * jnp.dot(self.field("quartic", t, q), v) ** 4


def _prescribed(inner):
    def lagrangian(self, t, q, v, control):
        c, rate = jax.jvp(control, (t,), (jnp.ones_like(t),))
        moved = jnp.dot(self.field("driven", t, q), v) * (c[0] + rate[1])
        return inner(self, t, q, v) + moved + c[1] * self.field("potential", t, q)[0]

    return lagrangian


def _frame(self, t, q):
    n = self.space.dim
    field = self.field("frame", t, q)
    return jnp.eye(n, dtype=field.dtype) + 0.3 * field


def _lower_frame(self, t, q):
    """The frame 1 + N with N = x yᵀ on separate halves, so that N² = 0 and the inverse is 1 − N."""
    return jnp.eye(self.space.dim, dtype=q_dtype(q)) + _nilpotent(self, t, q)


def _lower_inverse(self, t, q):
    return jnp.eye(self.space.dim, dtype=q_dtype(q)) - _nilpotent(self, t, q)


def _nilpotent(self, t, q):
    half = self.space.dim // 2
    field = self.field("frame", t, q)
    return jnp.zeros_like(field).at[:half, half:].set(field[:half, half:])


def q_dtype(q):
    return jax.tree.leaves(q)[0].dtype


def _drift(self, t, q):
    return self.field("drift", t, q)


def _force(self, t, q, v, control):
    """A force of q and t, damping, a gyroscopic force, and a random field times each of the control's two numbers."""
    control = jnp.zeros(2, v.dtype) if control is None else control
    turning, force = self.field("turning", t, q), self.field("force", t, q)
    pushed = jnp.stack([force, self.field("driven", t, q)]).T @ control
    return force - 0.1 * v + (turning - turning.T) @ v + pushed


def _force_of_function(self, t, q, v, control):
    return _force(self, t, q, v, None if control is None else control(t))


# points at r_p(t, q) and one body that turns with R = exp(s(t, q))


def _places(self, t, q):
    flat = self.weights["points"]["out"] @ features(t, q) + self.field("places", t, q)
    return flat.reshape(-1, 3)


def _moving(self, t, q, v):
    """Positions, velocities, and the body's angular velocity in its own axes."""
    flow = (jnp.ones_like(t), self.space.rate(q, v))
    r, r_dot = jax.jvp(lambda t, q: _places(self, t, q), (t, q), flow)
    turned, turned_dot = jax.jvp(
        lambda t, q: SO3().exp(self.field("turned", t, q)[:3]), (t, q), flow
    )
    return r, r_dot, SO3().velocity(turned, turned_dot)


def _well(r):
    return jnp.sum(jnp.sin(r)) + 0.1 * jnp.sum(r * r)


def _applied(self, r_dot, omega, control):
    push = 0.0 if control is None else control[0] + 0.3 * control[1]
    return -0.1 * r_dot + push * self.weights["points"]["push"], -0.2 * omega + push


def _body_lagrangian(self, t, q, v):
    r, r_dot, omega = _moving(self, t, q, v)
    p = self.weights["points"]
    kinetic = jnp.sum(p["mass"][:, None] * r_dot * r_dot) + omega @ p["inertia"] @ omega
    return 0.5 * kinetic - _well(r)


def _body_force(self, t, q, v, control):
    """The same forces as generalised ones: Jᵀ F + J_Ωᵀ τ."""
    (r_dot, omega), pull = jax.vjp(lambda v: _moving(self, t, q, v)[1:], v)
    return pull(_applied(self, r_dot, omega, control))[0]


def _bodies(self, t, q, v, control):
    r, r_dot, omega = _moving(self, t, q, v)
    force, torque = _applied(self, r_dot, omega, None if control is None else control(t))
    p = self.weights["points"]
    force = force - jax.grad(_well)(r)
    space_axes = jnp.zeros(3, r.dtype)
    return Points(p["mass"], r_dot, force, space_axes), Spins(
        p["inertia"][None], omega[None], torque[None]
    )


@cache
def class_of(kind: Kind) -> type[Random]:
    """The class of this kind, which defines all methods in its own body."""
    inner = _quartic if kind.quartic else _lagrangian
    body: dict = {"lagrangian": _prescribed(inner) if kind.prescribed else inner}
    body["prescribed_motion"] = kind.prescribed
    if kind.force:
        body["force"] = _force_of_function if kind.prescribed else _force
    if kind.bodies:
        body |= {"lagrangian": _body_lagrangian, "force": _body_force, "bodies": _bodies}
    if kind.frame == "random":
        body["frame"] = _frame
    elif kind.frame == "inverted":
        body |= {"frame": _lower_frame, "inverse_frame": _lower_inverse}
    if kind.drift:
        body["drift"] = _drift
    return type("RandomOf" + "".join(filter(str.isalnum, str(kind))), (Random,), body)


RANKS = {
    "mass": 2,
    "frame": 2,
    "turning": 2,
    "gyro": 1,
    "driven": 1,
    "quartic": 1,
    "drift": 1,
    "force": 1,
    "potential": 0,
}


def draw(seed, kind: Kind, space: AbstractSpace, n_constraints: int, count: int):
    """`count` random systems of a kind with a state (t, q, u) of each; all arrays have a leading axis."""
    generator = np.random.default_rng(seed)
    n = space.dim
    sizes = {name: (n,) * rank if rank else (1,) for name, rank in RANKS.items()}
    points = n // 3 + 2
    sizes |= {"places": (3 * points,), "turned": (3,)} if kind.bodies else {}
    weights = random_weights(generator, space, sizes, (count,), HIDDEN)
    normal = lambda *shape: jnp.asarray(generator.normal(size=(count, *shape)))
    if kind.bodies:
        n_features = weights["mass"]["in"].shape[-1]
        root = np.asarray(normal(3, 3))
        weights["points"] = {
            "mass": jnp.asarray(10 ** generator.uniform(-1, 1, size=(count, points))),
            "inertia": jnp.asarray(np.eye(3) + root @ root.swapaxes(1, 2)),
            "out": normal(3 * points, n_features),
            "push": normal(points, 3),
        }
    spaces = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *jnp.shape(leaf))), space)
    system = class_of(kind)(space=spaces, weights=weights, n_constraints=n_constraints)
    return system, normal(), jax.vmap(space.exp)(normal(n)), normal(n - n_constraints)
