"""Checks that a system's methods agree with one another and with the hypotheses of an equation."""
