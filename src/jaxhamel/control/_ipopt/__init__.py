"""IPOPT, a package of its own, on the transcription of `Collocation`."""
