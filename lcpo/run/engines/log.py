"""Logs in the output folder: what agents and environments print, and tracebacks."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

from lcpo.run.store.lock import cannot_write


class Log:
    """A log to which sessions append. One in which nothing but beginnings was told is not kept."""

    def __init__(self, path: Path) -> None:
        """Raises InputError where it cannot be written."""
        self.path = path
        try:
            path.parent.mkdir(exist_ok=True)
            self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise cannot_write(path, error) from error
        self.before = os.fstat(self.descriptor).st_size
        self.beginnings = 0

    def begin(self, names: Iterable[str]) -> None:
        """Say whose text follows."""
        self.beginnings += self.write(f"--- {time.strftime('%F %T')} {', '.join(names)}\n")

    def write(self, text: str) -> int:
        """Append text; how many bytes. A log that cannot be written stops no run."""
        with contextlib.suppress(OSError):
            return os.write(self.descriptor, text.encode(errors="backslashreplace"))
        return 0

    def named(self, reason: str) -> str:
        """A reason, and where the rest is told."""
        return f"{reason}; see {self.path}"

    def close(self) -> None:
        """Close it, and remove what tells nothing."""
        with contextlib.suppress(OSError):  # the folder may be gone
            if os.fstat(self.descriptor).st_size == self.before + self.beginnings:
                os.ftruncate(self.descriptor, self.before)
                if self.before == 0:
                    self.path.unlink()
                    self.path.parent.rmdir()  # if it is empty
        os.close(self.descriptor)
