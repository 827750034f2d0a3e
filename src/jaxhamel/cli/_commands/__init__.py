"""The work of each command: that of `jaxhamel simulate` is in `_simulate.py`, and so for the others."""
