"""The Runge–Kutta methods that ensembles step with."""
