"""Remembers the content of functions and objects while one call runs, so that each of them is walked over once."""

import contextlib
import functools
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class KnownContent(NamedTuple):
    """The content of `value`, which is kept alive here, so that no other object gets its `id`."""

    value: Any
    content: Hashable
    has_tracer: bool


class _Memory(threading.local):
    known: dict[int, KnownContent] | None = None


MEMORY = _Memory()


def remembered(f: Callable[P, T]) -> Callable[P, T]:
    """Wraps f: while it runs in this thread, the content of each function and object is found once.

    Only tracing may change the content; so it is found anew after a trace (`forgetting`).
    """

    @functools.wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if MEMORY.known is not None:  # within another such function
            return f(*args, **kwargs)
        MEMORY.known = {}
        try:
            return f(*args, **kwargs)
        finally:
            MEMORY.known = None

    return call


@contextlib.contextmanager
def forgetting() -> Iterator[None]:
    """A context for tracing, which may change the content of functions: content found before it is found anew.

    Within the context nothing is remembered.
    """
    inside, MEMORY.known = MEMORY.known is not None, None
    try:
        yield
    finally:
        MEMORY.known = {} if inside else None
