"""Named systems: one body per file, with its parameters, invariants, known solutions, source."""

from jaxhamel.systems._rails import CircularRails as CircularRails
from jaxhamel.systems._rails import EllipticRails as EllipticRails
from jaxhamel.systems._rails import FigureEightRails as FigureEightRails
from jaxhamel.systems._rails import MixedRails as MixedRails
from jaxhamel.systems._rails import StraightRails as StraightRails
