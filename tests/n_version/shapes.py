"""Random shapes of systems: a space, a kind, the number of constraints."""

import numpy as np

from jaxhamel.geometry import (
    SE2,
    SE3,
    SO2,
    SO3,
    Euclidean,
    Helical,
    MatrixGroup,
    Product,
    Schoenflies,
)
from tests.n_version.kinds import Kind

# the group of the matrices [[e^a, x], [0, 1]], which is not unimodular: its adjoint representation has a trace
AFFINE_LINE = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]])
LARGEST = 30


def shape(generator, size=None):
    """A random (kind, space, m) with n = `size`, or with a random n from 2 to 30, mostly below 8."""
    n = size or _size(generator)
    bodies = generator.random() < 0.25
    kind = Kind(
        frame=str(generator.choice(["identity", "random", "random", "inverted"])),
        drift=bool(generator.random() < 0.6),
        force=bool(generator.random() < 0.75) or bodies,
        quartic=bool(generator.random() < 0.5) and not bodies,
        prescribed=bool(generator.random() < 0.25) and not bodies,
        bodies=bodies,
    )
    most = min(n - 1, 8)
    return kind, _space(generator, n), int(generator.integers(0, most + 1))


def _size(generator):
    low, high = [(2, 5), (5, 9), (9, 16), (16, LARGEST + 1)][
        generator.choice(4, p=[0.5, 0.3, 0.14, 0.06])
    ]
    return int(generator.integers(low, high))


def _space(generator, n):
    factors = []
    while n:
        factor = _factor(generator, n)
        factors.append(factor)
        n -= factor.dim
    return factors[0] if len(factors) == 1 else Product(*factors)


def _factor(generator, n):
    pitch = float(generator.uniform(-0.5, 0.5))
    groups = (SO2(), SO3(), SE2(), SE3(), Schoenflies(), Helical(pitch), MatrixGroup(AFFINE_LINE))
    fitting = [g for g in groups if g.dim <= n]
    choice = int(generator.integers(0, len(fitting) + 3))
    return (
        fitting[choice] if choice < len(fitting) else Euclidean(int(generator.integers(1, n + 1)))
    )
