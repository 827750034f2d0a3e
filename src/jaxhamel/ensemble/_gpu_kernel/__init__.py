"""All steps of a trajectory in one GPU kernel."""
