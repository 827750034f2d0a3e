"""Many short integrations at once."""

from jaxhamel.ensemble._lanes import lanes as lanes
from jaxhamel.ensemble._simulate import simulate as simulate
