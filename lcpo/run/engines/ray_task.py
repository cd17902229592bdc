"""A task of Ray's, on any machine: it runs a share in a worker process.

It imports little, and the object store holds nothing but what the worker says, in small messages.
"""

from __future__ import annotations

import os
import queue
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lcpo.run import events
from lcpo.run.engines.process import Said, Share, WorkerProcess
from lcpo.run.events import Crashed
from lcpo.run.store.layout import plan_file

DIED = "died"
"""Key of a message that is no event: how the worker ended."""


class Place(NamedTuple):
    """Where and how a share is run; the same for all shares of a plan."""

    out: str  # the output folder, which all machines share
    digest: str  # of the plan in it
    folder: str  # the driver's working directory: trace files and modules are looked up there
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
        while (said := heard.get()) is not None:
            if isinstance(said, str):
                yield {DIED: process.log_end(share, f"{said} on {host}")}
                return
            yield events.to_json(said)
    finally:
        process.close()
