"""A feedback in continuous time from `[feedback]`: gains about a fixed state, or a law of the file of `--system`."""

import inspect
import math
import sys
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, QuasiVelocity, Time
from jaxhamel._words import counted
from jaxhamel.cli._objects._system import named, state_in
from jaxhamel.cli._scenario._ensemble_schema import STATE_FEEDBACK
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError, brief, nearest
from jaxhamel.control import loop_stability
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics import Feedback, System, VectorField
from jaxhamel.mechanics._system import controls_of
from jaxhamel.mechanics._tangent import tangent_size

AT_REST = 1e-6  # a state is an equilibrium if its rates are smaller than this, in SI units
ONLY_ABOUT_PLANS = ("sensors", "estimator", "policy", "closed_loop")


class StateFeedback(eqx.Module):
    """The law c(t) − K δ with δ = (local(q*, q), u − u*) about a fixed state (q*, u*), within ± `limit`.

    `control`: c, a callable of t, or None for zero; `gains`: K, `(m, n+k)`.
    """

    gains: Float[Array, "m d"]
    q: Configuration
    u: QuasiVelocity
    limit: Float[Array, ""]
    control: Any
    space: AbstractSpace

    def __call__(self, t: Time, q: Configuration, u: QuasiVelocity) -> Float[Array, " m"]:
        """The command at the time t and the state (q, u)."""
        error = jnp.concatenate([self.space.local(self.q, q), u - self.u])
        ahead = 0.0 if self.control is None else self.control(t)
        return jnp.clip(ahead - self.gains @ error, -self.limit, self.limit)


def with_feedback(scenario: Scenario, system: System, control: Any) -> Any:
    """The feedback of `[feedback]` on top of the control of `[control]`; this control, if the scenario has none of its own.

    A table of kind "tvlqr", whose regulator needs a plan, changes nothing: it acts in `jaxhamel control`.

    **Raises:** `ScenarioError` that names the key.
    """
    table = scenario.tables.get("feedback")
    if table is None or table["kind"] not in STATE_FEEDBACK:
        return control
    if scenario["control"]["curve"] == "recorded" and "measurements" in scenario.tables:
        raise ScenarioError(
            '`feedback` has no effect with `control.curve` = "recorded": the columns of the runs have the whole control. '
            "Leave it out, or give another curve."
        )
    for name in ONLY_ABOUT_PLANS:
        if scenario.tables.get(name) is not None:
            raise ScenarioError(
                f'`{name}` has no effect with `feedback.kind` = "{table["kind"]}", which acts in continuous time at the '
                f'state itself. Leave it out, or take kind = "tvlqr" in `jaxhamel control`.'
            )
    if system.prescribed_motion:
        raise ScenarioError(
            f'`feedback.kind` is "{table["kind"]}", but the control of {type(system).__name__} prescribes the motion of its '
            "parts, which no function of the state can. Take a system that is driven by forces."
        )
    if table["kind"] == "gains":
        return Feedback(_gains(table, system, control))
    if control is not None:
        raise ScenarioError(
            '`control` has no effect with `feedback.kind` = "law", which decides the whole control. Leave it out.'
        )
    law = _own_law(scenario, table)
    try:
        return Feedback(law)
    except TypeError as error:
        words = str(error).replace("`function` of Feedback", "`feedback.law`")
        raise ScenarioError(" ".join(words.split())) from error


def instability(system: System, control: Any, t: float) -> str:
    """A sentence if small deviations from the state of a law of kind "gains" grow; else, or if this state is no equilibrium
    of the loop at the time t, an empty text."""
    law = getattr(control, "function", None)
    if not isinstance(law, StateFeedback) or not _is_at_rest(system, law, control, t):
        return ""
    rate = loop_stability(system, law.q, law.u, law, t=t).rate
    if rate <= 0:
        return ""
    return (
        "`feedback.gains` do not hold the state `feedback.q`, `feedback.u`: small deviations double in "
        f"{math.log(2) / rate:.3g} s (linearised). Change the gains or their signs."
    )


def _is_at_rest(system: System, law: StateFeedback, control: Feedback, t: float) -> bool:
    rates = VectorField()(jnp.asarray(t, law.u.dtype), (law.q, law.u), (system, control))
    return all(float(jnp.max(jnp.abs(x), initial=0.0)) < AT_REST for x in jax.tree.leaves(rates))


def _gains(table: Mapping[str, Any], system: System, control: Any) -> StateFeedback:
    """The law of kind "gains"."""
    rows, size = table["gains"], tangent_size(system)
    count = controls_of(system)
    if any(len(row) != size for row in rows) or (count is not None and len(rows) != count):
        lengths = " or ".join(map(str, sorted({len(row) for row in rows})))
        shape = f"{counted(len(rows), 'row')} of {lengths} numbers"
        wanted = "one row" if count is None else f"{count}, one row"
        raise ScenarioError(
            f"`feedback.gains` has {shape}; it must have {wanted} for each control, of {size} numbers: for the deviation of "
            "the configuration, then of the quasi-velocities."
        )
    q, u = state_in(system, table, "feedback")
    limit = jnp.asarray(table["limit"] or jnp.inf, float)
    return StateFeedback(jnp.asarray(rows, float), q, u, limit, control, system.space)


def _own_law(scenario: Scenario, table: Mapping[str, Any]) -> Any:
    """The law of kind "law": an object of the class `feedback.law` in the file of `--system`."""
    cls = _class_of(scenario, table["law"])
    fields = {name: _array(x) for name, x in (table["fields"] or {}).items()}
    try:
        inspect.signature(cls).bind(**fields)
    except TypeError as error:
        raise ScenarioError(
            f"`feedback.fields`: {error}. It needs {cls.__name__}({', '.join(inspect.signature(cls).parameters)}), with "
            "numbers or lists."
        ) from None
    with named("feedback.fields"):
        law = cls(**fields)
    if not callable(law):
        raise ScenarioError(
            f"`feedback.law`: {cls.__name__} cannot be called; it needs __call__(self, t, q, u) with the control as its "
            "value. (A law with `start` and `step` is sampled: jaxhamel.control.Sampled in Python.)"
        )
    return law


def _class_of(scenario: Scenario, name: str) -> Any:
    if scenario.given is None:
        raise ScenarioError(
            f"`feedback.law` is {brief(name)}, a class of your file; give the file by --system FILE.py:Class. A scenario "
            "alone never runs code."
        )
    module = vars(sys.modules[scenario.given.__module__])
    own = [k for k, x in module.items() if isinstance(x, type) and not issubclass(x, System)]
    if name not in own:
        raise ScenarioError(
            f"`feedback.law` is {brief(name)}; the file of --system has no such class.{nearest(name, own)}"
        )
    return module[name]


def _array(value: Any) -> Any:
    """The value of a field: numbers as arrays, inside tables too."""
    return jax.tree.map(jnp.asarray, value, is_leaf=lambda x: isinstance(x, list))
