"""Many short integrations at once."""

from jaxhamel.ensemble._lanes import lanes as lanes
