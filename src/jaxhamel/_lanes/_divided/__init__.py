"""Functions divided into parts: scalar operations, operations on large shared arrays, and look-ups in tables."""
