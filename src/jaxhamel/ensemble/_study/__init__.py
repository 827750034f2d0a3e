"""Monte Carlo studies: sampling of parameters, storage, statistics. This folder has no integrators."""
