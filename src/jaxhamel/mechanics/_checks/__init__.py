"""Checks of systems, and of the arguments of `jaxhamel.mechanics`."""
