"""Checks of systems: shapes, bodies, constraints, configuration spaces."""
