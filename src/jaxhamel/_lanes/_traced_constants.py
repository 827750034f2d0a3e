"""Turns the traced values over which a jaxpr closes into inputs."""

from typing import Any

import jax.core
from jax.extend.core import ClosedJaxpr


def traced_constants_first(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """Turns the traced constants of a jaxpr into its first inputs; known constants stay, so that they can be folded."""
    is_traced = [isinstance(value, jax.core.Tracer) for value in closed.consts]
    if not any(is_traced):
        return closed, []
    jaxpr = closed.jaxpr
    pairs = list(zip(jaxpr.constvars, closed.consts, is_traced, strict=True))
    traced_inputs = [v for v, _, traced in pairs if traced]
    jaxpr = jaxpr.replace(
        constvars=[v for v, _, traced in pairs if not traced],
        invars=[*traced_inputs, *jaxpr.invars],
        debug_info=jaxpr.debug_info._replace(arg_names=None),
    )
    known = [value for _, value, traced in pairs if not traced]
    return ClosedJaxpr(jaxpr, known), [c for _, c, traced in pairs if traced]
