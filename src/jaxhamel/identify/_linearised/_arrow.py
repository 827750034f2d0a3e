r"""Normal equations of multiple shooting, with H = JᵀJ block tridiagonal in the nodes and bordered by offsets and
parameters.

        ⎡ D_0  E_0            B_0 ⎤          D_k  (n, n)   node k with itself
    H = ⎢ E_0ᵀ D_1  E_1       B_1 ⎥ ,        E_k  (n, n)   node k with node k + 1, through the gap between them
        ⎢      …              …   ⎥          B_k  (n, b)   node k with the border: offsets and parameters
        ⎣ B_0ᵀ B_1ᵀ …         C   ⎦          C    (b, b)   the border with itself

The Cholesky factors have the same pattern, so that a solution takes O(N n³) operations instead of O(N³ n³).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve, solve_triangular
from jaxtyping import Array, Float, Int

from jaxhamel._typing import Scalar


class SegmentRows(eqx.Module):
    """The residuals r of N neighbouring segments, m of each, and their derivatives.

    - `node`: the derivatives by the state at the segment's own node; `after`: those by the state at the next node, or None
      if r does not depend on it.
    - `border`: the derivatives by e entries of the border; `place`: the indices of these entries in the border.
    - `start`: the index of the first segment's node.
    """

    r: Float[Array, "N m"]
    node: Float[Array, "N m n"]
    after: Float[Array, "N m n"] | None
    border: Float[Array, "N m e"]
    place: Int[Array, "N e"]
    start: int = eqx.field(static=True)

    def times(self, nodes: Float[Array, "A n"], border: Float[Array, " b"]) -> Float[Array, "N m"]:
        """The product of these rows of J with the unknowns: increments of all A nodes and of the border."""
        N = self.r.shape[0]
        own = nodes[self.start : self.start + N]
        out = _times(self.node, own) + _times(self.border, border[self.place])
        if self.after is None:
            return out
        return out + _times(self.after, jnp.roll(nodes, -1, axis=0)[self.start : self.start + N])


class Linear(eqx.Module):
    """The Jacobian J of all residuals by the scaled unknowns y, stored without its zero blocks.

    To first order, the residuals at the increments x = scale · y of the unknowns are r + J @ y.
    """

    rows: tuple[SegmentRows, ...]
    border_rows: Float[Array, "M b"]
    scale: Float[Array, " D"]
    nodes: int = eqx.field(static=True)

    def __matmul__(self, y: Float[Array, " D"]) -> Float[Array, " R"]:
        x, b = self.scale * y, self.border_rows.shape[1]
        nodes, border = x[: x.shape[0] - b].reshape(self.nodes, -1), x[x.shape[0] - b :]
        pieces = [rows.times(nodes, border).ravel() for rows in self.rows]
        return jnp.concatenate([*pieces, self.border_rows @ border])


class ArrowMatrix(eqx.Module):
    """The normal equations: the blocks D, E, B and C of H = JᵀJ (see the module), and Jᵀr, of which `g` is the part of the
    nodes and `g_border` that of the border.
    """

    D: Float[Array, "N n n"]
    E: Float[Array, "N n n"]
    B: Float[Array, "N n b"]
    C: Float[Array, "b b"]
    g: Float[Array, "N n"]
    g_border: Float[Array, " b"]

    @property
    def gradient(self) -> Float[Array, " D"]:
        """The gradient Jᵀr of ½|r|²."""
        return jnp.concatenate([self.g.ravel(), self.g_border])

    @property
    def diagonal(self) -> Float[Array, " D"]:
        """The diagonal of H: the squared lengths of the columns of J."""
        nodes = jnp.diagonal(self.D, axis1=1, axis2=2)
        return jnp.concatenate([nodes.ravel(), jnp.diagonal(self.C)])

    def scaled(self, scale: Float[Array, " D"]) -> "ArrowMatrix":
        """The normal equations for the unknowns y, where x = scale · y."""
        N, n = self.g.shape
        s, c = scale[: N * n].reshape(N, n), scale[N * n :]
        after = jnp.roll(s, -1, axis=0)
        return ArrowMatrix(
            self.D * s[:, :, None] * s[:, None, :],
            self.E * s[:, :, None] * after[:, None, :],
            self.B * s[:, :, None] * c[None, None, :],
            self.C * c[:, None] * c[None, :],
            self.g * s,
            self.g_border * c,
        )

    def solved(self, damping: Scalar) -> Float[Array, " D"]:
        """The solution y of (H + damping · 1) y = Jᵀr, by a block Cholesky factorisation.

        It is not finite if the matrix is not positive definite.
        """
        n, b = self.B.shape[1:]
        own, corner = (damping * jnp.eye(size, dtype=self.g.dtype) for size in (n, b))

        def eliminate(left, blocks):
            D, E, B, g = blocks
            L = jnp.linalg.cholesky(D + own - left[:, :n])
            right = jnp.concatenate([E, B, g[:, None]], axis=1)
            right = right.at[:, n:].add(-left[:, n:])
            Y = solve_triangular(L, right, lower=True)
            return Y[:, :n].T @ Y, (L, Y)

        none = jnp.zeros((n, n + b + 1), self.g.dtype)
        _, (L, Y) = jax.lax.scan(eliminate, none, (self.D, self.E, self.B, self.g))
        Y_E, Y_b, y = Y[:, :, :n], Y[:, :, n:-1], Y[:, :, -1]
        border = self.C + corner - jnp.einsum("kna,knb->ab", Y_b, Y_b)
        right = self.g_border - jnp.einsum("kna,kn->a", Y_b, y)
        z = cho_solve(cho_factor(border, lower=True), right) if b else right

        def insert(after, blocks):
            L, Y_E, right = blocks
            x = solve_triangular(L, right - Y_E @ after, lower=True, trans=1)
            return x, x

        blocks = (L, Y_E, y - Y_b @ z)
        _, x = jax.lax.scan(insert, jnp.zeros(n, self.g.dtype), blocks, reverse=True)
        return jnp.concatenate([x.ravel(), z])

    def decrement(self) -> Scalar:
        """The decrease of ½|r|² in an undamped step, by the quadratic model: gᵀ H⁻¹ g / 2 with g = Jᵀr.

        A damping of the size of rounding errors leaves out directions on which r hardly depends.
        """
        size = 1e3 * jnp.finfo(self.g.dtype).eps * jnp.max(self.diagonal)
        return jnp.dot(self.gradient, self.solved(jnp.where(size > 0, size, 1.0))) / 2


def arrow_of(
    rows: tuple[SegmentRows, ...],
    nodes: int,
    r_border: Float[Array, " M"],
    border: Float[Array, "M b"],
) -> ArrowMatrix:
    """Assembles H and Jᵀr.

    **Arguments:** `rows`: the residuals of the segments; `nodes`: the number of nodes; `r_border`, `border`: the residuals
    of the priors, which depend on the border only, and their Jacobian.
    """
    n, b, dtype = rows[0].node.shape[2], border.shape[1], border.dtype
    total = ArrowMatrix(
        # one more block, for the derivatives of the last segment by a node after it
        D=jnp.zeros((nodes + 1, n, n), dtype),
        E=jnp.zeros((nodes, n, n), dtype),
        B=jnp.zeros((nodes + 1, n, b), dtype),
        C=border.T @ border,
        g=jnp.zeros((nodes + 1, n), dtype),
        g_border=r_border @ border,
    )
    for part in rows:
        total = _with_rows(total, part)
    return ArrowMatrix(total.D[:-1], total.E, total.B[:-1], total.C, total.g[:-1], total.g_border)


def _with_rows(total: ArrowMatrix, rows: SegmentRows) -> ArrowMatrix:
    """`total` plus the contributions of more rows to H and Jᵀr."""
    N, b = rows.r.shape[0], total.C.shape[0]
    wide = _in_whole_border(rows.border, rows.place, b)
    here = slice(rows.start, rows.start + N)
    D, B, g = (
        old.at[here].add(new)
        for old, new in zip(
            (total.D, total.B, total.g), _products(rows.node, wide, rows.r), strict=True
        )
    )
    E = total.E
    if rows.after is not None:
        there = slice(rows.start + 1, rows.start + N + 1)
        E = E.at[here].add(_product(rows.node, rows.after))
        D, B, g = (
            old.at[there].add(new)
            for old, new in zip((D, B, g), _products(rows.after, wide, rows.r), strict=True)
        )
    C = total.C + jnp.einsum("kma,kmb->ab", wide, wide)
    return ArrowMatrix(D, E, B, C, g, total.g_border + jnp.einsum("km,kmb->b", rows.r, wide))


def _products(J, wide, r):
    """JᵀJ, JᵀW and Jᵀr for each segment, where J are the columns of a node, and W, `wide`, those of the border."""
    return _product(J, J), _product(J, wide), jnp.einsum("kma,km->ka", J, r)


def _product(left, right):
    return jnp.einsum("kma,kmb->kab", left, right)


def _in_whole_border(values: Float[Array, "N m e"], place: Int[Array, "N e"], b: int):
    """A matrix `(N, m, b)` with a column for each entry of the border: `values` at the columns `place`, 0 elsewhere."""
    N, m, _ = values.shape
    index = (jnp.arange(N)[:, None, None], jnp.arange(m)[None, :, None], place[:, None, :])
    return jnp.zeros((N, m, b), values.dtype).at[index].add(values)


def _times(J: Float[Array, "N m c"], x: Float[Array, "N c"]) -> Float[Array, "N m"]:
    return jnp.einsum("kmc,kc->km", J, x)
