"""What a system's class declares: parameters with units, parts of the state, outputs, shapes to draw."""
