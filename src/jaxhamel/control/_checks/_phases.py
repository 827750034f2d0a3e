"""Checks of problems that are joined as phases."""

import jax
import numpy as np

from jaxhamel._checks._values import check_callable, type_of
from jaxhamel.control._checks._collocation import check_has_value_only
from jaxhamel.control._checks._functions import check_rows


def check_phases(problems, links) -> None:
    """Checks that there are two problems or more, of one precision, with a link for each two."""
    given = isinstance(problems, tuple | list)
    if not given or not all(hasattr(x, "constraints") and hasattr(x, "ts") for x in problems):
        raise TypeError(
            f"`problems` is {type_of(problems)}; it must be a tuple of control.ControlProblem, one for each phase."
        )
    if len(problems) < 2:
        raise ValueError(
            f"`problems` has {len(problems)} problem; phases take at least two. Solve a single one by itself."
        )
    dtypes = sorted({str(x.u0.dtype) for x in problems})
    if len(dtypes) > 1:
        raise ValueError(f"`problems` have the precisions {' and '.join(dtypes)}; give them one.")
    for problem in problems:
        check_has_value_only(problem.system)
    if links is not None and not isinstance(links, tuple | list):
        raise TypeError(
            f"`links` is {type_of(links)}; it must be a list with a function (q, u, q_next, u_next) -> (r,), or None, "
            "for each two phases."
        )
    if links is not None and len(links) != len(problems) - 1:
        raise ValueError(
            f"`links` has {len(links)} entries; {len(problems)} phases take {len(problems) - 1}; None is a continuous state."
        )


def check_link(k: int, link, before, after) -> None:
    """Checks that a link is a function of both states, or that they are of one kind."""
    if link is not None:
        check_callable(f"links[{k}]", link, "(q, u, q_next, u_next) -> (r,)")
        way = "(q, u, q_next, u_next)"
        check_rows(f"`links[{k}]`", link, *before, *after, way=way)
        return
    shapes = [jax.tree.map(np.shape, x) for x in (before, after)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"the states of phases {k + 1} and {k + 2} have the shapes {shapes[0]} and {shapes[1]}, so that they cannot be "
            f"continuous; give `links` with a function (q, u, q_next, u_next) -> (r,) as entry {k}."
        )


def check_result_of_phases(result, kind) -> None:
    """Checks that a result is one of `control.phases`, by its system's right-hand side."""
    function = getattr(getattr(getattr(result, "problem", None), "system", None), "function", None)
    if not isinstance(function, kind) or getattr(result, "ts", None) is None:
        raise TypeError(
            f"`result` is {type_of(result)} of another problem; give that of control.solve(control.phases(...), "
            "control.Collocation())."
        )
