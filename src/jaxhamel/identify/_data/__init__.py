"""Measurements, and runs with their CSV files, clock and segments."""
