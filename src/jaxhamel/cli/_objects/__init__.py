"""Builds the library's objects from a scenario."""
