"""Random calls with one wrong argument, from those of `wrong_calls.py`."""

from tests.wrong_calls import drawn


def test_wrong_calls_are_refused():
    """Each call raises an error of this package; none raises another error or returns a result."""
    assert [call for call in drawn(seed=18, count=300) if call[3] != "refused"] == []
