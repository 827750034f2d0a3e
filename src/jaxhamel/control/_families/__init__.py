"""Many problems that differ in their numbers, solved at once."""
