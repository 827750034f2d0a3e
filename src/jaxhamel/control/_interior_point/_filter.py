"""The filter of the line search: Wächter and Biegler 2006, section 2.3.

A trial is accepted if it lowers the violation θ or the barrier function φ enough, compared with the iterate and with all
pairs (θ, φ) of the filter. Where θ is small and φ descends along the step, φ must fall as far as its slope promises.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxhamel._typing import Scalar

FILTER_ENTRIES = 64  # the largest number of pairs; a further one overwrites the oldest
MARGIN = 1e-5  # γ_θ = γ_φ
ARMIJO = 1e-4  # η
WIDEST, LEAST = 1e4, 1e-4  # θ_max and θ_min as multiples of max(1, θ of the first iterate)


class Filter(NamedTuple):
    """The pairs (θ, φ) of earlier iterates.

    - `theta`, `phi`: the pairs; unused entries are infinite. `count`: the number of pairs stored so far.
    - `first`: θ of the first iterate, at least 1; 0 if it is not known yet.
    """

    theta: Float[Array, " f"]
    phi: Float[Array, " f"]
    count: Int[Array, ""]
    first: Scalar


class Measure(NamedTuple):
    """Violation θ = |residuals|_1 and barrier function φ of an iterate, and estimates of their rounding errors."""

    theta: Scalar
    phi: Scalar
    theta_noise: Scalar
    phi_noise: Scalar


def empty_filter(dtype, first: Scalar | float = 0.0) -> Filter:
    """A filter without pairs."""
    far = jnp.full(FILTER_ENTRIES, jnp.inf, dtype)
    return Filter(far, far, jnp.asarray(0), jnp.asarray(first, dtype))


def emptied(known: Filter) -> Filter:
    """The filter without its pairs."""
    return empty_filter(known.theta.dtype, known.first)


def with_first_theta(known: Filter, theta: Scalar) -> Filter:
    """The filter, with θ of the first iterate noted (as at least 1) if it was not known."""
    return known._replace(first=jnp.where(known.first > 0, known.first, jnp.maximum(1.0, theta)))


def augmented(known: Filter, now: Measure) -> Filter:
    """The filter with the pair of the iterate `now`, lowered by the margin."""
    place = known.count % FILTER_ENTRIES
    theta, phi = (1 - MARGIN) * now.theta, now.phi - MARGIN * now.theta
    return known._replace(
        theta=known.theta.at[place].set(theta),
        phi=known.phi.at[place].set(phi),
        count=known.count + 1,
    )


def accepts(
    known: Filter, now: Measure, theta: Scalar, phi: Scalar, alpha: Scalar, slope: Scalar
) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
    """Returns (whether a trial with (θ, φ) is accepted, whether φ falls as far as its slope promises).

    If both are true, the filter needs no further pair. `slope`: dφ/dα; `alpha`: the step's length.
    """
    lower = theta <= known.theta + now.theta_noise
    outside = jnp.all(lower | (phi <= known.phi + now.phi_noise)) & (theta <= WIDEST * known.first)
    fall = jnp.where(slope < 0, -slope, 0.0)
    switches = (alpha * fall**2.3 > now.theta**1.1) & (now.theta <= LEAST * known.first)
    descends = phi <= now.phi - ARMIJO * alpha * fall + now.phi_noise
    better = theta <= (1 - MARGIN) * now.theta + now.theta_noise
    better = better | (phi <= now.phi - MARGIN * now.theta + now.phi_noise)
    enough = outside & jnp.where(switches, descends, better) & jnp.isfinite(theta + phi)
    return enough, switches & descends
