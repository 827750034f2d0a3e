"""The interior-point method of collocations, and the linear algebra of its steps."""
