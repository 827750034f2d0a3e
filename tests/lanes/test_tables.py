"""The records of primitives agree with one another, with JAX, and with docs/primitives.md."""

import numpy as np
import pytest

from jaxhamel._lanes._graph._elementwise import ELEMENTWISE
from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._primitive import Kind
from jaxhamel._lanes._rules import (
    _control_flow,
    _convolution,
    _fourier,
    _indexing,
    _linear_algebra,
    _order,
    _primitives,
)
from jaxhamel._lanes._rules._moves_and_sums import MOVES, SUMS
from jaxhamel._lanes._rules._primitives import PRIMITIVES
from tests.lanes.primitives import DOCUMENT, document

TABLES = (
    ELEMENTWISE,
    MOVES,
    SUMS,
    _indexing.INDEXING,
    _order.ORDER,
    _convolution.CONVOLUTION,
    _fourier.FOURIER,
    _linear_algebra.LINEAR_ALGEBRA,
    _linear_algebra.LIBRARY,
    _control_flow.CONTROL_FLOW,
    _primitives.WITHOUT_RULE,
)


OPERATOR_SOLVE = "jaxhamel_operator_solve"  # its matrix is given by a program


def test_each_primitive_has_one_record():
    of_lanes = {"jaxhamel_pullback", OPERATOR_SOLVE}
    assert sum(map(len, TABLES)) + len(of_lanes) == len(PRIMITIVES)


@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_record_has_the_fields_of_its_kind(name):
    record = PRIMITIVES[name]
    assert (record.rule is None) == (record.kind is Kind.WITHOUT_RULE)
    has_program = record.kind in (Kind.CONTROL_FLOW, Kind.CALL) or name in (
        OPERATOR_SOLVE,
        "fft",
        "conv_general_dilated",
    )
    assert record.nested == has_program
    of_scalars = record.fold, record.simplify, record.factor, record.signs, record.on_gpu
    assert record.kind is Kind.ELEMENTWISE or not any(of_scalars)


@pytest.mark.parametrize("name", [name for name, x in ELEMENTWISE.items() if x.commutes])
def test_a_commutative_operation_gives_the_same_in_either_order(name):
    fold, pairs = ELEMENTWISE[name].fold, np.array([[3, 5, 5, -2], [5, 3, 5, 7]])
    assert fold is not None
    np.testing.assert_array_equal(fold(*pairs), fold(*pairs[::-1]))


@pytest.mark.parametrize("name", [name for name, x in ELEMENTWISE.items() if x.signs])
def test_a_sum_adds_its_operands_with_its_signs(name):
    """`signs`, by which common factors are taken out, agrees with the operation's NumPy function."""
    record = ELEMENTWISE[name]
    operands = np.array([3.0, 5.0])[: len(record.signs)]
    assert record.fold is not None
    assert record.fold(*operands) == record.signs @ operands


def test_an_unknown_scalar_operation_is_refused():
    class Unknown:
        name = "unknown"

    with pytest.raises(KeyError, match="unknown"):
        Graph().apply(Unknown, (), np.float64, {})


def test_the_page_has_the_tables_of_the_package():
    """If this fails after a change, run `python -m tests.lanes.primitives`."""
    assert DOCUMENT.read_text() == document()
