"""Integration with equal steps for all trajectories, and its reverse mode."""
