"""Constraints that cannot be met together: the least violations of a search by collocation."""
