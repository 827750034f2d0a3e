"""Checks of the arguments of `jaxhamel.control`."""
