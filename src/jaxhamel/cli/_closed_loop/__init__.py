"""Robots in closed loop about a plan: built from the tables of a scenario, simulated, measured."""
