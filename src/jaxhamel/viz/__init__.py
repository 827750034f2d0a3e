"""Pictures of motions: figures, and a self-contained page in 3-D. Needs `jaxhamel[viz]`."""

from ._ball import (
    BallMotion as BallMotion,
)
from ._ball import (
    ball_charts as ball_charts,
)
from ._ball import (
    ball_scene as ball_scene,
)
from ._ball import (
    rail_lines as rail_lines,
)
from ._bodies import (
    body_scene as body_scene,
)
from ._bodies import (
    box_edges as box_edges,
)
from ._bodies import (
    disk_scene as disk_scene,
)
from ._bodies import (
    inertia_box as inertia_box,
)
from ._bodies import (
    rotated as rotated,
)
from ._bodies import (
    top_edges as top_edges,
)
from ._charts import Chart as Chart
from ._figures import (
    angles_figure as angles_figure,
)
from ._figures import (
    cost_figure as cost_figure,
)
from ._figures import (
    error_figure as error_figure,
)
from ._figures import (
    forces_figure as forces_figure,
)
from ._figures import (
    friction_needed as friction_needed,
)
from ._figures import (
    path_figure as path_figure,
)
from ._figures import (
    quantities_figure as quantities_figure,
)
from ._figures import (
    save as save,
)
from ._report import Report as Report
from ._scene import (
    Arrow as Arrow,
)
from ._scene import (
    Curve as Curve,
)
from ._scene import (
    Points as Points,
)
from ._scene import (
    Pose as Pose,
)
from ._scene import (
    Scene as Scene,
)
from ._scene import (
    Sphere as Sphere,
)
from ._scene import (
    Trail as Trail,
)
from ._scene import (
    Triad as Triad,
)
from ._snapshot import snapshot as snapshot
