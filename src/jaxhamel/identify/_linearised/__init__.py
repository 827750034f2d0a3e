"""The residuals of a fit, their linearisation, and the least-squares solvers that use it."""
