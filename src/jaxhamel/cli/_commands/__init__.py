"""The work of the commands, in one file for each: `_simulate.py` for `jaxhamel simulate`."""
