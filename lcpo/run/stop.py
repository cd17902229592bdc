"""A wish to stop. Ctrl-C and SIGTERM ask for it; runs are saved at the end of their chunk.

A chunk is about a second of work, so that nobody waits long. A second signal does not wait.
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
"""`timeout` and some queues send one wish twice, to the process and to its group."""
_NOTICE = b"\nstopping: runs are saved at their next chunk (a second signal does not wait)\n"

_asked = threading.Event()


class Asked(BaseException):
    """What runs in this process was asked to stop, and is saved as far as it can be."""


class Stopped(KeyboardInterrupt):
    """A command was stopped; the text says what is saved, `out` where."""

    def __init__(self, text: str, out: Any) -> None:
        super().__init__(text)
        self.out = out


def ask() -> None:
    """Let the runs of this process stop at their next chunk."""
    _asked.set()


def is_asked() -> bool:
    """Whether they are to stop."""
    return _asked.is_set()


def check() -> None:
    """Raise Asked where they are to stop."""
    if _asked.is_set():
        raise Asked


@contextlib.contextmanager
def on_signals(ask: Callable[[], None] = ask) -> Iterator[None]:
    """In this block the first signal calls `ask`, and the second raises KeyboardInterrupt.

    `ask` is called between any two lines of the main thread. In another thread nothing is done:
    signals are the main thread's.
    """
    first: float | None = None

    def handle(*_: Any) -> None:
        nonlocal first
        now = time.monotonic()
        if first is None:
            first = now
            with contextlib.suppress(OSError):  # nobody reads on
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
        _asked.clear()
