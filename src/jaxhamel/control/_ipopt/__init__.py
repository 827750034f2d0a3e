"""Solves the transcription of `Collocation` by IPOPT, an external package."""
