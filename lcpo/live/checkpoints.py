"""Checkpoints of a live agent, by the sequence of the newest event that they include.

    checkpoints/00000000000000004711.npz      the learner
    checkpoints/00000000000000004711.json     the rest, and the digest of the learner; written last

Sequence 0 is how the agent began.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lcpo.errors import InputError
from lcpo.live import saving
from lcpo.live.learning import Learning
from lcpo.live.settings import Settings
from lcpo.live.state import LearnerState
from lcpo.run.store.files import load_document, save_document, sweep

SCHEMA = 1
KEPT = 2
"""Number of checkpoints that stay, so that a damaged one has a predecessor."""
_NAME = re.compile(r"(\d{20})\.json")


class Checkpoint(NamedTuple):
    """A live agent at one moment."""

    sequence: int
    settings: Settings
    state: LearnerState
    desk: Mapping[str, Any]
    """`Desk.to_json`."""


class Checkpoints:
    """The checkpoints of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(
        self, learning: Learning, state: LearnerState, desk: Mapping[str, Any], sequence: int
    ) -> str:
        """Write a checkpoint; returns the digest of the learner's state."""
        digest = state.digest()
        saving.save(self._path(sequence, "npz"), learning, state)
        about = {"sequence": sequence, "learner": digest, "desk": dict(desk)}
        save_document(self._path(sequence, "json"), SCHEMA, about)
        return digest

    def numbers(self) -> list[int]:
        """The sequences of all checkpoints, the oldest first."""
        paths = self.folder.glob("*.json") if self.folder.is_dir() else ()
        return sorted(int(found[1]) for path in paths if (found := _NAME.fullmatch(path.name)))

    def first_desk(self, after: int) -> tuple[int, Mapping[str, Any]]:
        """Sequence and desk of the oldest checkpoint from `after` on: reports begin with it."""
        for sequence in self.numbers():
            if sequence >= after:
                return sequence, self._about(sequence)["desk"]
        raise InputError(f"{self.folder} has no checkpoint of sequence {after} or later")

    def load(self, sequence: int, agent: Any = None, trust: bool = False) -> Checkpoint:
        """A checkpoint; InputError if it is damaged."""
        about, learner = self._about(sequence), self._path(sequence, "npz")
        settings, state = saving.load(learner, agent, trust, None)
        if about["learner"] != state.digest():
            raise InputError(f"{learner} is not the learner of its .json file: it was exchanged")
        return Checkpoint(sequence, settings, state, about["desk"])

    def newest(self, agent: Any = None, trust: bool = False) -> tuple[Checkpoint, list[str]]:
        """The newest valid checkpoint, and what is wrong with those after it."""
        problems: list[str] = []
        for sequence in reversed(self.numbers()):
            try:
                return self.load(sequence, agent, trust), problems
            except InputError as error:
                problems.append(str(error))
        found = f" ({'; '.join(problems)})" if problems else ""
        raise InputError(f"{self.folder} has no valid checkpoint{found}: restore one from a copy")

    def prune(self, keep_first: bool) -> int:
        """Delete all but the newest ones and, if asked, the first; returns the oldest needed."""
        sweep(self.folder)
        numbers = self.numbers()
        kept = numbers[-KEPT:]
        for number in numbers[:-KEPT]:
            if not (keep_first and number == 0):
                self._path(number, "json").unlink(missing_ok=True)
        # Also what is left of a checkpoint whose second file was not written, or was deleted first.
        for path in self.folder.glob(f"{'[0-9]' * 20}.npz"):
            if not path.with_suffix(".json").exists():
                path.unlink(missing_ok=True)
        return kept[0]

    def _about(self, sequence: int) -> dict[str, Any]:
        path = self._path(sequence, "json")
        about = load_document(path, SCHEMA, {"sequence": int, "learner": str, "desk": dict})
        if about["sequence"] != sequence:
            raise InputError(f"{path} is the checkpoint of {about['sequence']}: it was renamed")
        return about

    def _path(self, sequence: int, kind: str) -> Path:
        return self.folder / f"{sequence:020}.{kind}"
