"""Trackers: progress and metrics of running jobs in other formats (`--track`).

    jsonl          OUT/events.jsonl, an event a line, with the time
    tensorboard    OUT/tensorboard/NAME: metrics of each run           pip install 'lcpo[track]'
    wandb          a run of Weights & Biases for each run              pip install 'lcpo[wandb]'

A tracker is a context manager made as `tracker(jobs, out)` before anything is written; the folder
is made with the runs. It yields a function that is called with every event (`lcpo.run.events`), in
the process that waits for the runs; its exceptions stop them. To add one, write such a function
and a line in `TRACKERS`. In Python any function of an event can be a callback of `lcpo.train`.
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
from typing import Any

from lcpo import values
from lcpo.errors import InputError, MissingPackage
from lcpo.names import unknown
from lcpo.run.events import Event, Failed, Finished, Note, Progress, Report, to_json
from lcpo.run.plan.job import Job
from lcpo.run.store.layout import events_file, tensorboard_folder
from lcpo.run.store.outputs import check_file, ends

_FIRST = b'{"time": '
"""How a file of `json_lines` begins."""


@contextlib.contextmanager
def json_lines(jobs: Sequence[Job], out: Path) -> Iterator[Report]:
    """Append every event to a file as JSON."""
    del jobs
    path = events_file(out)
    check_file(path, "--track jsonl", lambda path: ends(path)[:9] in (b"", _FIRST))
    with contextlib.ExitStack() as stack:
        opened: list[Any] = []

        def hear(event: Event) -> None:
            if not opened:
                if isinstance(event, Note):  # before the plan: the folder is still empty
                    return
                opened.append(stack.enter_context(open(path, "a", buffering=1)))
            line = {"time": round(time.time(), 3), **to_json(event)}
            opened[0].write(f"{json.dumps(values.without_nan(line))}\n")

        yield hear


@contextlib.contextmanager
def tensorboard(jobs: Sequence[Job], out: Path) -> Iterator[Report]:
    """Write scalars of each run, by phase and metric."""
    folders = {job.name: tensorboard_folder(out, job.name) for job in jobs}
    make = _package("tensorboardX", "tensorboard", "track").SummaryWriter
    with contextlib.ExitStack() as stack:
        writers: dict[str, Any] = {}

        def hear(event: Event) -> None:
            if isinstance(event, Progress):
                if event.job not in writers:
                    writers[event.job] = make(str(folders[event.job]))
                    stack.callback(writers[event.job].close)
                for name, value in _scalars(event).items():
                    writers[event.job].add_scalar(name, value, event.step)

        yield hear


@contextlib.contextmanager
def wandb(jobs: Sequence[Job], out: Path) -> Iterator[Report]:
    """Log each run to Weights & Biases; a resumed run is resumed there, too."""
    package = _package("wandb", "wandb", "wandb")
    configs, runs = {job.name: job.to_json() for job in jobs}, dict[str, Any]()

    def hear(event: Event) -> None:
        if isinstance(event, Progress):
            if event.job not in runs:
                place = f"{out.absolute()}/{event.job}".encode()
                runs[event.job] = package.init(
                    project="lcpo", group=out.name, name=event.job, resume="allow",
                    id=hashlib.sha256(place).hexdigest()[:16], dir=str(out),
                    config=configs[event.job], reinit="create_new",
                )  # fmt: skip
            runs[event.job].log(_scalars(event), step=event.step)
        elif isinstance(event, Finished | Failed) and event.job in runs:
            runs.pop(event.job).finish(exit_code=int(isinstance(event, Failed)))

    try:
        yield hear
    finally:
        for run in runs.values():  # those that have not ended can be resumed
            run.finish()


TRACKERS: dict[str, Any] = {"jsonl": json_lines, "tensorboard": tensorboard, "wandb": wandb}


def read_names(words: Iterable[str]) -> list[str]:
    """Trackers by name, without duplicates; a word may hold several, separated by commas."""
    names = [name.strip() for word in words for name in word.split(",")]
    for name in names:
        if name not in TRACKERS:
            raise InputError(unknown("tracker", name, TRACKERS))
    if len(set(names)) < len(names):
        raise InputError(f"--track {' '.join(names)}: name each once")
    return names


@contextlib.contextmanager
def tracking(names: Iterable[str], jobs: Sequence[Job], out: Path) -> Iterator[list[Report]]:
    """Trackers for a plan; MissingPackage, before any run, if a package is not installed."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(TRACKERS[name](jobs, out)) for name in names]


def _package(module: str, name: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackage(
            f"--track {name} needs {module}, which is not installed: pip install 'lcpo[{extra}]'"
        ) from error


def _scalars(event: Progress) -> dict[str, float]:
    found = event.metrics.items()
    return {f"{event.phase}/{name}": value for name, value in found if math.isfinite(value)}
