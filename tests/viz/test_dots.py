"""Many dots of a figure are one SVG path, which is small and has the dots' positions."""

import re

import numpy as np
import pytest

from jaxhamel.viz import Chart, fit_figure, residuals_figure
from jaxhamel.viz._charts import inline_svg

SAMPLES = 1001
TS = np.linspace(0.0, 20.0, SAMPLES)
TRUTH = np.sin(TS)[:, None] * np.array([1.0, 2.0, 3.0])
MEASURED = TRUTH + 0.1 * np.random.default_rng(0).normal(size=TRUTH.shape)


def fit(samples=SAMPLES):
    shown = [x[:samples] for x in (TS, MEASURED, TRUTH)]
    figure = fit_figure(*shown, ["a", "b", "c"], title="fit", ylabel="y")
    return figure, inline_svg(Chart("fit", figure, "a fit"))


@pytest.fixture(scope="module")
def figure_and_svg():
    return fit()


def test_a_thousand_times_three_dots_are_small(figure_and_svg):
    """As separate elements the dots would take 520 kB."""
    assert len(figure_and_svg[1]) < 90e3


def test_residuals_are_small():
    errors = {name: MEASURED[:, i] - TRUTH[:, i] for i, name in enumerate("abc")}
    noise = dict.fromkeys(errors, 0.1)
    figure = residuals_figure(TS, errors, noise, title="errors")
    svg = inline_svg(Chart("errors", figure, "errors"))
    assert len(svg) < 90e3
    assert svg.count('class="dots"') == 3


def test_dots_are_where_the_values_are(figure_and_svg):
    """Positions are in points from the top left, to a hundredth."""
    figure, svg = figure_and_svg
    drawn = re.findall(r'<path class="dots" d="([^"]*)"', svg)
    to_points = 72 / figure.dpi
    height = figure.get_figheight() * 72
    for path, values in zip(drawn, MEASURED.T, strict=True):
        places = np.array(re.findall(r"M([\d.-]+) ([\d.-]+)h0", path), float)
        exact = figure.axes[0].transData.transform(np.column_stack([TS, values])) * to_points
        np.testing.assert_allclose(places[:, 0], exact[:, 0], atol=0.006)
        np.testing.assert_allclose(places[:, 1], height - exact[:, 1], atol=0.006)


def test_dots_keep_colour_and_transparency(figure_and_svg):
    looks = re.findall(r'<path class="dots"[^>]*style="([^"]*)"', figure_and_svg[1])
    for i, look in enumerate(looks, 1):
        assert f"stroke: var(--series{i}); stroke-opacity: 0.45" in look
        assert "stroke-width: 2.25; stroke-linecap: round" in look


def test_few_dots_stay_as_they_are():
    svg = fit(samples=20)[1]
    assert 'class="dots"' not in svg
    assert svg.count("<use") >= 60


@pytest.mark.parametrize("key", ["2J-1", "200"])
def test_identifiers_have_the_name_of_the_chart_whatever_that_is(key):
    """A chart's name may begin with a digit, which must not be read as part of a group's number."""
    figure = fit_figure(TS[:3], MEASURED[:3], TRUTH[:3], ["a", "b", "c"], title="fit", ylabel="y")
    names = re.findall(r'\bid="([^"]*)"', inline_svg(Chart(key, figure, "a fit")))
    assert names
    assert all(name.startswith(f"{key}-") for name in names)
