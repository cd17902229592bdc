"""Stop requests by Ctrl-C and SIGTERM; runs are saved at the end of their chunk.

A chunk is about a second of work. A second signal stops at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SAME_SECONDS = 0.3
"""`timeout` and some queues send one signal twice, to the process and to its group."""
_NOTICE = b"\nstopping: runs are saved at their next chunk (a second signal does not wait)\n"

asked = threading.Event()
"""Set if the runs of this process are to stop at their next chunk."""


class Asked(BaseException):
    """The runs of this process were asked to stop, and are saved as far as possible."""


class Stopped(KeyboardInterrupt):
    """A command was stopped; the text says what is saved, `out` where."""

    def __init__(self, text: str, out: Any) -> None:
        super().__init__(text)
        self.out = out


def check() -> None:
    """Raise Asked if runs are to stop."""
    if asked.is_set():
        raise Asked


@contextlib.contextmanager
def on_signals(ask: Callable[[], None] = asked.set) -> Iterator[None]:
    """In this block the first signal calls `ask`, and the second raises KeyboardInterrupt.

    `ask` may run between any two lines of the main thread. In other threads this does nothing:
    signals go to the main thread.
    """
    first: float | None = None

    def handle(*_: Any) -> None:
        nonlocal first
        now = time.monotonic()
        if first is None:
            first = now
            with contextlib.suppress(OSError):  # stderr is closed
                os.write(2, _NOTICE)
            ask()
        elif now - first > SAME_SECONDS:
            raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handle) for number in SIGNALS} if is_main else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        asked.clear()
