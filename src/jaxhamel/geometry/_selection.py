"""The selection matrix H of V = H v: the twist of a body that moves on a subgroup of SE(3)."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel.geometry._euclidean import Euclidean
from jaxhamel.geometry._helical import Helical
from jaxhamel.geometry._matrix_group import MatrixGroup
from jaxhamel.geometry._schoenflies import Schoenflies
from jaxhamel.geometry._se2 import SE2
from jaxhamel.geometry._se3 import SE3
from jaxhamel.geometry._so2 import SO2
from jaxhamel.geometry._so3 import SO3
from jaxhamel.geometry._space import AbstractSpace

_COMPONENTS = {  # of V = (ω, v), in the order of the space's own velocity
    SE3: (0, 1, 2, 3, 4, 5),
    SO3: (0, 1, 2),
    SE2: (2, 3, 4),
    Schoenflies: (2, 3, 4, 5),
    SO2: (2,),
}


def selection_matrix(space: AbstractSpace, dtype: Any = None) -> Float[Array, "6 m"]:
    """H with V = H v: the body twist V = (ω, v) of a body whose configurations are a subgroup of SE(3).

    A body with inertia I_b `(6, 6)` about its frame moves on that subgroup with the inertia M = Hᵀ I_b H (eq. 60), and H
    takes the brackets of the subgroup to those of SE(3).

    **Arguments:** `space`: `SE3`, `SO3`, `SE2` (the plane z = 0), `Schoenflies`, `Euclidean(n)` with n ≤ 3 (translations
    along the first axes), `SO2` (turns about z), `Helical(pitch)`, or a `MatrixGroup` of homogeneous 4 × 4 matrices.
    `dtype`: of H, default JAX's float.

    **Returns:** H `(6, m)`. For the (v, ω) order of From 2012 take `linear_first(H.T).T`.

    **Raises:** `TypeError` for a space that is none of these.

    From 2012, eq. (58), (62), (77), (88), where also the columns, one for each component of v, have the order (v, ω).
    """
    if type(space) in _COMPONENTS:
        return jnp.eye(6, dtype=dtype)[:, jnp.array(_COMPONENTS[type(space)])]
    if isinstance(space, Euclidean) and space.dim <= 3:
        return jnp.eye(6, dtype=dtype)[:, 3 : 3 + space.dim]
    if isinstance(space, Helical):
        pitch = jnp.asarray(space.pitch, dtype=jnp.zeros((), dtype).dtype)
        return jnp.zeros((6, 1), dtype).at[2, 0].set(1.0).at[5, 0].set(pitch)
    if isinstance(space, MatrixGroup) and space.generators.shape[1:] == (4, 4):
        G = space.generators if dtype is None else space.generators.astype(dtype)
        return jnp.stack([G[:, 2, 1], G[:, 0, 2], G[:, 1, 0], G[:, 0, 3], G[:, 1, 3], G[:, 2, 3]])
    raise TypeError(
        f"`space` is {type(space).__name__}; it must be a subgroup of SE(3): SE3, SO3, SE2, Schoenflies, Euclidean(n) with "
        "n <= 3, SO2, Helical, or a MatrixGroup of 4 x 4 matrices. Give the generators of any other to MatrixGroup."
    )
