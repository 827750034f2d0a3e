"""Figures from arrays: one function for each kind, which returns a `matplotlib.figure.Figure` made without pyplot."""
