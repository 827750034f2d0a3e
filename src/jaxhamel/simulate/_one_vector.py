"""Stores the state of a simulation as one vector, if the solver accepts a state of any structure."""

import math
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel.simulate._adjoint import AutoAdjoint


class VectorLayout(eqx.Module):
    """The positions of the entries of a state (q, u) in one vector.

    diffrax steps a state leaf by leaf, and on a CPU each of its small operations costs as much as a right-hand side; the
    state of a rolling ball has three leaves (quaternion, position, u).
    """

    structure: Any = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    @classmethod
    def of(cls, y) -> "VectorLayout":
        leaves, structure = jax.tree.flatten(y)
        return cls(structure, tuple(jnp.shape(x) for x in leaves))

    def vector(self, y) -> Float[Array, " n"]:
        """All leaves as one vector."""
        return jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(y)])

    def parts(self, vector):
        """The state (q, u) from its vector; leading axes of the vector are leading axes of all parts."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        pieces = jnp.split(vector, ends[:-1], axis=-1)
        pairs = zip(pieces, self.shapes, strict=True)
        leaves = [piece.reshape(vector.shape[:-1] + shape) for piece, shape in pairs]
        return jax.tree.unflatten(self.structure, leaves)


class OfVector(eqx.Module):
    """The vector field of a state stored as one vector, from the vector field of (q, u)."""

    field: Any
    layout: VectorLayout

    def __call__(self, t, y, args):
        return self.layout.vector(self.field(t, self.layout.parts(y), args))


class OfParts(AutoAdjoint):
    """`AutoAdjoint` for a state that is stored as one vector.

    Of the initial state it counts only those leaves of (q, u) that carry a tangent.
    """

    y0: Any = None
    layout: VectorLayout | None = None

    @classmethod
    def like(cls, adjoint: AutoAdjoint, y0, layout: VectorLayout) -> "OfParts":
        return cls(adjoint.forward_up_to, adjoint.reverse, adjoint.tape_from, y0, layout)

    def taken_apart(self, inputs):
        state = eqx.tree_at(lambda s: s.y, inputs["init_state"], None)
        return inputs | {"init_state": state, "y0": self.y0}

    def put_together(self, inputs):
        y = self.layout.vector(inputs.pop("y0"))  # pyright: ignore[reportOptionalMemberAccess]
        state = eqx.tree_at(lambda s: s.y, inputs["init_state"], y, is_leaf=lambda x: x is None)
        return inputs | {"init_state": state}


def can_be_one_vector(solver: Any, event: Any) -> bool:
    """Whether solver and event accept a state of any structure: diffrax's own solvers, and events given as functions."""
    known = solver is None or type(solver).__module__.split(".")[0] == "diffrax"
    return known and not isinstance(event, diffrax.Event)
