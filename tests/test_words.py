"""Counts of things in words."""

import pytest

from jaxhamel import ensemble
from jaxhamel._words import counted


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (1, ("trajectory",), "1 trajectory"),
        (0, ("trajectory",), "0 trajectories"),
        (2, ("run",), "2 runs"),
        (3, ("mass", "masses"), "3 masses"),
        (1, ("mass", "masses"), "1 mass"),
    ],
)
def test_one_and_many(number, words, said):
    assert counted(number, *words) == said


def test_an_ensemble_of_one_says_so():
    study = ensemble.monte_carlo(
        lambda x: {"twice": 2 * x["a"]},
        {"a": ensemble.Distribution("normal", mean=0.0, std=1.0)},
        1,
        seed=0,
    )
    assert str(study).startswith("1 trajectory, 0 failed")
