"""Objects of the library, built from a scenario."""
