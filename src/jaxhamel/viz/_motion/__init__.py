"""Presents the motion of any system: columns, scene, charts, numbers."""
