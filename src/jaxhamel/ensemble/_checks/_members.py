"""Checks of the arguments of ensembles: at least one trajectory, feasible steps, a known method."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxhamel._checks._axes import check_size
from jaxhamel._checks._times import check_steps, check_time_array, check_times
from jaxhamel._checks._values import check_finite, type_of
from jaxhamel.mechanics import System
from jaxhamel.mechanics._checks._system import check_a_system


def check_one_system(system) -> None:
    """Checks that `system` is one system, whose numbers may have batch axes, and no list of systems."""
    if isinstance(system, list | tuple) and all(isinstance(x, System) for x in system):
        raise TypeError(
            f"`system` is {type_of(system)}; it must be one system whose numbers have a leading batch axis, with 0 for it "
            "in `in_axes`: jax.vmap(make_system)(values), or jax.tree.map(lambda *x: jnp.stack(x), *systems)."
        )
    check_a_system(system)


def check_trajectories(size: int, u0) -> None:
    """Checks that there is at least one trajectory and that the velocities are finite."""
    check_size(size)
    check_finite("u0", u0)


def check_initial_values(size: int, y0) -> None:
    """Checks that there is at least one trajectory and that all numbers are finite and of one floating dtype."""
    check_size(size)
    for part in jax.tree.leaves(y0):
        check_finite("y0", part)
    kinds = sorted({str(jnp.result_type(part)) for part in jax.tree.leaves(y0)})
    if len(kinds) != 1 or not kinds[0].startswith("float"):
        raise ValueError(
            f"`y0` holds numbers of {' and '.join(kinds) or 'no dtype'}; all must have one floating dtype. Convert them: "
            "jax.tree.map(lambda x: x.astype(float), y0)."
        )


def check_slope(slope, y) -> None:
    """Checks that dy/dt has the structure, shapes and dtypes of y."""
    found, wanted = (jax.tree.map(_form, x) for x in (slope, y))
    if found != wanted:
        raise ValueError(
            f"`f` returned {_axes_text(slope)} for a state {_axes_text(y)}; dy/dt must have the structure, shapes and "
            "dtype of y. Return jax.tree.map of y's parts, arrays from jnp.stack."
        )


def _form(x):
    return jnp.shape(x), str(jnp.result_type(x))


def _axes_text(tree) -> str:
    names = jax.tree.map(lambda x: f"{_form(x)[1]}{list(_form(x)[0])}", tree)
    return str(names).replace("'", "")


def check_rollout_times(ts, dt) -> None:
    """Checks times and step as `simulate` does; they must be concrete, since they determine the number of steps."""
    for name, value in {"ts": ts, "dt": dt}.items():
        if isinstance(value, Tracer):
            raise ValueError(
                f"`{name}` is traced; its value decides the number of steps of `rollout`, so that it must be known. "
                "Keep it out of jit's arguments (a closure or a static argument); times made inside a traced function "
                "need NumPy: np.linspace in place of jnp.linspace."
            )
    check_steps(None, None, dt)
    check_time_array(ts)
    check_times(np.asarray(ts))
    longest = float(np.max(np.diff(np.asarray(ts, float)), initial=0.0))
    if longest > _MOST * float(dt):
        raise ValueError(
            f"`dt` is {dt}, but an interval of `ts` is {longest:g} long; more than 2³¹ − 1 equal steps are too many. Take a "
            "longer step, or tolerances."
        )


_MOST = 2.0**31 - 1


def wrong_member(index, error) -> ValueError:
    """The error for a system that refuses the parameters of one trajectory."""
    return ValueError(f"`system` of trajectory {index} is not valid: {error}")


def check_embedded_pair(method, is_one: bool) -> None:
    """Checks that the method is an explicit Runge–Kutta method with an error estimate."""
    if not is_one:
        raise TypeError(
            f"`method` is {method!r} ({type_of(method)}); steps by tolerance need an explicit Runge-Kutta method of diffrax "
            "with an error estimate, such as diffrax.Tsit5() or diffrax.Dopri8(). Give `dt` for equal steps."
        )


def refuse_record_within_steps(time: float) -> None:
    """Refuses equal steps under a recorded control one of whose times, here `time`, is within a step."""
    where = "are traced, so that" if np.isnan(time) else f"include {time:.9g} s, which is"
    found = f"{where} they may be" if np.isnan(time) else where
    raise ValueError(
        f"`control` is a Recorded whose times {found} within a step of `dt`; equal steps in lanes must end at them. Give "
        "`ts` that contain the times of the record, or a `dt` that divides their intervals; `jaxhamel.ensemble.simulate` "
        "takes any."
    )
