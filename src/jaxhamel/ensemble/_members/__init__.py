"""The members of an ensemble: their per-trajectory and shared inputs."""
