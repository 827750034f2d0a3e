"""The order of solvers on groups: each wrapper keeps the order of its inner method."""

import diffrax
import numpy as np
import pytest

import jaxhamel.geometry as geo
from jaxhamel.simulate import LieGroup, Projected
from tests.simulate.curves_on_groups import after_steps, distance, exact, exact_rest

SO3, SE3 = geo.SO3(), geo.SE3()

# (space, method, order, numbers of steps): few enough steps that rounding plays no part.
CASES = [
    (SO3, diffrax.Euler(), 1, (64, 128)),
    (SO3, diffrax.Midpoint(), 2, (32, 64)),
    (SO3, diffrax.Heun(), 2, (32, 64)),
    (SO3, diffrax.Bosh3(), 3, (16, 32)),
    (SO3, diffrax.Dopri5(), 5, (8, 16)),
    (SO3, diffrax.Tsit5(), 5, (8, 16)),
    (SO3, diffrax.Dopri8(), 8, (5, 10)),
    (SE3, diffrax.Euler(), 1, (64, 128)),
    (SE3, diffrax.Bosh3(), 3, (16, 32)),
    (SE3, diffrax.Tsit5(), 5, (8, 16)),
    (SE3, diffrax.Dopri8(), 8, (5, 10)),
]
PROJECTED = [
    (SO3, diffrax.Euler(), 1, (64, 128)),
    (SO3, diffrax.Bosh3(), 3, (16, 32)),
    (SE3, diffrax.Tsit5(), 5, (8, 16)),
    (SE3, diffrax.Dopri8(), 8, (5, 10)),
]
WRAPPED = [(LieGroup, *case) for case in CASES] + [(Projected, *case) for case in PROJECTED]


def final_errors(wrapper, space, method, steps):
    q, rest = after_steps(wrapper(method, space), 2.0, steps)
    return float(distance(space, q, exact(space, 2.0))), abs(float(rest - exact_rest(2.0)))


def name(case):
    return f"{case[0].__name__} {type(case[2]).__name__} on {type(case[1]).__name__}"


@pytest.mark.parametrize("case", WRAPPED, ids=name)
def test_order_is_that_of_the_method(case):
    wrapper, space, method, order, (few, many) = case
    coarse = final_errors(wrapper, space, method, few)
    fine = final_errors(wrapper, space, method, many)
    for one, other in zip(coarse, fine, strict=True):  # the configuration, and the rest
        assert other > 1e-15  # the slope is not due to rounding errors
        assert order - 0.4 < np.log2(one / other) < order + 1.6
