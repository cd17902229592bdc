"""The log of a live agent as columns, for reports. Nothing in the folder is changed."""

from __future__ import annotations

import contextlib
import dataclasses
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lcpo.errors import InputError, MissingFile
from lcpo.live.checkpoints import Checkpoints
from lcpo.live.desk import SOURCES, SWITCHBACK
from lcpo.live.events import Decide, Observe, See
from lcpo.live.folder import is_begun
from lcpo.live.journal import Learned, Mode, Rollback, decode
from lcpo.live.log import first_sequence, read
from lcpo.live.records import Record
from lcpo.live.switchback import Result, Switchback, Total, estimate
from lcpo.run.store.files import load_document
from lcpo.run.store.policy_file import spec_from_json
from lcpo.types import ContextSlice

NOT_YET = np.nan
"""In place of a reward that has not come."""
ATTEMPTS = 5
"""To read a log that drops segments meanwhile."""


class Experiment(NamedTuple):
    """A switchback experiment: decisions made with one design."""

    design: Switchback
    result: Result


@dataclasses.dataclass(frozen=True)
class Ledger:
    """What a live agent has done."""

    agent: str
    times: np.ndarray
    """Of decisions, in seconds since 1970."""
    sources: np.ndarray
    """Of decisions, as numbers of `SOURCES`."""
    rewards: np.ndarray
    """Of decisions; NaN where there is none yet."""
    contexts: np.ndarray
    """Of decisions, [N, channels]."""
    updates: list[Learned]
    modes: list[Mode]
    rollbacks: list[Rollback]
    experiments: list[Experiment]
    first: int
    """Sequence of the oldest event in the log."""
    last: int


def load(folder: Path) -> Ledger:
    """The ledger of a folder; InputError if it holds no live agent, or its log is damaged."""
    if not is_begun(folder):
        raise InputError(f"{folder} is not the folder of a live agent: it has no live.json")
    about = load_document(folder / "live.json", 1, {"settings": dict})["settings"]
    try:
        name, context = about["agent"], spec_from_json(about["spec"]).context
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder / 'live.json'} is not of a live agent: {error}") from error
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(MissingFile):
            return _load(folder, name, context)
    return _load(folder, name, context)


def _load(folder: Path, name: str, context: ContextSlice) -> Ledger:
    """MissingFile if the agent, which may run, has dropped a segment meanwhile."""
    first = first_sequence(folder / "log")
    reader = _Reader(context)
    reader.assume(*Checkpoints(folder / "checkpoints").first_desk(first - 1))
    reader.read(read(folder / "log", first - 1))
    return reader.ledger(name, first)


class _Reader:
    def __init__(self, context: ContextSlice) -> None:
        self.context, self.last = context, 0
        self.seen: dict[str, np.ndarray] = {}
        # Plain columns: a log may have millions of decisions. Their ids have no gaps.
        self.first: int | None = None  # id of the first one
        self.times, self.sources = array("d"), array("b")
        self.rewards, self.contexts = array("d"), array("f")
        self.updates, self.modes, self.rollbacks = [], [], []
        # With the rewards of their blocks. As for the agent, another design begins an experiment.
        self.experiments: list[tuple[Switchback, dict[int, Total]]] = []
        self.is_under_way = False  # the last one
        self.of_design: dict[int, tuple[Switchback, dict[int, Total], float]] = {}
        self.assumed = 0

    def read(self, records: Iterable[Record]) -> None:
        for record in records:
            self.last = record.sequence
            match entry := decode(record):
                case See():
                    self.seen[entry.stream] = self._newest(entry)
                case Decide():
                    self._decide(entry)
                case Observe() if entry.reward is not None:
                    self._reward(entry.id, float(entry.reward))
                case Mode():
                    self.modes.append(entry)
                    if record.sequence <= self.assumed:  # what was before is not known
                        self.experiments, self.of_design, self.assumed = [], {}, 0
                    self.set_design(entry._asdict())
                case Rollback():
                    self.rollbacks.append(entry)
                case Learned():
                    self.updates.append(entry)
                case _:
                    pass

    def assume(self, sequence: int, desk: Mapping[str, Any]) -> None:
        """Begin with the mode of a checkpoint, up to which the mode may still change."""
        self.assumed = sequence
        self.set_design(desk)

    def set_design(self, found: Mapping[str, Any]) -> None:
        """The experiment of a mode, if it is one; `found`: "mode" and "switchback"."""
        given = found["switchback"] if found["mode"] == SWITCHBACK else None
        self.is_under_way = given is not None
        design = None if given is None else Switchback(**given)
        if design is not None and (not self.experiments or design != self.experiments[-1][0]):
            self.experiments.append((design, {}))

    def _newest(self, see: See) -> np.ndarray:
        if see.context is not None:
            return np.atleast_1d(see.context)
        return self.context.newest(np.asarray(see.obs))

    def _decide(self, entry: Decide) -> None:
        if entry.stream not in self.seen:  # what it saw is in a segment that was dropped
            return
        self.first = entry.id if self.first is None else self.first
        self.times.append(entry.time)
        self.sources.append(SOURCES.index(entry.source))
        self.rewards.append(NOT_YET)
        self.contexts.extend(self.seen[entry.stream].tolist())
        if self.is_under_way:
            self.of_design[entry.id] = (*self.experiments[-1], entry.time)

    def _reward(self, number: int, reward: float) -> None:
        if self.first is None or number < self.first:
            return  # of a decision in a segment that was dropped
        self.rewards[number - self.first] = reward
        design, blocks, time = self.of_design.pop(number, (None, {}, 0.0))
        if design is not None and design.counts(time):
            block = design.block(time)
            blocks[block] = blocks.get(block, Total()).add(reward)

    def ledger(self, agent: str, first: int) -> Ledger:
        times = np.array(self.times)
        contexts = np.array(self.contexts, np.float64).reshape(len(times), self.context.channels)
        found = []
        for number, (design, blocks) in enumerate(self.experiments, start=1):
            is_now = self.is_under_way and number == len(self.experiments)
            under_way = design.block(float(times[-1])) if is_now and blocks else None
            if blocks:
                found.append(Experiment(design, estimate(design, blocks, under_way)))
        return Ledger(
            agent, times, np.array(self.sources, np.int64), np.array(self.rewards), contexts,
            self.updates, self.modes, self.rollbacks, found, first, self.last,
        )  # fmt: skip
