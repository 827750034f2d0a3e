"""dexp and its inverse: the series, the inverse, and the differential of exp itself."""

from functools import partial

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.geometry.cases import Case, adjoint, by_case_and_dtype, close, compiled, increments, phi

precisions = pytest.mark.parametrize(**by_case_and_dtype)


@precisions
@given(data=st.data())
def test_dexp_is_its_series_and_dexpinv_its_inverse(case: Case, dtype, data):
    delta = data.draw(increments(case, dtype))
    expected = phi(adjoint(case, delta.astype(np.float64)))
    close(compiled(case.space, "dexp")(delta), expected, dtype)
    close(compiled(case.space, "dexpinv")(delta), np.linalg.inv(expected), dtype, units=32)


@partial(jax.jit, static_argnums=0)
def body_velocity(space, delta, rate):
    """Body velocity v of exp(φ(t)) with φ = delta, φ̇ = rate, by differentiating exp."""
    return space.velocity(*jax.jvp(space.exp, (delta,), (rate,)))


@precisions
@given(data=st.data())
def test_dexp_is_the_differential_of_exp(case: Case, dtype, data):
    """Body velocity dexp(−φ) φ̇; spatial velocity Ad v = dexp(φ) φ̇."""
    delta, rate = (data.draw(increments(case, dtype)) for _ in range(2))
    dexp, exp, Ad = (compiled(case.space, name) for name in ("dexp", "exp", "Ad"))
    v = body_velocity(case.space, delta, rate)
    close(v, dexp(-delta) @ rate, dtype, units=64)
    close(Ad(exp(delta)) @ v, dexp(delta) @ rate, dtype, units=64)
