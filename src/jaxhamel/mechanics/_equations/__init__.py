"""Equations of motion, one family in each file, named as in the literature."""
