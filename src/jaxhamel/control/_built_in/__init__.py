"""The built-in control problems: their systems, and one function for each problem."""
