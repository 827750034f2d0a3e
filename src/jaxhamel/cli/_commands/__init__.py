"""The work of the commands: `_simulate.py` does that of `jaxhamel simulate`, and likewise for the others."""
