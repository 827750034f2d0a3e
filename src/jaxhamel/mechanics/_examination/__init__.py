"""Checks that a system's methods agree with one another and satisfy the hypotheses of an equation."""
