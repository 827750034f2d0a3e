"""The graph of scalar operations, and the transformations that make it smaller."""
