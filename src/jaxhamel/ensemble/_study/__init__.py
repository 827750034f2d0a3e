"""Parameters drawn from distributions, quantities of their motions, statistics: no integrator in here."""
