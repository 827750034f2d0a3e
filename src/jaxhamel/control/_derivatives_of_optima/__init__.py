"""Derivatives of optima, and of their costs, by the numbers of the problem."""
