"""Periodic motions of the shape that move the body."""
