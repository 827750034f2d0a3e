"""Content of functions and objects that is known while one call runs, so that each is walked over once."""

import contextlib
import functools
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class KnownContent(NamedTuple):
    """The content of a value that is alive as long as this is, so that no other gets its `id`."""

    value: Any
    content: Hashable
    has_tracer: bool


class _Memory(threading.local):
    known: dict[int, KnownContent] | None = None


MEMORY = _Memory()


def remembered(f: Callable[P, T]) -> Callable[P, T]:
    """While f runs in this thread, each function and object among arguments is walked over once, unless
    something is traced."""

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
    """For tracing, which may change the content of functions: it is looked at anew, within `with` and after it."""
    inside, MEMORY.known = MEMORY.known is not None, None
    try:
        yield
    finally:
        MEMORY.known = {} if inside else None
