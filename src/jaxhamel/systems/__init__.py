"""Named systems: one body per file, with its parameters, invariants, known solutions and source."""

from jaxhamel.systems._rails import (
    CircularRails as CircularRails,
    EllipticRails as EllipticRails,
    FigureEightRails as FigureEightRails,
    MixedRails as MixedRails,
    StraightRails as StraightRails,
)
