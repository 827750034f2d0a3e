"""Which program the numbers of a run come from, as text that is the same in every process."""
