"""The content of functions and objects: a key by which the program compiled for an equal function is found again."""
