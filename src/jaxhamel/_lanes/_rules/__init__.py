"""How each JAX primitive becomes scalar operations."""
