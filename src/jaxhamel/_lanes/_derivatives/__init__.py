"""Both derivatives of functions in lanes."""
