"""Builds robots that follow a plan by feedback from the tables of a scenario, simulates them, and measures their motions."""
