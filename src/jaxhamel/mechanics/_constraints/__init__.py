"""Forces of constraint, redundant and holonomic constraints."""
