"""Figures of arrays: one function for each kind, which returns a `matplotlib.figure.Figure` that pyplot does not manage."""
