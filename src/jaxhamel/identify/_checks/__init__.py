"""Checks of the arguments of `jaxhamel.identify`."""
