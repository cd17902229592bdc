"""What is told of runs while they run, as somebody else likes to read it: `--track`.

    jsonl          OUT/events.jsonl, an event a line, with the time
    tensorboard    OUT/tensorboard/NAME: metrics of each run           pip install 'lcpo[track]'
    wandb          a run of Weights & Biases for each run              pip install 'lcpo[wandb]'

A tracker is called with every event (`lcpo.run.events`), in the process that waits for the runs,
and closed at the end. To build one, write a class with these two methods and a line in `TRACKERS`;
in Python any function that takes an event is a callback of `lcpo.train`.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from lcpo import values
from lcpo.errors import InputError, MissingPackage
from lcpo.names import unknown
from lcpo.run import events
from lcpo.run.events import Event, Failed, Finished, Note, Progress
from lcpo.run.plan.job import Job
from lcpo.run.store.layout import events_file, tensorboard_folder
from lcpo.run.store.outputs import check_file


class Tracker(Protocol):
    """Made as `Tracker(jobs, out)` before anything is written; the folder comes with the runs."""

    def __call__(self, event: Event) -> None:
        """Hear an event. What it raises stops the runs."""
        ...

    def close(self) -> None:
        """No more events will come."""
        ...


class JsonLines:
    """Every event as JSON, appended to a file."""

    def __init__(self, jobs: Sequence[Job], out: Path) -> None:
        del jobs
        check_file(events_file(out), "--track jsonl", _is_events)
        self.out = out
        self.file: IO[str] | None = None

    def __call__(self, event: Event) -> None:
        """Write a line."""
        if self.file is None:
            if isinstance(event, Note):  # it may come before the plan: the folder is empty then
                return
            self.file = open(events_file(self.out), "a", buffering=1)  # noqa: SIM115
        told = {"time": round(time.time(), 3), **events.to_json(event)}
        self.file.write(f"{json.dumps(values.without_nan(told))}\n")

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file.close()


class TensorBoard:
    """Scalars of each run, by phase and metric."""

    def __init__(self, jobs: Sequence[Job], out: Path) -> None:
        for job in jobs:
            tensorboard_folder(out, job.name)
        self.make = _package("tensorboardX", "tensorboard", "track").SummaryWriter
        self.out = out
        self.writers: dict[str, Any] = {}

    def __call__(self, event: Event) -> None:
        """Write the metrics of a chunk."""
        if not isinstance(event, Progress):
            return
        if event.job not in self.writers:
            self.writers[event.job] = self.make(str(tensorboard_folder(self.out, event.job)))
        for name, value in _finite(event).items():
            self.writers[event.job].add_scalar(f"{event.phase}/{name}", value, event.step)

    def close(self) -> None:
        """Write what is left."""
        for writer in self.writers.values():
            writer.close()


class WandB:
    """A run of Weights & Biases for each run; one that is resumed goes on there, too."""

    def __init__(self, jobs: Sequence[Job], out: Path) -> None:
        self.wandb = _package("wandb", "wandb", "wandb")
        self.jobs, self.out = {job.name: job for job in jobs}, out
        self.runs: dict[str, Any] = {}

    def __call__(self, event: Event) -> None:
        """Log the metrics of a chunk, or how a run ended."""
        if isinstance(event, Progress):
            run = self.runs.get(event.job) or self._begin(event.job)
            run.log({f"{event.phase}/{k}": v for k, v in _finite(event).items()}, step=event.step)
        elif isinstance(event, Finished | Failed) and event.job in self.runs:
            self.runs.pop(event.job).finish(exit_code=int(isinstance(event, Failed)))

    def _begin(self, name: str) -> Any:
        place = hashlib.sha256(f"{self.out.absolute()}/{name}".encode()).hexdigest()[:16]
        self.runs[name] = self.wandb.init(
            project="lcpo", group=self.out.name, name=name, id=place, resume="allow",
            dir=str(self.out), config=self.jobs[name].to_json(), reinit="create_new",
        )  # fmt: skip
        return self.runs[name]

    def close(self) -> None:
        """End what has not ended: it can be resumed."""
        for run in self.runs.values():
            run.finish()


TRACKERS: dict[str, Any] = {"jsonl": JsonLines, "tensorboard": TensorBoard, "wandb": WandB}


def read_names(words: Iterable[str]) -> list[str]:
    """Trackers by name, each once; words may hold several, separated by commas."""
    names = [name.strip() for word in words for name in word.split(",")]
    for name in names:
        if name not in TRACKERS:
            raise InputError(unknown("tracker", name, TRACKERS))
    if len(set(names)) < len(names):
        raise InputError(f"--track {' '.join(names)}: name each once")
    return names


@contextlib.contextmanager
def tracking(names: Iterable[str], jobs: Sequence[Job], out: Path) -> Iterator[list[Tracker]]:
    """Trackers for a plan; MissingPackage, before any work, where a package is not installed."""
    with contextlib.ExitStack() as stack:
        trackers: list[Tracker] = []
        for name in names:
            trackers.append(TRACKERS[name](jobs, out))
            stack.callback(trackers[-1].close)
        yield trackers


def _is_events(path: Path) -> bool:
    """Whether a file begins as what `JsonLines` writes, or is empty."""
    with open(path, "rb") as file:
        return file.read(len(_FIRST)) in (b"", _FIRST)


_FIRST = b'{"time": '


def _package(module: str, name: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackage(
            f"--track {name} needs {module}, which is not installed: pip install 'lcpo[{extra}]'"
        ) from error


def _finite(event: Progress) -> dict[str, float]:
    return {name: value for name, value in event.metrics.items() if math.isfinite(value)}
