"""jaxhamel: differentiable dynamics of constrained mechanical systems in JAX."""
