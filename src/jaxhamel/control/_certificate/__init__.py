"""The certificate of a collocation: what is proved of its result."""
