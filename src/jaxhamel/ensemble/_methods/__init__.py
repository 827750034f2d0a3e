"""The Runge–Kutta methods of ensembles."""
