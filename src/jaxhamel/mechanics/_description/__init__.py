"""The declarations in a system's class: parameters with units, parts of the state, outputs, shapes to draw."""
