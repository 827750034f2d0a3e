"""The tables of operations agree with one another and with docs/primitives.md."""

import pytest

from jaxhamel._lanes._graph._elimination import FACTORS
from jaxhamel._lanes._graph._folding import FOLDED, SIMPLIFIED
from jaxhamel._lanes._rules._control_flow import CALLS, CONTROL_FLOW
from jaxhamel._lanes._rules._rules import ELEMENTWISE, MOVES, RULES
from jaxhamel._lanes._xla_cpu._whole_loop import MOVED_IN_KERNELS
from jaxhamel.ensemble._gpu_kernel._kernel_program import NOT_IN_TRITON, ORDERED
from tests.lanes.primitives import DOCUMENT, document

OF_SCALARS = {
    "folding": FOLDED,
    "simplification": SIMPLIFIED,
    "linear factors": FACTORS,
    "missing in Triton": NOT_IN_TRITON,
    "replaced in Triton": ORDERED,
}


@pytest.mark.parametrize("table", OF_SCALARS)
def test_a_table_of_scalars_names_operations_that_have_a_rule(table):
    """A name that no rule takes would never be met."""
    assert set(OF_SCALARS[table]) <= ELEMENTWISE


def test_each_operation_has_one_rule():
    assert not set(RULES) & set(CONTROL_FLOW)
    assert not ELEMENTWISE & set(MOVES)
    assert set(CALLS) <= set(CONTROL_FLOW)
    assert set(MOVED_IN_KERNELS) <= set(RULES)


def test_the_page_has_the_tables_of_the_package():
    """After a change: `python -m tests.lanes.primitives`."""
    assert DOCUMENT.read_text() == document()
