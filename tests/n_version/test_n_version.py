"""300 random systems by every version of the equations: routes, coordinates, lanes, single precision, ensembles.

Five thousand by `python -m tests.n_version`, some by SymPy in `tests.n_version.symbolic`; docs/verification.md has the figures.
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
    motions,
)

EACH = 60
CASES = [
    (Kind(bodies=True), Product(SO3(), Euclidean(1)), 2),
    (Kind(frame="inverted", prescribed=True), Product(SE2(), Helical(0.3)), 1),
    (Kind(frame="identity", drift=False, quartic=False), SO3(), 1),
    (Kind(drift=False, force=False), Product(SE2(), SE2()), 0),
    (Kind(prescribed=True, quartic=False), Euclidean(2), 1),
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
    kind, space, m = CASES[0]
    batch, control = draw(1, kind, space, m, EACH), control_of(kind)
    found, _, condition = accelerations(batch, control)
    versions = {"vmap": found["gauss"], "lanes": in_lanes(batch, control)}
    assert np.all(difference(versions, "vmap")["lanes"] < 1e3 * EPS * np.asarray(condition))
    versions["float32"] = in_single_precision(batch, control)
    assert versions["float32"].dtype == np.float32
    rounding = np.finfo(np.float32).eps * np.asarray(condition)
    assert np.all(difference(versions, "vmap")["float32"] < 1e3 * rounding)


def test_every_form_of_an_ensemble():
    """`simulate` under vmap, `ensemble.simulate` and `rollout`: the same steps, equal or adaptive, so the same numbers."""
    kind, space, m = CASES[2]
    batch = draw(3, kind, space, m, 20)
    for steps, versions in motions(batch, control_of(kind)).items():
        for name, apart in difference(versions, "vmap").items():
            assert np.all(apart < 1e-12), (steps, name)
