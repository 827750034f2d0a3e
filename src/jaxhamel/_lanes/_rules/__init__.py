"""Rules that turn each JAX primitive into scalar operations."""
