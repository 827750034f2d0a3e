"""A ball whose masses are moved: the angles of its masses from encoders, in the file of each run."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import control, identify
from jaxhamel._splines import basis_values
from jaxhamel.systems import CircularRails, RollingBall

RAILS = CircularRails(
    [0.07, 0.06], [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
)
PLACE, RATE = identify.Position(noise=1e-4), identify.AngularRate(noise=1e-3)


def ball(masses):
    return RollingBall(0.1, 1.0, [6e-3, 6e-3, 6e-3], [0.0, 0.0, 0.0], masses, RAILS)


class Swing:
    """θ(t) − θ0 of the two masses."""

    def __call__(self, t):
        return jnp.stack([-1.5 + 0.4 * jnp.sin(3.0 * t), -1.6 + 0.3 * jnp.sin(4.0 * t + 1.0)])


def file_of(path, seconds, lost=()):
    """A file with the exact motion at 100 Hz; encoders of 0.36°, with some values lost."""
    ts = np.arange(round(seconds * 100) + 1) / 100
    q0 = jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(2)
    motion = jaxhamel.simulate(ball([0.4, 0.6]), q0, jnp.zeros(3), jnp.asarray(ts), Swing())
    angles = np.degrees(np.stack([np.asarray(Swing()(t)) for t in ts]))
    table = np.column_stack(
        [ts, np.asarray(motion.q[1]), np.asarray(motion.u), np.round(angles / 0.36) * 0.36]
    )
    lines = [",".join(f"{x:.9f}" for x in row) for row in table]
    for k in lost:
        lines[k] = lines[k].rsplit(",", 1)[0] + ","
    path.write_text("\n".join(["t,x,y,wx,wy,wz,first,second", *lines]) + "\n", encoding="utf-8")
    return path


def read(path):
    place = identify.Position(columns=("x", "y"), noise=1e-4)
    rate = identify.AngularRate(columns=("wx", "wy", "wz"), noise=1e-3)
    motor = identify.ControlColumns(["first", "second"], "smooth", factor=np.pi / 180, knots=15.0)
    return (place, rate), identify.read_csv(path, (place, rate), control=motor)


def test_the_spline_follows_the_encoders(tmp_path):
    run = read(file_of(tmp_path / "run.csv", 2.0, lost=(30, 31, 77)))[1]
    assert isinstance(run.control, control.Spline)
    for t in (0.0, 0.7, 1.95):
        np.testing.assert_allclose(run.control(t), Swing()(t), atol=np.radians(0.3))


def test_finds_the_masses(tmp_path):
    """Runs of different lengths share one program; steps of 0.1° of the encoders leave masses right to a percent."""
    files = [file_of(tmp_path / f"{k}.csv", seconds) for k, seconds in enumerate((2.0, 2.6))]
    measurements, runs = read(files[0])[0], [read(file)[1] for file in files]
    problem = identify.Problem(ball([0.5, 0.5]), [identify.Positive("masses")], measurements, runs)
    assert len(problem.groups) == 1
    estimate = identify.fit(problem)
    assert estimate.converged
    np.testing.assert_allclose(estimate.values, [0.4, 0.6], rtol=0.01)


@pytest.mark.parametrize("span", [(0.0, 3.0), (0.31, 0.9), (1.2, 1.2001), (2.7, 3.0)])
def test_parts_of_a_spline_are_the_spline(span):
    ts = np.linspace(0.0, 3.0, 301)
    whole = control.Spline.fit(ts, np.stack([np.sin(3 * ts), ts**2], 1), 40)
    part = whole.part(*span)
    for curve in (part, part.padded(50)):
        for t in np.linspace(*span, 7):
            np.testing.assert_allclose(curve(t), whole(t), atol=1e-12)


def test_banded_fit_is_the_dense_one():
    ts = np.sort(np.random.default_rng(0).uniform(0.0, 10.0, 2500))
    values = np.stack([np.sin(5 * ts), np.cos(ts)], axis=1)
    banded = control.Spline.fit(ts, values, 450)  # more than a million numbers
    places = (ts - ts[0]) / (ts[-1] - ts[0]) * 445
    dense = np.linalg.lstsq(basis_values(places, 450, 5), values, rcond=None)[0]
    np.testing.assert_allclose(banded.coefficients, dense, atol=1e-7)
    gap = np.concatenate([ts[ts < 4], ts[ts > 6]])
    with pytest.raises(
        ValueError, match="leave some of the 600 coefficients open, as gaps between the times do"
    ):
        control.Spline.fit(gap, gap[:, None], 600)
