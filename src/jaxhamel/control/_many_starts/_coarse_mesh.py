"""A coarse mesh on which many searches begin, and the searches on the given mesh that continue from its optima.

An iteration takes a quarter of the time on a quarter of the intervals. Searches that end at the same optimum of the coarse
mesh need only one search on the given mesh.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._typing import Configuration
from jaxhamel.control._collocation._start import on_mesh
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription, along
from jaxhamel.control._interior_point._state import SearchState, strong
from jaxhamel.control._mesh._transfer import carried_over

# The coarse mesh has 1/SHARE of the intervals, but at least FEWEST_POINTS points (docs/performance.md#many-starts).
SHARE, FEWEST_POINTS = 4, 20
# The largest differences between an optimum of the coarse mesh and the one found from it that count as the same: of the
# costs, relative to 1 + |J|, and of the coordinates of the nodes, as a share of their paths.
CLOSE, NEAR = 1e-2, 0.1
SAME_PATH = 0.01  # the same share, up to which two motions on the coarse mesh count as one
STILL = 0.01  # a path shorter than this share of the longest one counts as this share
# The displacements between nodes of the given mesh may differ from those of the coarse mesh by this share of the path.
DIFFERENCE = 0.5
MOST_ITERATIONS = 30  # of a search on the coarse mesh


def coarse_mesh(transcription: Transcription) -> Transcription | None:
    """The problem transcribed on a coarse mesh, whose nodes are also nodes of the mesh of `transcription`.

    Returns None where the coarse mesh would not help: if the mesh of `transcription` has less than twice as many intervals,
    and if there are path limits. With few points, limits bind at other times, and costs differ by a tenth
    (docs/performance.md#many-starts).
    """
    given = transcription.shares.shape[0] - 1
    few = max(given // SHARE, -(-FEWEST_POINTS // len(transcription.rule.points)))
    if transcription.limits or given < 2 * few:
        return None
    return on_mesh(transcription, transcription.shares[_nodes(given, few)])


def _nodes(given: int, few: int) -> Int[np.ndarray, " n"]:
    """The numbers of the nodes on a mesh of `given` intervals that are nodes of the coarse mesh of `few` intervals."""
    return np.round(np.linspace(0, given, few + 1)).astype(int)


def are_followed(coarse: Transcription, q: Configuration) -> Bool[np.ndarray, " S"]:
    """Which motions the coarse mesh can follow; `q`: their configurations at the nodes of the given mesh, `(S, N+1)`.

    Two nodes of the coarse mesh do not show a whole turn between them. So the displacements between all nodes of the given
    mesh must nearly add up to the displacements between nodes of the coarse mesh.
    """
    given, few = jax.tree.leaves(q)[0].shape[1] - 1, coarse.shares.shape[0] - 1
    nodes = _nodes(given, few)
    small, large = (np.asarray(x) for x in _displacements(coarse, q, jnp.asarray(nodes)))
    sums, paths = (np.add.reduceat(x, nodes[:-1], axis=1) for x in (small, np.abs(small)))
    return np.all(np.abs(sums - large) <= DIFFERENCE * np.sum(paths, 2, keepdims=True), (1, 2))


@compiled_with(QUICK)
def _displacements(coarse: Transcription, q: Configuration, nodes: Array) -> tuple[Array, Array]:
    """The displacements between successive nodes of the given mesh and of the coarse mesh, of all motions."""
    local = jax.vmap(jax.vmap(coarse.system.space.local))

    def between(q):
        return local(*(jax.tree.map(lambda x, k=k: x[:, k], q) for k in (_BEFORE, _AFTER)))

    return between(q), between(jax.tree.map(lambda x: x[:, nodes], q))


_BEFORE, _AFTER = slice(None, -1), slice(1, None)


def on_given_mesh(coarse: Transcription, states: SearchState, given: Transcription) -> SearchState:
    """The states from which the searches continue on the given mesh, along a leading axis."""
    count = states.mu.shape[0]
    each = [carried_over(coarse, strong(along(states, k)), given) for k in range(count)]
    return jax.tree.map(lambda *x: jnp.stack(x), *each)


def are_same(
    coarse: Transcription, before: SearchState, given: Transcription, after: SearchState
) -> Bool[np.ndarray, " K"]:
    """Which solutions `after` on the given mesh are the optima `before` of the coarse mesh, from which they were found.

    Both the costs and the configurations at the common nodes must be close: a coarse mesh may have one optimum in the place
    of two, or one that is none.
    """
    costs, others = np.asarray(before.cost), np.asarray(after.cost)
    close = np.abs(costs - others) <= CLOSE * (1 + np.abs(others))
    off = np.asarray(_distances(coarse, before.w, given, after.w))
    paths = _paths(np.asarray(_coordinates(coarse, before.w)))
    return close & np.all(off <= NEAR * paths, axis=1)


def of_one_path(
    mesh: Transcription, states: SearchState, groups: list[Int[np.ndarray, " k"]]
) -> list[Int[np.ndarray, " k"]]:
    """Divides groups of solutions with equal costs into groups with the same motion, too.

    Different optima of equal cost are images of one another in a symmetry, which the given mesh has as well, or equal by
    chance. In a family of optima each has its own motion.
    """
    nodes = np.asarray(_coordinates(mesh, states.w))
    most = SAME_PATH * _paths(nodes)
    found = []
    for group in groups:
        left = group
        while left.size:
            off = np.max(np.abs(nodes[left] - nodes[left[0]]), axis=1)
            near = np.all(off <= most[left[0]], axis=1)
            found.append(left[near])
            left = left[~near]
    return found


def _paths(nodes: Float[np.ndarray, "K N n"]) -> Float[np.ndarray, "K n"]:
    """The lengths of the paths of all coordinates; short ones count as the share `STILL` of the longest."""
    path = np.sum(np.abs(np.diff(nodes, axis=1)), axis=1)
    return np.maximum(path, STILL * np.max(path, axis=1, keepdims=True))


@compiled_with(QUICK)
def _coordinates(mesh: Transcription, w: CollocationPoint) -> Float[Array, "K N+1 n"]:
    """The displacements of the nodes of each motion from the configuration at which all charts begin."""

    def one(w):
        q = mesh.states(w)[0]
        return jax.vmap(lambda node: mesh.system.space.local(along(w.q, 0), node))(q)

    return jax.vmap(one)(w)


@compiled_with(QUICK)
def _distances(
    coarse: Transcription, before: CollocationPoint, given: Transcription, after: CollocationPoint
) -> Float[Array, "K n"]:
    """The largest distance of the common nodes of two motions, for each coordinate."""
    nodes = _nodes(given.shares.shape[0] - 1, coarse.shares.shape[0] - 1)

    def one(before, after):
        q, own = coarse.states(before)[0], along(given.states(after)[0], nodes)
        return jnp.max(jnp.abs(jax.vmap(coarse.system.space.local)(q, own)), axis=0)

    return jax.vmap(one)(before, after)
