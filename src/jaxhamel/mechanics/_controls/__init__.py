"""Controls of all kinds, and systems whose velocities or whose parts' accelerations are the control."""
