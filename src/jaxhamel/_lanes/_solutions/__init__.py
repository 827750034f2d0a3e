"""JAX primitives for the solution of symmetric linear equations."""
