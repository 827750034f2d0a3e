"""The content of functions and objects: how a compiled program is found again for a function written once more."""
