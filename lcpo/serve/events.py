"""What the server reports: one JSON line per event on stderr, and notes to systemd."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import socket
import sys
import threading
import time
from typing import Any, TextIO

PER_SECOND = 10
"""Lines about requests that were refused, at most."""


class Events:
    """JSON lines. Threads may share it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """`stream`: default stderr."""
        self._stream, self._lock = stream or sys.stderr, threading.Lock()
        self._second, self._lines, self._left_out = 0, 0, 0

    def write(self, event: str, **fields: Any) -> None:
        """One line. `fields`: plain values. A line that cannot be written is lost: a full disk or a
        reader that has left must not fail the call that is reported.
        """
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, **fields}, default=str)
        with self._lock, contextlib.suppress(OSError, ValueError):
            print(line, file=self._stream, flush=True)

    def refused(self, **fields: Any) -> None:
        """A request that was refused. Floods of them are counted, not written."""
        second = int(time.monotonic())
        if second != self._second:
            left_out, self._second, self._lines, self._left_out = self._left_out, second, 0, 0
            if left_out:
                self.write("refused", left_out=left_out)
        self._lines += 1
        if self._lines > PER_SECOND:
            self._left_out += 1
        else:
            self.write("refused", **fields)


def notify(text: str) -> bool:
    """Send a note such as READY=1 to systemd; False if nobody listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):  # an abstract socket of Linux
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
            found.connect(address)
            found.sendall(text.encode())
    except OSError:
        return False
    return True
