"""Programs lowered in a shared context of MLIR, for the tests and the notebooks that they run."""

import threading

from jax._src.interpreters import mlir


def lower_in_one_context():
    """JAX makes a context of MLIR for each program that it lowers: 4 to 5 of the 20 ms that a small one takes.

    The tests lower some fifty in one, each thread in its own, since a context grows with each constant; not a program that
    is lowered while another is: its module would become part of the other's. The function is JAX's own affair: where it is
    missing, all stays as it is.
    """
    make, mine = getattr(mlir, "make_ir_context", None), threading.local()
    if make is None:
        return

    def context():
        if _lowers():
            return make()
        left = getattr(mine, "left", 0)
        if left == 0:
            mine.context, left = make(), 50
        mine.left = left - 1
        return mine.context

    mlir.make_ir_context = context


def _lowers() -> bool:
    """Whether this thread lowers a program just now."""
    try:
        return mlir.ir.Context.current is not None
    except ValueError:
        return False
