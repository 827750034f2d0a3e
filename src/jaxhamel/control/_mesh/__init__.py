"""The mesh of a collocation: refinement, nodes at switches of the control, nodes whose times are unknowns."""
