"""Presents the motion of any system as columns of a table, a 3-D scene, charts and numbers."""
