"""The keys of tasks that are solved by collocation: the built-in problems, and a state to reach within limits."""

import math
from collections.abc import Mapping
from typing import Any

from jaxhamel.cli._scenario._validate import ScenarioError, Table, brief
from jaxhamel.cli._scenario._values import (
    OMITTED,
    POSITIVE,
    Accepts,
    Key,
    array,
    boolean,
    choice,
    indices,
    integer,
    number,
    numbers,
)

TO_POINT = "to-point"


def _metres(default: float, about: str, accepts: Accepts | None = None) -> Key:
    return Key(number() if accepts is None else accepts, about, default, "m")


def _duration(default: float) -> Key:
    return Key(POSITIVE, "time of the whole motion", default, "s")


def _plan_table(**entries: Key) -> Table:
    return Table(entries, family="planned")


_DISTANCE = _metres(1.0, "distance from start to end, along x")
_SHIFT = "distance from start to end, along y"
BUILT_IN: dict[str, Table] = {
    "disk-to-point": _plan_table(distance=_DISTANCE, duration=_duration(5.0)),
    "disk-obstacle": _plan_table(
        distance=_DISTANCE,
        duration=_duration(5.0),
        gap=_metres(0.1, "distance to the obstacle at the start"),
        speed=Key(number(), "speed of the obstacle, along x", 0.2, "m/s"),
    ),
    "ball-to-point": _plan_table(
        x=_metres(0.5, "where the ball ends"),
        y=_metres(0.25, "where the ball ends"),
        duration=_duration(4.0),
    ),
    "ball-obstacle": _plan_table(
        distance=_DISTANCE,
        duration=_duration(4.0),
        obstacle=_metres(0.1, "radius of the obstacle, which stands halfway", POSITIVE),
        friction=Key(POSITIVE, "friction coefficient of the ground", 0.3),
        rail=Key(POSITIVE, "largest angle of the first two masses from the start", 2.0, "rad"),
    ),
    "ball-design": _plan_table(
        x=_metres(0.5, "where the ball ends"),
        y=_metres(0.25, "where the ball ends"),
        duration=_duration(4.0),
        smallest=_metres(0.04, "smallest radius of a rail", POSITIVE),
        largest=_metres(0.085, "largest radius of a rail", POSITIVE),
        lightest=Key(POSITIVE, "smallest mass", 0.2, "kg"),
        heaviest=Key(POSITIVE, "largest mass", 1.0, "kg"),
        price=Key(POSITIVE, "price w of the masses in ∫ |θ̈|² dt + w Σ m", 1.0, "1/(kg s³)"),
    ),
    "pendulum-ball-to-point": _plan_table(
        x=_metres(0.6, "where the ball ends"),
        y=_metres(0.3, "where the ball ends"),
        duration=_duration(4.0),
    ),
    "plate-ball": _plan_table(
        angle=Key(number(), "turn of the ball about the vertical", math.pi / 2, "rad"),
        shift=Key(
            array([(), (2,)]),
            "displacement of the ball's centre: along x, or along x and y",
            0.0,
            "m",
        ),
        duration=_duration(1.0),
    ),
    "unicycle-sideways": _plan_table(shift=_metres(1.0, _SHIFT), duration=_duration(1.0)),
    "sleigh-park": _plan_table(shift=_metres(1.0, _SHIFT), duration=_duration(5.0)),
    "snakeboard-park": _plan_table(shift=_metres(0.3, _SHIFT), duration=_duration(5.0)),
    "satellite-turn": _plan_table(
        angle=Key(number(), "turn of the satellite about e3", math.pi / 2, "rad"),
        duration=_duration(10.0),
    ),
    "falling-cat": _plan_table(
        angle=Key(number(), "turn of the cat about its spine", math.pi, "rad"),
        bend=Key(number(), "bend b_1 of the cat at both ends", 0.8, "rad"),
        duration=_duration(1.0),
    ),
    "cart-pole": _plan_table(
        distance=_DISTANCE,
        duration=_duration(2.0),
        force=Key(POSITIVE, "largest force on the cart in either direction", 20.0, "N"),
        travel=Key(POSITIVE, "largest distance of the cart from the start", 2.0, "m"),
    ),
}
PLANS: dict[str, Table] = {
    TO_POINT: _plan_table(
        duration=Key(POSITIVE, "time of the whole motion", unit="s"),
        drive=Key(
            choice("forces", "velocities", "parts"),
            "the control: the argument of the system's force; its independent quasi-velocities; or the accelerations "
            "of its moving parts",
            "forces",
        ),
        q=Key(
            array(None), "the configuration to reach, as in [initial]; free when absent", OMITTED
        ),
        u=Key(numbers(), "the quasi-velocities to reach; free when absent", OMITTED),
        free_q=Key(
            indices(),
            "indices from 0 of coordinates of `q` that are free at the end; the search starts at their numbers",
            [],
        ),
        free_u=Key(indices(), "indices of entries of `u` that are free, likewise", []),
        parts=Key(numbers(), "positions of the moving parts at the start; zeros when empty", []),
        parts_end=Key(
            numbers(), "positions of the moving parts at the end, at rest; free when empty", []
        ),
        effort_weight=Key(POSITIVE, "weight w in ½ w ∫ |control|² dt", 2.0),
        lower=Key(numbers(), "smallest values of the control; no limits when empty", []),
        upper=Key(numbers(), "largest values of the control, likewise", []),
        longest=Key(
            number(least=0.0),
            "longest time, if the end time is free between `duration` and this; 0: it is fixed",
            0.0,
            "s",
        ),
    ),
    **BUILT_IN,
}
METHOD = Table(
    {
        "intervals": Key(
            integer(0),
            "number of intervals of the mesh; 0: 20, and more as long as the certificate would not hold because of the mesh",
            0,
        ),
        "degree": Key(integer(1, 9), "number of collocation points in each interval", 4),
        "points": Key(
            choice("auto", "gauss", "radau"),
            "collocation points; auto: radau if all path limits are limits of the state, otherwise gauss",
            "auto",
        ),
        "tolerance": Key(POSITIVE, "tolerance of stationarity (scaled) and of violation", 1e-9),
        "error": Key(
            number(least=0.0),
            "largest error allowed between the nodes, for which the mesh is refined; 0: it is not refined",
            0.0,
        ),
        "indirect": Key(
            boolean(),
            "compare with the indirect solution, by shooting on Pontryagin's conditions",
            False,
        ),
        "max_iterations": Key(integer(1), "iterations after which the search gives up", 500),
        "max_seconds": Key(
            POSITIVE, "seconds after which the search gives up, compiling included", 600.0, "s"
        ),
    },
    about="collocation, for tasks that it solves",
)
# Tables that would have no effect on a task of collocation, and the reasons.
_WITHOUT_EFFECT = {
    "control": "the task finds the control",
    "solver": "the method is collocation; see [method]",
}


