"""Searches for a minimum: the loop on the host that control, gaits and identification share."""
