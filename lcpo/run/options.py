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
"""Processes at a time: more than the cores of any machine that this runs on."""
PYTHON_ONLY = {"option": False}
"""Metadata of fields that are no options of a command."""


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Where the results go, what runs the jobs, and what is heard of them."""

    out: Path | None = None
    """Folder for results; default: out/ and a name."""
    resume: bool = False
    """Go on with the runs that the folder holds; with it, --out alone says which runs."""
    workers: int | None = None
    """Processes at a time; default: one per core, and on a GPU none beside this one. With --engine
    slurm: tasks of the array."""
    engine: str = "local"
    """Where: local, ray (a cluster), slurm (writes a script for its queue)."""
    address: str | None = None
    """HOST:PORT of a Ray cluster; default: the one that this machine is in."""
    checkpoint_seconds: float = 60.0
    """Time between checkpoints."""
    keep_state: bool = False
    """Keep the last checkpoint of each run: with it, --resume with more --steps goes on."""
    track: tuple[str, ...] = ()
    """Tell of the runs while they run: jsonl, tensorboard, wandb, or several."""
    progress: bool = dataclasses.field(default=True, metadata=PYTHON_ONLY)
    """Show a progress bar."""
    callbacks: Sequence[Callable[[Event], Any]] = dataclasses.field(
        default=(), metadata=PYTHON_ONLY
    )
    """Called with every event, in this process."""

    @classmethod
    def of(cls, **given: Any) -> RunOptions:
        """From what a user gave; InputError where it cannot be used."""
        return cls(**given).checked()

    def checked(self) -> RunOptions:
        """The same as plain values; InputError where one of them cannot be used."""
        if self.workers is not None:
            values.whole("workers", self.workers, 0, MAX_WORKERS)
        values.number("checkpoint seconds", self.checkpoint_seconds, 0.0)
        flags = {
            name: values.flag(name, getattr(self, name))
            for name in ("resume", "progress", "keep_state")
        }
        return dataclasses.replace(
            self,
            **flags,
            callbacks=_check_callbacks(self.callbacks),
            track=tuple(_check_track(self.track)),
            out=None if self.out is None else values.path("out", self.out),
        )

    def at(self, default: Path) -> RunOptions:
        """With a folder: the one that was given, or else this one."""
        return dataclasses.replace(self, out=self.out or default)

    @property
    def folder(self) -> Path:
        """Where the results go, once that is known."""
        assert self.out is not None, "`at` says where"
        return self.out


def _check_callbacks(callbacks: Any) -> list[Callable[[Event], Any]]:
    if isinstance(callbacks, Mapping) or not isinstance(callbacks, Iterable):
        values.refuse("callbacks", callbacks, "a list of functions of one event")
    found = list(callbacks)
    for each in found:
        if not callable(each):
            values.refuse("callbacks", each, "functions of one event")
    return found


def _check_track(track: Any) -> list[str]:
    words = [track] if isinstance(track, str) else track
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        values.refuse("track", track, "a name, or a list of names, such as 'tensorboard'")
    return read_names(words)