def plan_of(data: Mapping[str, Any]) -> str | None:
    """The problem that `task.path` names if collocation solves it; None for other tasks."""
    task = data.get("task")
    path = task.get("path") if isinstance(task, Mapping) else None
    return path if isinstance(path, str) and path in PLANS else None


def prepared_for_plan(data: dict[str, Any]) -> dict[str, Any]:
    """The scenario's data; for a task that collocation solves, with `time.end` set from `task.duration`.

    **Raises:** `ScenarioError` for tables and keys that would have no effect.
    """
    plan = plan_of(data)
    if plan is None:
        if "method" in data:
            raise ScenarioError(
                "`method` has no effect on this scenario; it is for tasks that collocation solves, such as "
                f'path = "{TO_POINT}". The keys of other methods belong to [task].'
            )
        return data
    for table, reason in _WITHOUT_EFFECT.items():
        if table in data:
            raise ScenarioError(f"`{table}` has no effect on this task: {reason}. Leave it out.")
    if plan in BUILT_IN and "initial" in data:
        raise ScenarioError(
            f'`initial` has no effect on the task "{plan}", which defines both ends. Leave it out, or take '
            f'path = "{TO_POINT}".'
        )
    return {**data, "time": _times(data.get("time", {}), data["task"], plan)}


def _times(given: Any, task: Mapping[str, Any], plan: str) -> Any:
    duration = task.get("duration", PLANS[plan].entries["duration"].default)  # pyright: ignore[reportAttributeAccessIssue]
    if given:
        raise ScenarioError(
            "`time` has no effect on this task: `task.duration` decides when it ends, and [method] the times of the "
            f"mesh. Leave it out (it is {brief(given)})."
        )
    usable = isinstance(duration, int | float) and not isinstance(duration, bool)
    return {"end": duration if usable else 1.0}
