"""Pontryagin's conditions on the group, multiple shooting on them, and continuation in a parameter."""
