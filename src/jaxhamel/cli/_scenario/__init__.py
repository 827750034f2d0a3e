"""Reads scenario files: their keys and values, and the messages for wrong keys and values."""
