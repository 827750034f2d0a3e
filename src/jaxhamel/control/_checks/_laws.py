"""Checks of the laws of digital controllers, with memory and without."""

from typing import Any

import jax
import numpy as np

from jaxhamel._checks._arguments import callable_with
from jaxhamel._checks._traced import called
from jaxhamel._checks._values import concrete, described, inline, type_of


def check_law(controller) -> None:
    """Checks that a law takes (t, q, u) or, with sensors but no estimator, (t, observation)."""
    of_state = controller.estimator is not None or getattr(
        controller.sensors, "gives_state", controller.sensors is None
    )
    law, wanted = controller.law, 3 if of_state else 2
    words = "(t, q, u)" if of_state else "(t, observation)"
    if hasattr(law, "deadline") and not isinstance(law, type):
        raise TypeError(
            f"`law` is {type_of(law)}, which answers by the clock of a robot. In a simulation give its `law` itself; `late` "
            "of a RecedingHorizon says which samples are late."
        )
    if has_memory(law):
        if not callable_with(law.step, wanted + 1):
            raise TypeError(
                f"`law` is {type_of(law)}; its `step` must take (memory, {words[1:]}, as `sensors` and `estimator` say."
            )
    elif not callable(law) or not callable_with(law, wanted):
        because = "" if of_state else ", because there are `sensors`"
        many = f" that cannot be called with {'three' if of_state else 'two'} arguments"
        kind = type_of(law) + (many if callable(law) else "")
        raise TypeError(
            f"`law` is {kind}; it must be a callable pytree {words} -> command{because}."
        )


def check_law_of_loop(law) -> None:
    """Checks that a law is a `Sampled`, a `Feedback`, or a callable (t, q, u)."""
    if isinstance(law, type) or not (hasattr(law, "period") or callable_with(law, 3)):
        raise TypeError(
            f"`law` is {type_of(law)}; it must be a jaxhamel.control.Sampled, a jaxhamel.Feedback, or a callable pytree "
            "(t, q, u) -> control."
        )


def has_memory(law) -> bool:
    """Whether a law has a memory, which it passes from one sample to the next."""
    return not isinstance(law, type) and hasattr(law, "step") and hasattr(law, "start")


def check_timing_of_law(controller) -> None:
    """Checks that a law's own period and delay, if any, are the controller's, and that its plan lasts a period or more."""
    own = concrete(getattr(controller.law, "period", None))
    period = concrete(controller.period)
    ts = (
        concrete(getattr(controller.law, "ts", None)) if hasattr(controller.law, "linear") else None
    )
    if ts is not None and period is not None and period > (1 + 1e-6) * (ts[-1] - ts[0]):
        raise ValueError(
            f"`period` is {inline(period)} s, longer than the plan of the law, {ts[-1] - ts[0]:.6g} s. Give a shorter one."
        )
    if own is not None and period is not None and not np.allclose(own, period, 1e-6, 0):
        raise ValueError(
            f"`period` is {inline(period)} and that of the {type(controller.law).__name__} {inline(own)}; both must be the "
            "same."
        )
    delay = getattr(controller.law, "delay", controller.delay)
    if isinstance(delay, int) and delay != controller.delay:
        raise ValueError(
            f"`delay` is {controller.delay} and that of the {type(controller.law).__name__} {delay}; both must be the same."
        )


def check_memory(law: Any, at: tuple[Any, ...]) -> Any:
    """Checks that the memory of a law keeps its structure, shapes and dtypes; returns the shape of the law's value."""
    before = called("`law.start`", law.start)
    found = called("`law.step`", law.step, before, *at)
    if not isinstance(found, tuple) or len(found) != 2:
        got = f"a tuple of {len(found)}" if isinstance(found, tuple) else "one value"
        raise TypeError(
            f"`law.step` returns {got}; it must return a pair (command, memory), the memory for the next sample."
        )
    value, after = found
    kinds = [
        (jax.tree.structure(x), [(y.shape, y.dtype) for y in jax.tree.leaves(x)])
        for x in (before, after)
    ]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"`law.step` gives a memory of {_words(after)} where that of `law.start()` is {_words(before)}; structure, "
            "shapes and dtypes must stay."
        )
    return value


def _words(memory: Any) -> str:
    """The dtypes and shapes of the arrays in a controller's memory, as text for a message."""
    return ", ".join(f"{x.dtype} {x.shape}" for x in jax.tree.leaves(memory)) or "no arrays"


def check_no_estimator(controller: Any) -> None:
    """Checks that a loop has no estimator: its law is given the state itself."""
    if controller.sensors is not None:
        raise TypeError(
            "`controller` has `sensors`; the multipliers are those of a loop whose law is given the state. Leave `sensors` "
            "and `estimator` out."
        )


def check_stays(off: Any) -> None:
    """Checks that (q, u) is an equilibrium of the loop: `off`, its change in one period, is at most √(rounding error)."""
    array = concrete(off)
    if array is None:
        return
    largest = np.max(np.abs(array), initial=0.0)
    if not largest <= np.sqrt(np.finfo(array.dtype).eps):
        raise ValueError(
            f"(`q`, `u`) is no equilibrium of the loop: after one period the state is off by {largest:.3g}. Give a state "
            "that the loop keeps, for example the last one of a `closed_loop` that came to rest."
        )


def check_regulator_held(controller) -> Any:
    """Checks that a digital controller has a regulator of concrete numbers."""
    law: Any = getattr(controller, "law", None)
    if isinstance(controller, type) or not hasattr(controller, "command"):
        raise TypeError(
            f"`controller` is {type_of(controller)}; it must be a jaxhamel.control.Sampled(law, period) whose law is a "
            "jaxhamel.control.Regulator."
        )
    if not hasattr(law, "linear"):
        raise TypeError(
            f"`law` is {type_of(law)}; the growth along a plan is that of a jaxhamel.control.Regulator, the result of "
            "regulate. For a law about an equilibrium take jaxhamel.control.loop_multipliers."
        )
    if any(concrete(x) is None for x in (controller.period, law.ts, law.gains, *law.linear)):
        raise TypeError(
            "`controller` has traced numbers; the growth is computed by NumPy, outside of jit, vmap and grad."
        )
    return law


def check_norm_weights(weights, size: int) -> np.ndarray:
    """Returns the weights of a norm of the state's deviation, after checking them."""
    known = np.asarray(weights, float)
    if known.shape != (size,) or not np.all(known >= 0) or not np.any(known):
        raise ValueError(
            f"`weights` is {described(weights)}; it must have {size} numbers of zero or more, not all zero: one for each "
            "coordinate of the deviation (δ_q, δ_u)."
        )
    return known
