"""What a task of Ray's does, on whichever machine it is: run a share in a worker process.

The object store holds nothing but what the worker says, one small message each.
"""

from __future__ import annotations

import os
import queue
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lcpo.run import events
from lcpo.run.engines.process import IDLE, Said, Share, WorkerProcess
from lcpo.run.events import Crashed
from lcpo.run.store.layout import plan_file

DIED = "died"
"""Name of a message that is no event: how the worker ended."""


class Place(NamedTuple):
    """Where and how a share is run; the same for all of a plan."""

    out: str
    """The output folder, which all machines share."""
    digest: str
    """Of the plan in it."""
    folder: str
    """The driver's own folder: names of trace files and modules are looked for there."""
    python_path: str
    checkpoint_seconds: float
    one_core: bool


def serve(place: Place, share: Share) -> Iterator[dict[str, Any]]:
    """Run a share; messages for the driver, until it has ended."""
    host, out = socket.gethostname(), Path(place.out)
    if not plan_file(out).exists():
        for name in share:
            reason = f"{host} does not see {out}: give a folder (--out) that all machines share"
            yield events.to_json(Crashed(name, reason))
        return
    heard: queue.Queue[Said] = queue.Queue()
    process = WorkerProcess(
        out,
        place.digest,
        f"{host}-{os.getpid()}",
        lambda _, said: heard.put(said),
        place.checkpoint_seconds,
        place.one_core,
        Path(place.folder) if os.path.isdir(place.folder) else None,
        {"PYTHONPATH": place.python_path},
    )
    try:
        process.feed(share)
        while (said := heard.get()) != IDLE:
            if isinstance(said, str):
                process.log.write(f"{', '.join(share)} stopped: {said}\n")
                yield {DIED: process.log.named(f"{said} on {host}")}
                return
            yield _message(said, process)
    finally:
        process.close()


def _message(event: events.Event, process: WorkerProcess) -> dict[str, Any]:
    """Without tracebacks, which are in the log."""
    message = events.to_json(event)
    if isinstance(event, Crashed) and event.details:
        message |= {"reason": process.log.named(event.reason), "details": ""}
    return message
