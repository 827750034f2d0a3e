"""`report`: writes a page with a motion; the plotting packages are imported only when it is called."""

from os import PathLike
from pathlib import Path
from typing import Any

from jaxhamel._checks._values import type_of

OTHER_FILES = {".htm", ".pdf", ".png", ".svg", ".jpg", ".gif", ".mp4", ".md", ".txt", ".json"}


def report(trajectory: Any, out: str | PathLike[str], *, title: str = "") -> Path:
    """Writes a page with a motion, or with a planned control: bodies moving in 3-D, plots, numbers, for any system.

    ```python
    motion = jaxhamel.simulate(system, q0, u0, ts)
    jaxhamel.report(motion, "out")  # out/report.html, one file that needs no network
    ```

    The drawing follows from `places` and `shapes` of the system's class. By default these are the frames of the factors of
    the configuration that have rotations (SO(3), SE(3), SE(2), …). A configuration of plain numbers has plots but no
    animation.

    **Arguments:**

    - `trajectory`: a result of `jaxhamel.simulate`, not a batch. If it ended early, the motion up to then is shown. Or a
      result of `jaxhamel.control.solve`: the page then also has the control, the limits with their outlines, the costates
      and the certificate.
    - `out`: a folder, which is made if necessary, or a file whose name ends in .html.
    - `title`: the heading of the page; by default the name of the system's class.

    **Returns:** the path of the page.

    **Raises:** `TypeError` if the argument is no trajectory and no such result, `out` no path, `title` no text;
    `ValueError` for a batch of trajectories and a file of another kind, such as .pdf; `ModuleNotFoundError` without
    `jaxhamel[viz]`.
    """
    from jaxhamel.control import Result
    from jaxhamel.viz._motion._page import page_of_motion, write_page
    from jaxhamel.viz._motion._plan_page import page_of_plan

    if not isinstance(out, str | PathLike):
        raise TypeError(
            f"`out` is {type_of(out)}; it must be a path: a folder, or a file whose name ends in .html."
        )
    if Path(out).suffix in OTHER_FILES:
        raise ValueError(
            f"`out` is {str(out)!r}; a page is HTML: give a folder, or a file whose name ends in .html."
        )
    if not isinstance(title, str):
        raise TypeError(f"`title` is {type_of(title)}; it must be text, the heading of the page.")

    page_of: Any = page_of_plan if isinstance(trajectory, Result) else page_of_motion
    return write_page(page_of(trajectory, title), Path(out))
