"""Monte Carlo studies: sampling of parameters, storage, statistics. No integrator stands in this folder."""
