"""How jobs are run: one record, from the command line or a Python call to the engine.

The string under a field is the help of its option.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lcpo import values
from lcpo.run.events import Event
from lcpo.run.track import read_names

MAX_WORKERS = 1000
"""Most processes at a time: more than any machine has cores."""
PYTHON_ONLY = {"option": False}
"""Metadata of fields that are not options of a command."""


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Where the results go, what runs the jobs, and what it reports."""

    out: Path | None = None
    """Folder for results; default: a folder in out/ named after the runs."""
    resume: bool = False
    """Resume the runs in the folder; with --out alone, all runs of the folder's plan."""
    workers: int | None = None
    """Worker processes; default: one per core, on a GPU none (0: run in this process). With
    --engine slurm: tasks of the array."""
    engine: str = "local"
    """Where to run: local, ray (a cluster), slurm (writes a script to submit)."""
    address: str | None = None
    """HOST:PORT of a Ray cluster; default: the cluster that this machine is part of."""
    checkpoint_seconds: float = 60.0
    """Seconds between checkpoints."""
    keep_state: bool = False
    """Keep the last checkpoint of each run, so that --resume with more --steps can extend it."""
    track: tuple[str, ...] = ()
    """Log progress and metrics: jsonl, tensorboard, wandb, or several."""
    progress: bool = dataclasses.field(default=True, metadata=PYTHON_ONLY)
    """Show a progress bar."""
    callbacks: Sequence[Callable[[Event], Any]] = dataclasses.field(
        default=(), metadata=PYTHON_ONLY
    )
    """Called with every event, in this process."""

    @classmethod
    def of(cls, **given: Any) -> RunOptions:
        """From what a user gave; InputError if it cannot be used."""
        return cls(**given).checked()

    def checked(self) -> RunOptions:
        """The same as plain values; InputError if one of them cannot be used."""
        if self.workers is not None:
            values.whole("workers", self.workers, 0, MAX_WORKERS)
        values.number("checkpoint seconds", self.checkpoint_seconds, 0.0)
        track: Any = [self.track] if isinstance(self.track, str) else self.track
        if not isinstance(track, (list, tuple)) or not all(isinstance(x, str) for x in track):
            values.refuse("track", track, "a name, or a list of names, such as 'tensorboard'")
        callbacks: Any = self.callbacks
        if isinstance(callbacks, Mapping) or not isinstance(callbacks, Iterable):
            values.refuse("callbacks", callbacks, "a list of functions of one event")
        callbacks = list(callbacks)
        for each in callbacks:
            if not callable(each):
                values.refuse("callbacks", each, "functions of one event")
        return dataclasses.replace(
            self,
            resume=values.flag("resume", self.resume),
            progress=values.flag("progress", self.progress),
            keep_state=values.flag("keep_state", self.keep_state),
            callbacks=callbacks,
            track=tuple(read_names(track)),
            out=None if self.out is None else values.path("out", self.out),
        )

    def at(self, default: Path) -> RunOptions:
        """The same options with a folder: the one that was given, or else this one."""
        return dataclasses.replace(self, out=self.out or default)

    @property
    def folder(self) -> Path:
        """Where the results go, once that is known."""
        assert self.out is not None, "`at` sets it"
        return self.out
