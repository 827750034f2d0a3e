"""Searches by collocation from many starts at once, and the distinct optima among their results."""
