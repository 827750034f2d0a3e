"""The certificate of a collocation: numerical checks that its result is an optimum."""
