"""One period of a closed loop, and the periods of an ensemble in lanes."""
