"""Canonical text of the program that computes a run, equal in every process."""
