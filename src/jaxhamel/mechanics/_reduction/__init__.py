"""Symmetric systems: connections, momenta and the reduced equations."""
