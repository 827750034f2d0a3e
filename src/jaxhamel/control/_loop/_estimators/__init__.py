"""Closed loops: digital controllers, and gains that hold a motion to a plan."""
