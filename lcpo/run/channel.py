"""How a driver and a worker process talk: lines of JSON, where user code cannot reach them.

A worker is started with pipes as its standard input and output. Before anything else it keeps both
for itself: from then on what agents, environments and their child processes print goes to standard
error, which is a log, and who reads standard input finds its end.

    driver -> worker    job numbers, a share a line; `STOP`: save what runs, and end
    worker -> driver    events (`lcpo.run.events`), and `IDLE` after each share
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

from lcpo.run import events, stop
from lcpo.run.events import Event

IDLE = {"event": "idle"}
"""What a fed worker says when it has run what it was given."""
STOP = b"stop\n"
"""A wish of the driver's."""


class Channel:
    """The worker's end. Its descriptors are no child process's."""

    def __init__(self, source: int, target: int) -> None:
        self.source, self.target = source, target
        # A process that is forked and goes on without exec would keep the pipes open.
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.close)

    def send(self, event: Event) -> None:
        """Tell the driver."""
        self._write(events.to_json(event))

    def idle(self) -> None:
        """Ask for the next share."""
        self._write(IDLE)

    def _write(self, values: dict[str, Any]) -> None:
        line = f"{json.dumps(values)}\n".encode()
        while line:
            line = line[os.write(self.target, line) :]

    def shares(self) -> Iterator[list[int]]:
        """Numbers of the jobs of a share. Their end means that the driver is gone: stop at once."""
        numbers: queue.Queue[list[int]] = queue.Queue()

        def read() -> None:
            try:
                with open(self.source, "rb", closefd=False) as lines:
                    for line in lines:
                        if line == STOP:
                            stop.ask()
                        else:
                            numbers.put([int(number) for number in line.split()])
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(1)

        threading.Thread(target=read, daemon=True).start()
        while True:
            yield numbers.get()

    def close(self) -> None:
        """Close both descriptors, if they are open."""
        for descriptor in (self.source, self.target):
            if descriptor >= 0:
                os.close(descriptor)
        self.source = self.target = -1


def open_standard_streams() -> None:
    """Give a process whose standard streams are closed (`>&-`) an empty one in place of each.

    Otherwise the next file that it opens has the number of the stream, and is written to as such.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:  # the lowest number that is free is given to what is opened: this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


@contextlib.contextmanager
def own_channel() -> Iterator[Channel]:
    """Keep standard input and output for a channel; at the end they are as before."""
    _flush()
    channel = Channel(os.dup(0), os.dup(1))
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    # A log is no terminal: Python would keep its text back, and lose it where the process dies.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    try:
        yield channel
    finally:
        _flush()
        os.dup2(channel.source, 0)
        os.dup2(channel.target, 1)
        channel.close()


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


class Garbled(Exception):
    """A line that is no event; the text is the line."""


def read_events(descriptor: int) -> Iterator[Event | None]:
    """The driver's end: what a worker says until it ends; None: it is idle. Raises Garbled.

    A last line without an end is that of a worker which died: nobody knows what it was to say.
    """
    with open(descriptor, "rb", buffering=0, closefd=False) as stream:
        rest = b""
        while part := stream.read(1 << 16):
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                try:
                    values = json.loads(line)
                    event = None if values == IDLE else events.from_json(values)
                except ValueError:
                    raise Garbled(line[:200].decode(errors="backslashreplace")) from None
                yield event
