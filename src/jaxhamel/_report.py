"""The page of a motion, from Python; the pictures are imported when a page is asked for."""

from os import PathLike
from pathlib import Path
from typing import Any


def report(trajectory: Any, out: str | PathLike[str], *, title: str = "") -> Path:
    """Writes a page with the motion of any system: its bodies moving in 3-D, its plots, its numbers.

    ```python
    motion = jaxhamel.simulate(system, q0, u0, ts)
    jaxhamel.report(motion, "out")  # out/report.html, one file that needs no network
    ```

    What is drawn is what the system's class says in `places` and `shapes`; without those, the frames of the factors of
    its configuration that turn (SO(3), SE(3), SE(2), …). A configuration of plain numbers has plots and no animation.

    **Arguments:**

    - `trajectory`: of `jaxhamel.simulate`, one, not a batch. One that ended early is shown as far as it came.
    - `out`: a folder, made where there is none, or a file whose name ends in .html.
    - `title`: heading of the page; default the name of the system's class.

    **Returns:** the path of the page.

    **Raises:** `TypeError` for what is no trajectory, `ValueError` for a batch of them; `ModuleNotFoundError` without
    `jaxhamel[viz]`.
    """
    from jaxhamel.viz._motion._page import write_page

    return write_page(trajectory, Path(out), title)
