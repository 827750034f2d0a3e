"""The commands, one file for each: `_simulate.py` is `jaxhamel simulate`."""
