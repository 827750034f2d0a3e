"""Checks of ensembles: axes, distributions, quantities, folders of results."""
