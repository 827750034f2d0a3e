"""The members of an ensemble: what each has of its own and what all of them share."""
