"""Commands write their figures without a layout, which takes a third of the time of drawing; `tests/viz` tests layouts."""

import pytest


@pytest.fixture(autouse=True, scope="package")
def _no_layout():
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConstrainedLayoutEngine, "execute", lambda engine, figure: None)
        yield
