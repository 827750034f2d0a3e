"""`lanes`, a JAX transform: a function of one trajectory as scalar operations on batch vectors, with both derivatives.

Nothing here knows of mechanics, so that every folder may use it.
"""
