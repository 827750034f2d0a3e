"""Figures of ensembles, checked by the data in their axes."""

import numpy as np

from jaxhamel.viz import growth_figure, histograms_figure, landing_figure, residuals_figure
from jaxhamel.viz._figures._ensembles import _without_overlap
from jaxhamel.viz._style import labelled

RNG = np.random.default_rng(1)


def test_growth_shows_the_median_and_leaves_out_the_start():
    """For distances a e^t the median is a straight line of slope one; a trajectory that broke off is left out from then
    on."""
    ts = np.linspace(0.0, 2.0, 21)
    distances = np.outer([1.0, 2.0, 3.0], np.exp(ts))
    distances[:, 0] = 0.0
    distances[2, 15:] = np.nan
    axes = growth_figure(ts, distances).axes[0]
    (line,) = axes.lines
    assert axes.get_yscale() == "log"
    np.testing.assert_allclose(line.get_xdata(), ts[1:])
    np.testing.assert_allclose(line.get_ydata()[:14], 2 * np.exp(ts[1:15]))
    np.testing.assert_allclose(line.get_ydata()[14:], 1.5 * np.exp(ts[15:]))
    assert not growth_figure(ts, np.zeros((3, 21))).axes[0].lines[0].get_xdata().size


def test_ellipses_say_what_they_hold():
    """The ellipses hold half and 95 % of normal points, and none and all of the points on a circle."""

    def labels(ends):
        return landing_figure(ends).axes[0].get_legend_handles_labels()[1]

    half, most = labels(RNG.normal(size=(4000, 2)) @ [[2.0, 1.0], [0.0, 0.5]])
    assert abs(float(half.split()[-2]) - 50) < 3
    assert abs(float(most.split()[-2]) - 95) < 2
    angle = np.linspace(0, 2 * np.pi, 100)
    assert labels(np.column_stack([np.cos(angle), np.sin(angle)])) == [
        "50 % if normal, here 0 %",
        "95 % if normal, here 100 %",
    ]


def test_one_far_away_does_not_hide_the_others():
    """A point a million standard deviations away is not shown, and the figure says so; otherwise all points are shown."""

    def drawn(x):
        axes = histograms_figure({"x / m": x}).axes[0]
        return axes.get_xlabel(), [bar.get_x() for bar in axes.patches], axes.patches

    x = RNG.normal(size=4000)
    label, places, bars = drawn(np.append(x, 1e6))
    assert label == "x / m\n(1 not shown)"
    assert -8 < min(places) < max(places) < 8
    assert sum(bar.get_height() for bar in bars) == 4000
    for values in (x, np.full(5, 2.0)):
        label, _, bars = drawn(values)
        assert label == "x / m"
        assert sum(bar.get_height() for bar in bars) == len(values)
    nearly_all_the_same = np.append(
        np.full(1990, 3.0) + 1e-6 * RNG.normal(size=1990), np.linspace(2, 2.9, 10)
    )
    label, _, bars = drawn(nearly_all_the_same)
    assert label == "x / m\n(10 not shown)"
    assert len(bars) <= 70
    assert sum(bar.get_height() for bar in bars) == 1990
    assert max(bar.get_height() for bar in bars) < 400  # the values spread over several bars
    label, _, bars = drawn(np.append(np.full(1990, 3.0), np.linspace(2, 2.9, 10)))
    assert (label, max(bar.get_height() for bar in bars)) == ("x / m", 1990)


def test_long_numbers_do_not_stand_over_one_another():
    """Of long numbers only the first and last tick are labelled; short ones all are."""
    cell = histograms_figure({"N": RNG.normal(size=100)}).axes[0]
    for ticks, kept in (
        ([24.23825, 24.2385, 24.23875], [24.23825, 24.23875]),
        ([24.2, 24.3, 24.4], [24.2, 24.3, 24.4]),
    ):
        cell.set_xlim(ticks[0] - 1e-4, ticks[-1] + 1e-4)
        cell.set_xticks(ticks)
        _without_overlap(cell)
        np.testing.assert_array_equal(cell.get_xticks(), kept)


def test_what_all_numbers_share_stands_in_the_label():
    """For ends within 10⁻⁵ m about (12, −3.4) the common part is in the label; matplotlib's offset text stood behind
    the legend."""
    ends = np.array([12.0, -3.4]) + 1e-5 * RNG.normal(size=(100, 2))
    figure = landing_figure(ends)
    for _ in range(2):  # a second drawing adds nothing to the label
        figure.canvas.draw()
        (axes,) = figure.axes
        assert axes.get_xlabel() == "(x − 12 m) / $10^{-4}$ m"  # the wider axis
        assert axes.get_ylabel() == "(y + 3.4 m) / $10^{-5}$ m"
        assert not axes.xaxis.get_offset_text().get_text() + axes.yaxis.get_offset_text().get_text()
    plain = landing_figure(1e5 * (ends - [12.0, -3.4]))
    plain.canvas.draw()
    assert (plain.axes[0].get_xlabel(), plain.axes[0].get_ylabel()) == ("x / m", "y / m")
    ts = np.linspace(0.0, 1.0, 5)
    rows = residuals_figure(
        ts, {"gyro x": ts, "gyro y": 1e8 * ts}, {"gyro x": 1.0, "gyro y": 1.0}, title=""
    )
    rows.canvas.draw()
    assert [axes.get_ylabel() for axes in rows.axes] == ["gyro x", "gyro y / $10^{8}$"]


def test_labels_of_shared_numbers():
    assert labelled("x, y / m", 0.0, 0) == "x, y / m"
    assert labelled("energy / J", 9.81, -7) == "(energy − 9.81 J) / $10^{-7}$ J"
    assert labelled("friction needed", 0.0, -3) == "friction needed / $10^{-3}$"
    assert labelled("friction needed", 1.0, 0) == "(friction needed − 1)"
