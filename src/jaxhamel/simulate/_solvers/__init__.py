"""Integration methods: explicit Runge–Kutta tableaus, Lie groups, variational steps, projections."""
