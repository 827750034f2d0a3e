"""The package's objects made from a scenario."""
