"""Scenario files: their keys, their values, and the messages for wrong ones."""
