"""Checks of the arguments of `jaxhamel.ensemble`."""
