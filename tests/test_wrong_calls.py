"""Calls with one wrong argument, drawn at random from those of `wrong_calls.py`."""

from tests.wrong_calls import drawn


def test_wrong_calls_are_refused():
    """No error of another package, and no result."""
    assert [call for call in drawn(seed=18, count=300) if call[3] != "refused"] == []
