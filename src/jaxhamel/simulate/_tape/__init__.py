"""Reverse mode of a motion by a tape of its states."""
