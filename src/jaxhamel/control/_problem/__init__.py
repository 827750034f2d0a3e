"""An optimal control problem: costs, constraints and the curves that are searched."""
