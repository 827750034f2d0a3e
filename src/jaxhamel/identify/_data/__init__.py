"""Measurements, runs, and the files that hold them."""
