"""Integration of an ensemble in which each trajectory takes steps of its own lengths, with its derivatives."""
