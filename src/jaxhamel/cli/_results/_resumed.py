"""A search of `control` that continues: its point is on disk from the start, so that any end of the command keeps it.

This is apart from `_search_file`, because the command reads that file before it imports JAX.
"""

import time
from collections.abc import Mapping
from typing import Any

from jaxhamel.cli._interrupt import guard
from jaxhamel.cli._results._folder import SEARCH, over_at_first
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._results._outputs import write_summary
from jaxhamel.cli._results._search_file import SearchFile
from jaxhamel.cli._scenario._scenario import Scenario


def point_stands(
    scenario: Scenario, file: SearchFile, budget: float, started: float, top: Mapping[str, Any]
) -> None:
    """Notes that the point of the search before is on disk, and writes a summary of a search without an iteration.

    **Arguments:** `budget`: the time limit of the command [s]; `top`: further entries of the summary.
    """
    guard.on_disk(f"{scenario.name}: {over_at_first(budget, file.path)}")
    words = (
        f"the command was ended before the first iteration of the resumed search; the point of the search before is still "
        f"in {file.path}: go on with --resume"
    )
    reached = {"iterations": 0, "converged": False}
    seconds = time.monotonic() - started
    outcome = Outcome(
        "control", scenario, "failed", words, started, seconds, reached, files=(SEARCH,), top=top
    )
    write_summary(file.path.parent / "summary.json", outcome.summary(["summary.json"]))
