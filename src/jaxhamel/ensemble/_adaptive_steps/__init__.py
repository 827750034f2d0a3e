"""Integration in which each trajectory chooses its own steps, and its derivatives."""
