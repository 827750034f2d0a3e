"""The loop on the host: when a search ends, what it reports, and what Ctrl-C leaves."""

import itertools
import time

import jax
import numpy as np
import pytest

from jaxhamel._search import _loop
from jaxhamel._search._loop import AbstractSearch, OutOfTime, Verdict, compiled_before


class Halving(AbstractSearch):
    """Costs 1, 1/2, 1/4, …: `pieces` of them at a time, converged below `least`."""

    def __init__(self, iterations=100, seconds=float("inf"), least=0.0, pieces=1, stop_at=None):
        super().__init__(iterations, seconds)
        self.least, self.pieces, self.stop_at = least, pieces, stop_at

    def make_iterations(self):
        if self.stop_at is not None and len(self.rows) >= self.stop_at:
            raise KeyboardInterrupt
        for _ in range(self.pieces):
            self.note(cost=0.5 ** len(self.rows))

    def verdict(self):
        below = self.rows[-1]["cost"] < self.least
        return Verdict(True, "below the least") if below else None

    def report(self):
        return len(self.rows), self.rows[-1]["cost"], self.time_left()


@pytest.fixture
def clock(monkeypatch):
    """A second passes each time that the loop looks."""
    ticks = itertools.count()
    monkeypatch.setattr(_loop.time, "monotonic", lambda: float(next(ticks)))


def test_a_search_ends_where_it_converges_or_its_budget_is_spent():
    told = []
    search = Halving(least=0.1)
    assert search.run(told.append) == (True, "below the least")
    assert [cost for _, cost, _ in told] == [1.0, 0.5, 0.25, 0.125, 0.0625]
    np.testing.assert_array_equal(search.history["cost"], 0.5 ** np.arange(5))
    assert np.all(np.diff(search.history["seconds"]) >= 0)
    assert Halving(3).run() == (False, "out of iterations (3): best so far")
    assert Halving(5, least=0.1).run()[0]  # it converges in the last one


def test_one_iteration_is_made_without_any_time():
    search = Halving(seconds=0.0)
    assert search.run() == (False, "out of time (0 s): best so far")
    assert len(search.rows) == 1


class Late(Halving):
    """A search whose program is traced until its time is over."""

    def make_iterations(self):
        with compiled_before(self.began + self.seconds):
            jax.jit(self.traced)(1.0)
        super().make_iterations()

    def traced(self, x):
        _loop._DEADLINE.set(0.0)
        return x + 1.0

    def look_at_start(self):
        self.note(cost=2.0)


def test_nothing_is_compiled_after_the_deadline():
    search = Late(seconds=1e3)
    why = "out of time (1000 s) after 0 iterations, before its program was compiled: best so far"
    assert search.run() == (False, why)
    assert [row["cost"] for row in search.rows] == [2.0]
    increment = jax.jit(lambda x: x + 1.0)
    with pytest.raises(OutOfTime), compiled_before(time.monotonic() - 1.0):
        increment(1.0)
    assert increment(1.0) == 2.0


def test_no_compilation_begins_that_would_end_after_the_deadline():
    """Programs that are compiled already still run."""
    increment, decrement = jax.jit(lambda x: x + 1.0), jax.jit(lambda x: x - 1.0)
    decrement(1.0)
    with compiled_before(time.monotonic() + 100.0, compiling=200.0):
        assert decrement(1.0) == 0.0
        with pytest.raises(OutOfTime):
            increment(1.0)
    with compiled_before(time.monotonic() + 100.0, compiling=1.0):
        assert increment(1.0) == 2.0


def test_compilation_that_took_the_time_is_said():
    search = Halving(seconds=3.0)
    search.began -= 5.0
    assert search.run().status.endswith(
        "best so far; 5.0 s went by until the first iteration, mostly in compilation"
    )


def test_a_piece_of_several_iterations_is_one_report():
    told = []
    search = Halving(6, pieces=3)
    search.run(told.append)
    assert [n for n, *_ in told] == [3, 6]
    assert len(search.history["cost"]) == 6


class Silent(Halving):
    """Its third piece makes no iteration and ends it."""

    ended = False

    def make_iterations(self):
        self.ended = len(self.rows) == 2
        if not self.ended:
            super().make_iterations()

    def verdict(self):
        return Verdict(False, "nothing is left to do") if self.ended else None


def test_a_piece_without_an_iteration_is_not_reported():
    told = []
    assert Silent().run(told.append) == (False, "nothing is left to do")
    assert [n for n, *_ in told] == [1, 2]


@pytest.mark.parametrize(("stop_at", "words"), [(1, "1 iteration"), (2, "2 iterations")])
def test_ctrl_c_keeps_what_there_is(stop_at, words):
    search = Halving(stop_at=stop_at)
    assert search.run() == (False, f"interrupted after {words}: best so far")
    assert len(search.rows) == stop_at
    with pytest.raises(KeyboardInterrupt):
        Halving(stop_at=0).run()


def test_ctrl_c_while_the_last_iteration_is_reported_changes_no_ending():
    def interrupt(told):
        if told[0] == 5:
            raise KeyboardInterrupt

    assert Halving(least=0.1).run(interrupt) == (True, "below the least")
    assert Halving(5).run(interrupt) == (False, "out of iterations (5): best so far")
    assert Halving(9).run(interrupt) == (False, "interrupted after 5 iterations: best so far")


def test_the_time_left_leaves_out_the_first_iteration(clock):
    """Looks of the clock: 0 at the start, 1 and 3 at the first two iterations, 2 and 4 for the budget after them."""
    left = []
    search = Halving(12, seconds=25.0)
    search.run(lambda told: left.append(told[2]))
    assert left[0] == 25.0 - 1  # nothing but compilation so far: all the time there is
    assert left[1] == 2.0 * 10  # 2 s an iteration, ten to go
    assert left[2] == 2.0 * 9
    assert left[-1] == pytest.approx(2.0 * (12 - len(left)))
    assert search.time_left(3) == min(3 * 2.0, 25.0 - search.rows[-1]["seconds"])


def test_the_time_left_is_at_most_what_the_budget_has(clock):
    search = Halving(100, seconds=7.5)
    left = []
    assert search.run(lambda told: left.append(told[2])).status.startswith("out of time (7.5 s)")
    assert left[1:] == [7.5 - 3, 7.5 - 5, 0.5]
