"""Lowers programs in a shared MLIR context, for the tests and the notebooks that they run."""

import threading

from jax._src.interpreters import mlir


def lower_in_one_context():
    """JAX creates an MLIR context for each program that it lowers, which takes 4 to 5 of the 20 ms of a small one.

    The tests lower some fifty programs in one context, each thread in its own, since a context grows with each
    constant. A program that is lowered during another one is excluded: its module would become part of the other's. If
    JAX's private function is missing, nothing changes.
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
    """Whether this thread is lowering a program."""
    try:
        return mlir.ir.Context.current is not None
    except ValueError:
        return False
