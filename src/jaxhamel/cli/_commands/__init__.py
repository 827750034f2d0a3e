"""The commands of the command line: `_simulate.py` has `jaxhamel simulate`, and so on."""
