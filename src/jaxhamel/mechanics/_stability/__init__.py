"""Motions near a motion: linearisation, modes, relative equilibria, curvature."""
