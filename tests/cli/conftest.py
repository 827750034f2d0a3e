"""Commands write their figures without a layout and their PNG files without content, which takes more than half of the time
of drawing them. The page of a command still draws each chart as SVG; `tests/viz` tests layouts and PNG files."""

import pytest


@pytest.fixture(autouse=True, scope="package")
def _quick_figures():
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    def blank(canvas):
        canvas.renderer = canvas.get_renderer()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConstrainedLayoutEngine, "execute", lambda engine, figure: None)
        patch.setattr(FigureCanvasAgg, "draw", blank)
        yield
