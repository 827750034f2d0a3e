"""Stability of motions: linearisation, modes, relative equilibria, curvature."""
