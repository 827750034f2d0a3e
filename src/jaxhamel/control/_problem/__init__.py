"""An optimal control problem: costs, constraints, and the curves among which a search finds the control."""
