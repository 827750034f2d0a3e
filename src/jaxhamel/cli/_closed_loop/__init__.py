"""Robots that follow a plan by feedback: built from the tables of a scenario, simulated, and measured."""
