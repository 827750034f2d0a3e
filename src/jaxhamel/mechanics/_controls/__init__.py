"""Controls of every kind, and the systems whose velocities or whose parts' second rates are the control."""
