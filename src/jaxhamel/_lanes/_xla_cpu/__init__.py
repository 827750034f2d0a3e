"""Programs written in the form that XLA's CPU compiler turns into fast loops."""
