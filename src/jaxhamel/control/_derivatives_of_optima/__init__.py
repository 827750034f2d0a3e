"""Derivatives of optimal solutions and optimal costs by the numbers of the problem."""
