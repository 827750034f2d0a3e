"""Scenario files: their keys, their values, and the messages about wrong ones."""
