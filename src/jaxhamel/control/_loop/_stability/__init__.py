"""Stability of digital loops: growth along a plan, multipliers about an equilibrium, and a sentence with the reason."""
