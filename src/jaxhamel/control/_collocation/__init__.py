"""Direct collocation on the tangent space of the group, and the interior-point method that solves it."""
