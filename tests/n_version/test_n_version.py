"""300 random systems by every version of the equations: routes, coordinates, and some in lanes and in single precision.

More kinds and spaces, derivatives and ensembles are compared by `python -m tests.n_version`, some systems by SymPy in
`tests.n_version.symbolic`; docs/verification.md has the figures.
"""

import numpy as np
import pytest

from jaxhamel.geometry import SE2, SO3, Euclidean, Helical, Product
from tests.n_version.kinds import Kind, draw
from tests.n_version.versions import (
    EPS,
    accelerations,
    control_of,
    difference,
    in_lanes,
    in_single_precision,
)

EACH = 100
CASES = [
    (Kind(bodies=True), Euclidean(2), 1),
    (Kind(frame="inverted", prescribed=True), Product(SE2(), Helical(0.3)), 2),
    (Kind(frame="identity", drift=False, quartic=False), SO3(), 1),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}".replace(" ", "-"))
def test_every_version_of_the_accelerations(case):
    kind, space, m = case
    batch, control = draw(1, kind, space, m, EACH), control_of(kind)
    found, (own, multiplier), condition = accelerations(batch, control)
    allowed = 1e3 * EPS * np.asarray(condition)
    assert np.all(np.isfinite(found["coordinates"]))
    assert np.all(np.asarray(condition) < 1e8)
    for name, apart in difference(found, "coordinates").items():
        assert np.all(apart < allowed), name
    if m:
        np.testing.assert_allclose(own, multiplier, rtol=0, atol=1e-8 * np.max(np.abs(multiplier)))


def test_in_lanes_and_in_single_precision():
    kind, space, m = CASES[2]
    batch, control = draw(1, kind, space, m, EACH), control_of(kind)
    found, _, condition = accelerations(batch, control)
    versions = {"vmap": found["gauss"], "lanes": in_lanes(batch, control)}
    assert np.all(difference(versions, "vmap")["lanes"] < 1e3 * EPS * np.asarray(condition))
    versions["float32"] = in_single_precision(batch, control)
    assert versions["float32"].dtype == np.float32
    rounding = np.finfo(np.float32).eps * np.asarray(condition)
    assert np.all(difference(versions, "vmap")["float32"] < 1e3 * rounding)
