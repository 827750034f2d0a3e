"""Families of systems that grow, and named systems, each with the same equations derived by hand.

Chains, trees and random systems of n turning links have one formula. Point k has the velocity
Σ_j a_kj (cos q_j, sin q_j) v_j, and with w = aᵀ a

    Σ_j w_ij cos(q_i − q_j) q̈_j = −Σ_j w_ij sin(q_i − q_j) q̇_j² − g s_i sin q_i ,   s_j = Σ_k a_kj .

A chain has a_kj = 1 for j ≤ k, a binary tree for the ancestors j of k and k itself, a random system any numbers.
"""

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxhamel
from jaxhamel.systems import ChaplyginSleigh, FreeRigidBody, HeavyTop

GRAVITY = 9.81


class Links(jaxhamel.System):
    """n rotating links of unit length with unit masses at the points; `sums(x)` is a x."""

    sums: Callable
    links: int

    @property
    def space(self):
        return jaxhamel.Euclidean(self.links)

    def lagrangian(self, t, q, v):
        x, y, height = (self.sums(each) for each in (jnp.cos(q) * v, jnp.sin(q) * v, -jnp.cos(q)))
        return 0.5 * jnp.sum(x * x + y * y) - GRAVITY * jnp.sum(height)


class Case(NamedTuple):
    """A system, its start, and its equations by hand as a function of (t, (q, u), constants)."""

    name: str
    family: str
    size: int
    system: jaxhamel.System
    q: np.ndarray
    u: np.ndarray
    by_hand: Callable
    constants: object = None


def links_by_hand(t, y, constants):
    """The formula of the module; `constants` are w and s."""
    weight, sums = constants
    q, v = jnp.split(y, 2)
    turn = q[:, None] - q[None, :]
    force = -(weight * jnp.sin(turn)) @ (v * v) - GRAVITY * sums * jnp.sin(q)
    return jnp.concatenate([v, jnp.linalg.solve(weight * jnp.cos(turn), force)])


def links(family: str, name: str, a: np.ndarray, sums: Callable) -> Case:
    n = a.shape[1]
    constants = jnp.asarray(a.T @ a), jnp.asarray(a.sum(0))
    q = np.linspace(0.3, 1.0, n)
    return Case(name, family, n, Links(sums, n), q, np.zeros(n), links_by_hand, constants)


def by_scan(x):
    """Partial sums by a loop over the links."""
    return jax.lax.scan(lambda total, each: (total + each,) * 2, jnp.zeros_like(x[0]), x)[1]


def along_tree(x):
    """Sums from the root to each link of a binary tree, by a Python loop."""
    found = [x[0]]
    for k in range(1, x.size):
        found.append(found[(k - 1) // 2] + x[k])
    return jnp.stack(found)


def matrix_product(a: np.ndarray) -> Callable:
    return lambda x: jnp.asarray(a) @ x


def chain_matrix(n: int) -> np.ndarray:
    return np.tril(np.ones((n, n)))


def tree_matrix(n: int) -> np.ndarray:
    a = np.eye(n)
    for k in range(1, n):
        a[k] += a[(k - 1) // 2]
    return a


def chains(n: int) -> list[Case]:
    """A chain of n links in four spellings."""
    a = chain_matrix(n)
    spellings = {
        "cumsum": jnp.cumsum,
        "matrix product": matrix_product(a),
        "Python sums": lambda x: jnp.stack([*accumulate(x)]),
        "scan": by_scan,
    }
    return [links("chain", f"chain {n}, {name}", a, sums) for name, sums in spellings.items()]


def trees(n: int) -> list[Case]:
    """A binary tree of n links in two spellings."""
    a = tree_matrix(n)
    spellings = {"matrix product": matrix_product(a), "Python sums": along_tree}
    return [links("tree", f"tree {n}, {name}", a, sums) for name, sums in spellings.items()]


def randoms(n: int) -> list[Case]:
    """A system of n + 2 points, each moved by all links."""
    a = np.random.default_rng(n).normal(size=(n + 2, n)) / np.sqrt(n) + np.eye(n + 2, n)
    return [links("random", f"random {n}", a, matrix_product(a))]


FAMILIES: dict[str, Callable[[int], list[Case]]] = {
    "chain": chains,
    "tree": trees,
    "random": randoms,
}


def named() -> list[Case]:
    """The heavy top, the free rigid body and the Chaplygin sleigh, with textbook equations."""
    upright, turn = np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.3, 1.0, 5.0])
    moments, com = np.array([0.3, 0.4, 0.5]), np.array([0.0, 0.1, 0.5])
    inertia, one, gravity = jnp.asarray(moments), jnp.array(1.0), jnp.array(GRAVITY)
    body, top = FreeRigidBody(inertia), HeavyTop(one, inertia, jnp.asarray(com), gravity)
    numbers = one, jnp.array(0.1), jnp.array(0.2)
    case = partial(Case, family="named", size=3)
    return [
        case("heavy top", system=top, q=upright, u=turn, by_hand=top_by_hand)._replace(
            constants=(moments, com, GRAVITY)
        ),
        case("free rigid body", system=body, q=upright, u=turn, by_hand=top_by_hand)._replace(
            constants=(moments, com, 0.0)
        ),
        case(
            "Chaplygin sleigh",
            system=ChaplyginSleigh(*numbers),
            q=np.zeros(3),
            u=np.ones(2),
            by_hand=sleigh_by_hand,
        )._replace(constants=numbers),
    ]


def top_by_hand(t, y, top):
    """I Ω̇ = (I Ω) × Ω + m g Γ × χ, with the quaternion's rate ½ p (0, Ω); a free body without gravity."""
    (w, x, y_, z), omega = y[:4], y[4:]
    up = jnp.stack([2 * (x * z - w * y_), 2 * (y_ * z + w * x), w * w - x * x - y_ * y_ + z * z])
    inertia, com, weight = top
    torque = jnp.cross(inertia * omega, omega) + weight * jnp.cross(up, com)
    vector = jnp.stack([x, y_, z])
    rate = 0.5 * (w * omega + jnp.cross(vector, omega))
    return jnp.concatenate([-0.5 * jnp.dot(vector, omega)[None], rate, torque / inertia])


def sleigh_by_hand(t, y, sleigh):
    """v̇ = a ω², (I + m a²) ω̇ = −m a v ω."""
    (angle, _, _, v, omega), (mass, inertia, offset) = y, sleigh
    turning = -mass * offset * v * omega / (inertia + mass * offset**2)
    along = v * jnp.cos(angle), v * jnp.sin(angle)
    return jnp.stack([omega, *along, offset * omega**2, turning])
