"""Block-wise normal equations against dense ones."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.identify._linearised._arrow import Linear, SegmentRows, arrow_of

NODES, N, BORDER = 5, 3, 6  # two runs of 3 and 2 nodes; two offsets of each run, two parameters


def rows_and_dense(seed=0):
    """Rows of measurements and of gaps between segments in blocks, and the same matrix as a dense array."""
    rng = np.random.default_rng(seed)
    found, dense, residuals = [], [], []
    for start, count, run, m, gaps in (
        (0, 3, 0, 7, False),
        (3, 2, 1, 5, False),
        (0, 5, 0, 3, True),
    ):
        r = rng.normal(size=(count, m))
        node, after = rng.normal(size=(2, count, m, N))
        after = after if gaps else None
        border = rng.normal(size=(count, m, 4))
        place = np.tile([2 * run, 2 * run + 1, 4, 5], (count, 1))
        if gaps:
            after[2] = after[4] = 0.0  # ends of runs
        for k in range(count):
            block = np.zeros((m, NODES * N + BORDER))
            block[:, (start + k) * N : (start + k + 1) * N] = node[k]
            if gaps and k < 4:
                block[:, (k + 1) * N : (k + 2) * N] = after[k]
            block[:, NODES * N + place[k]] += border[k]
            dense.append(block)
        residuals.append(r.ravel())
        arrays = [None if a is None else jnp.asarray(a) for a in (r, node, after, border)]
        found.append(SegmentRows(*arrays, jnp.asarray(place), start))
    prior = rng.normal(size=(2, BORDER))
    r_prior = rng.normal(size=2)
    J = np.vstack([*dense, np.hstack([np.zeros((2, NODES * N)), prior])])
    r = np.concatenate([*residuals, r_prior])
    scale = np.exp(rng.normal(size=J.shape[1]))
    return tuple(found), jnp.asarray(r_prior), jnp.asarray(prior), J * scale, r, jnp.asarray(scale)


def test_blocks_are_those_of_the_dense_matrix():
    rows, r_prior, prior, J, r, scale = rows_and_dense()
    arrow = arrow_of(rows, NODES, r_prior, prior).scaled(scale)
    np.testing.assert_allclose(arrow.gradient, J.T @ r, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(arrow.diagonal, np.sum(J**2, axis=0), rtol=1e-12)
    y = np.random.default_rng(1).normal(size=J.shape[1])
    linear = Linear(rows, prior, scale, NODES)
    np.testing.assert_allclose(linear @ jnp.asarray(y), J @ y, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("damping", [1e-6, 0.3, 1e8])
def test_steps_are_those_of_the_dense_matrix(damping):
    rows, r_prior, prior, J, r, scale = rows_and_dense()
    arrow = arrow_of(rows, NODES, r_prior, prior).scaled(scale)
    H = J.T @ J + damping * np.eye(J.shape[1])
    np.testing.assert_allclose(
        arrow.solved(jnp.asarray(damping)), np.linalg.solve(H, J.T @ r), rtol=1e-7, atol=1e-14
    )


def test_decrement_is_what_a_full_step_gains():
    rows, r_prior, prior, J, r, scale = rows_and_dense()
    arrow = arrow_of(rows, NODES, r_prior, prior).scaled(scale)
    left = r - J @ np.linalg.lstsq(J, r, rcond=None)[0]
    gain = (r @ r - left @ left) / 2
    np.testing.assert_allclose(arrow.decrement(), gain, rtol=1e-8)


def test_without_a_border_nodes_alone_are_solved():
    rows, *_ = rows_and_dense()
    bare = tuple(
        SegmentRows(p.r, p.node, p.after, p.border[:, :, :0], p.place[:, :0], p.start) for p in rows
    )
    arrow = arrow_of(bare, NODES, jnp.zeros(0), jnp.zeros((0, 0)))
    assert arrow.solved(jnp.asarray(1.0)).shape == (NODES * N,)
    assert np.all(np.isfinite(arrow.solved(jnp.asarray(1.0))))
