"""Rank and condition number of matrices with known singular values."""

import numpy as np

from jaxhamel.mechanics._examination._boundary import conditioning


def test_known_singular_values():
    """diag(4, 0.5) between rotations, a matrix with equal rows, and one without rows."""
    c, s = np.cos(0.7), np.sin(0.7)
    turn = np.array([[c, -s], [s, c]])
    found = conditioning(turn @ np.diag([4.0, 0.5]) @ turn.T @ turn)
    assert (found.rank, found.is_full) == (2, True)
    np.testing.assert_allclose(found.condition, 8.0, rtol=1e-14)
    found = conditioning(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]))
    assert (found.rank, found.is_full, found.condition) == (1, False, np.inf)
    assert conditioning(np.zeros((0, 3))) == ((0, 3), 0, 1.0)


def test_one_entry_that_is_not_finite():
    for wrong in (np.nan, np.inf):
        found = conditioning(np.array([[1.0, wrong], [0.0, 1.0]]))
        assert (found.rank, found.is_full, found.condition) == (0, False, np.inf)
