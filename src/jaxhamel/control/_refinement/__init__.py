"""Mesh refinement: the error between the nodes, a mesh that spreads it evenly, and the iterate on the new mesh."""
