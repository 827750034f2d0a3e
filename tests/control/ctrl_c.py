"""Ctrl-C while the main thread waits for searches in another one."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jaxhamel.control._many_starts import _side_by_side


def interrupt_at(name: str, call: int, monkeypatch: Any) -> None:
    """The main thread gets KeyboardInterrupt in this call of the function `name` of `_side_by_side`, in a single thread.

    A signal would not do: the workers of pytest ignore it.
    """
    given, calls, reached = getattr(_side_by_side, name), [], threading.Event()

    def counting(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == call:
            reached.set()
            time.sleep(0.5)  # until the main thread has noticed
        return given(*arguments)

    class Pool(ThreadPoolExecutor):
        def submit(self, *work: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            future = super().submit(*work)
            result, waited = future.result, []

            def first_interrupted() -> Any:
                if not waited and not pressed:
                    waited.append(1)
                    if reached.wait(timeout=30):
                        pressed.append(1)
                        raise KeyboardInterrupt
                return result()

            future.result = first_interrupted  # pyright: ignore[reportAttributeAccessIssue]
            return future

    pressed: list[int] = []
    monkeypatch.setattr(_side_by_side, "cores", lambda: 1)
    monkeypatch.setattr(_side_by_side, name, counting)
    monkeypatch.setattr(_side_by_side, "ThreadPoolExecutor", Pool)
