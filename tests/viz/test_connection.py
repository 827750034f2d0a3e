"""Figures of connections over shape space show −A and B of `geometry`; bad input is named."""

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.image import imread

from jaxhamel import SO2
from jaxhamel.viz import connection_figure, curvature_figure, gait_figure, save

LIMITS = ((-1.0, 1.0), (-2.0, 2.0))
TS = np.linspace(0, 1, 41)
LOOP = np.stack([0.5 * np.cos(2 * np.pi * TS), np.sin(2 * np.pi * TS)], axis=1)


def connection(r):
    """The connection u = θ̇ + x ẏ, with a flat second row and a zero third row."""
    zero = jnp.zeros_like(r[0])
    return jnp.stack([jnp.stack([zero, r[0]]), jnp.stack([zero + 2.0, zero]), 0 * r])


def panels(figure):
    return [axes for axes in figure.axes if axes.get_xlabel()]


def test_arrows_are_minus_the_rows():
    """−A = (0, −x): down on the right, up on the left; the second row points to −r_1 everywhere."""
    figure = connection_figure(connection, LIMITS, gaits={"loop": LOOP}, arrows=5)
    turn, forward, nothing = panels(figure)
    (arrows,) = (c for c in turn.collections if hasattr(c, "U"))
    x = arrows.XY[:, 0]
    np.testing.assert_allclose(arrows.U, 0, atol=1e-15)
    np.testing.assert_allclose(arrows.V / np.max(np.abs(arrows.V)), -x, atol=1e-15)
    (arrows,) = (c for c in forward.collections if hasattr(c, "U"))
    assert np.all(arrows.U < 0)
    assert "2 m per unit" in forward.get_title(loc="right")
    assert nothing.get_title(loc="right") == "zero everywhere"
    np.testing.assert_array_equal(turn.lines[0].get_xydata(), LOOP)


def test_heights_are_the_curvature():
    """B_12 = ∂A_1/∂y − ∂A_2/∂x = −1 − 2 x y: one sign in the middle, zero on the hyperbola."""

    def curved(r):
        x, y = r
        return jnp.stack([jnp.zeros_like(x), x + x * x * y])[None]

    names = {"names": ("turn",), "units": ("rad",)}
    figure = curvature_figure(curved, LIMITS, SO2(), samples=41, **names)
    (axes,) = panels(figure)
    filled, zero = axes.collections
    low, high = filled.get_clim()
    assert low == -high
    np.testing.assert_allclose(high, 5.0, rtol=1e-6)
    line = np.concatenate([path.vertices for path in zero.get_paths()])
    np.testing.assert_allclose(line[:, 0] * line[:, 1], -0.5, atol=2e-2)
    flat = curvature_figure(lambda r: 0.0 * r[None], LIMITS, SO2(), samples=9, **names)
    assert panels(flat)[0].get_title(loc="right") == "zero everywhere"


def test_a_plane_of_three_shapes():
    """B_13 of A = (0, 0, x) + z-dependent terms, at y = 4."""

    def three(r):
        return jnp.stack([jnp.zeros_like(r[0]), r[0], r[0] * r[1]])[None]

    options = {"plane": (0, 2), "at": [0.0, 4.0, 0.0], "names": ("turn",), "units": ("rad",)}
    figure = curvature_figure(three, LIMITS, SO2(), samples=9, **options)
    np.testing.assert_allclose(panels(figure)[0].collections[0].get_clim()[1], 4.0)
    figure = connection_figure(three, LIMITS, arrows=5, **options)
    assert "longest arrow: 4 rad" in panels(figure)[0].get_title(loc="right")


def test_gait_figure_shows_path_poses_and_cycles(tmp_path):
    path = np.stack([0.3 * np.sin(8 * TS), TS, 0.1 * np.cos(8 * TS)], axis=1)
    figure = gait_figure(path, 3, length=0.2, poses=5)
    plane, position, angle = figure.axes
    np.testing.assert_array_equal(plane.lines[0].get_xydata(), path[:, 1:])
    sticks = [line.get_xydata() for line in plane.lines[1:] if len(line.get_xdata()) == 2]
    assert len(sticks) == 5
    for stick, row in zip(sticks, path[[0, 10, 20, 30, 40]], strict=True):
        along = stick[1] - stick[0]
        np.testing.assert_allclose(stick.mean(axis=0), row[1:], atol=1e-15)
        np.testing.assert_allclose(
            along, 0.2 * np.array([np.cos(row[0]), np.sin(row[0])]), atol=1e-15
        )
    assert position.get_xlim() == angle.get_xlim() == (0, 3)
    assert angle.get_ylabel() == "angle / rad"
    save(figure, tmp_path / "gait.png", dpi=50)
    assert imread(tmp_path / "gait.png").std() > 0.01


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"limits": ((1, -1), (0, 1))}, "`limits` is .*low below high"),
        ({"limits": (1, 2)}, "`limits` is .*low below high"),
        ({"plane": (0, 0)}, "`plane` is .*two different"),
        ({"plane": (0, 2)}, "`plane` is .*`at`"),
        ({"names": ("turn",)}, "`names` has 1 entry; the connection has 3 rows"),
        ({"units": ("rad",) * 4}, "`units` has 4 entries"),
        ({"gaits": {"g": LOOP[:3]}}, r"the gait 'g' in `gaits` has shape \(3, 2\)"),
    ],
)
def test_messages(change, message):
    with pytest.raises(ValueError, match=message):
        connection_figure(**{"connection": connection, "limits": LIMITS, "arrows": 3, **change})


def test_messages_of_the_gait_figure():
    with pytest.raises(ValueError, match=r"`path` has shape \(41, 2\)"):
        gait_figure(LOOP, 1)
    with pytest.raises(ValueError, match="`cycles` is 0"):
        gait_figure(np.zeros((9, 3)), 0)
