"""The Monte Carlo and adaptive-step examples on the page about ensembles run, and find the results that the page
states."""

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "ensembles.md"


def test_monte_carlo_on_the_page(capsys):
    section = PAGE.read_text().split("\n## Monte Carlo\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, re.S)
    assert len(blocks) == 2
    scope = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), scope)
    said = capsys.readouterr().out
    assert "1000 trajectories, 0 failed" in said
    assert "256 base samples, 0 left out" in said
    indices = scope["sobol_indices"](scope["rolled"], scope["spread"], 256, batched=True).indices
    assert indices["x"]["total"][2] > 0.8  # "the speed about the axis across the path decides"
    assert indices["x"]["total"][0] < 0.1  # "the mass hardly matters"


def test_adaptive_steps_on_the_page():
    section = PAGE.read_text().split("\n## Adaptive steps")[1].split("\n## ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.S)
    scope = {}
    exec(compile(block, str(PAGE), "exec"), scope)
    steps = np.asarray(scope["motion"].stats["num_steps"])
    assert steps[::100].mean() > 10 * np.delete(steps, np.s_[::100]).mean()
    np.testing.assert_allclose(scope["u"], scope["motion"].u, atol=1e-3)
    np.testing.assert_allclose(scope["q"][100:101], scope["motion"].q[100:101], atol=1e-4)
