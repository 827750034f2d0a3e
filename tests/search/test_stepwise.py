"""Steps of a compiled solver in several calls: how many each call asks for, and what it keeps of their costs."""

import numpy as np
import pytest

from jaxhamel._search import _stepwise
from jaxhamel._search._loop import Progress
from jaxhamel._search._stepwise import Stepwise, StepwiseState


@pytest.mark.parametrize("over_at", [None, 5])
def test_calls_ask_for_no_more_steps_than_are_left(monkeypatch, over_at):
    """The first call is one step, to be timed; the last is known as such, and the report needs it."""
    asked = []

    def advance(task, at, many, last):
        asked.append((int(many), bool(last)))
        steps = min(at.steps + int(many), over_at or 1000)
        costs = np.pad(1.0 / np.arange(at.steps + 1, steps + 1), (0, 64 - (steps - at.steps)))
        return (
            StepwiseState(at.y, [], steps, steps == over_at, _stepwise.optx.RESULTS.successful),
            costs,
            (),
        )

    start = StepwiseState(np.zeros(1), [], 0, False, _stepwise.optx.RESULTS.successful)
    monkeypatch.setattr(_stepwise, "_initial_state", lambda task: start)
    monkeypatch.setattr(_stepwise, "_after_steps", advance)
    monkeypatch.setattr(_stepwise, "BURST_SECONDS", 1e9)
    search = Stepwise(None, 7)
    ending = search.run()
    assert asked == [(1, False), (1, False), (5, True)]
    steps = over_at or 7
    np.testing.assert_array_equal(search.history["cost"], 1.0 / np.arange(1, steps + 1))
    assert ending.converged == (over_at is not None)
    assert search.report().cost == 1.0 / steps  # of the last step


def test_a_line_of_progress_has_what_the_method_has():
    cost = Progress.of_cost(3, 0.25, 2.0, 9.0)
    assert str(cost) == "   3   cost 0.25   2 s   9 s left"
    assert cost.accepted
    full = cost._replace(tracking_rms=0.01, defect=2e-3)
    assert str(full) == "   3   cost 0.25   tracking 0.01 m   gaps 2.0e-03   2 s   9 s left"
