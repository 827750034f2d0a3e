"""Conditions on the state that end a simulation."""
