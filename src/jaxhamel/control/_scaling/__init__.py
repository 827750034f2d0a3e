"""The scaling of a search: the unit of its cost, and the typical sizes of its unknowns and equations."""
