"""Parameters to be identified, and inertias that are physical by construction."""
