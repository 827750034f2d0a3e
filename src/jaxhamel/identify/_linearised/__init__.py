"""Residuals of a fit, their linearisation, and the search on it."""
