"""Checks of what ensembles are given: one batch size, at least one trajectory."""

import numpy as np
from jax.core import Tracer

from jaxhamel._checks._simulation import check_steps, check_times
from jaxhamel._checks._values import _kind, check_finite


def check_batch(leaves, axes) -> int:
    """The common length of the mapped axes."""
    sizes = {
        i: _length(np.shape(leaf), axis, i)
        for i, (leaf, axis) in enumerate(zip(leaves, axes, strict=True))
        if axis is not None
    }
    if not sizes:
        raise ValueError(
            "`in_axes` maps no array of the arguments; at least one must have a batch axis. Give 0 for "
            "an argument that differs from lane to lane."
        )
    if len(set(sizes.values())) > 1:
        each = ", ".join(
            f"{size} along axis {axes[i]} of shape {np.shape(leaves[i])}"
            for i, size in sizes.items()
        )
        raise ValueError(
            f"the batch sizes differ: {each}. All mapped axes must have the same length; give None in "
            "`in_axes` for what all lanes share."
        )
    return next(iter(sizes.values()))


def _length(shape, axis, i) -> int:
    if not -len(shape) <= axis < len(shape):
        raise ValueError(
            f"`in_axes` has axis {axis} for leaf {i} of the arguments, of shape {shape}; give an axis it "
            "has, or None for what all lanes share."
        )
    return shape[axis]


def check_trajectories(size: int, u0) -> None:
    """At least one trajectory, and finite velocities."""
    if size == 0:
        raise ValueError(
            "the ensemble has zero trajectories: the mapped axes have length 0. Give at least one entry "
            "along each axis named in `in_axes`."
        )
    check_finite("u0", u0)


def check_rollout_times(ts, dt) -> None:
    """Times and step as for `simulate`, and known: they decide how many steps there are."""
    for name, value in {"ts": ts, "dt": dt}.items():
        if isinstance(value, Tracer):
            raise ValueError(
                f"`{name}` is traced; `rollout` takes as many steps as its value says, which must be known. "
                "Keep it out of jit's arguments (a closure or a static argument)."
            )
    check_steps(None, None, dt)
    check_times(np.asarray(ts))


def check_explicit_method(method, explicit: type) -> None:
    """ "rk4" or an explicit Runge-Kutta method."""
    if not isinstance(method, explicit):
        raise TypeError(
            f'`method` is {method!r} ({_kind(method)}); it must be "rk4" or an explicit Runge-Kutta method of '
            "diffrax such as diffrax.Tsit5() or diffrax.Dopri8(), with the parentheses."
        )
