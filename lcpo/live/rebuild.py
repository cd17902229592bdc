"""From a checkpoint and the log to the agent: recovery after a crash, and replays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lcpo import values
from lcpo.agents import off_policy
from lcpo.errors import InputError
from lcpo.live import log as logs
from lcpo.live.checkpoints import Checkpoint, Checkpoints
from lcpo.live.desk import Desk
from lcpo.live.events import Decide, Discard, End, Observe, See
from lcpo.live.folder import is_begun, is_warm
from lcpo.live.journal import Learned, Mode, Rollback, Saved, decode, number_of
from lcpo.live.learning import Learning
from lcpo.live.loop import Loop
from lcpo.live.records import Record
from lcpo.live.serving import Serving
from lcpo.live.settings import Settings
from lcpo.live.shadow import ServedLearning
from lcpo.live.state import LearnerState
from lcpo.live.versions import Version, Versions, slim


class Player:
    """Applies the records of a log to a learner, one by one."""

    def __init__(
        self, settings: Settings, state: LearnerState, desk: Desk, versions: Versions,
        wanted: frozenset[int] = frozenset(),
    ) -> None:  # fmt: skip
        """`wanted`: versions to which a record returns, and that may no longer be in `versions`."""
        learning = ServedLearning(settings)
        self.serving = Serving(Loop(settings), learning, state, False, None)
        self.serving.desk = desk
        self.learned = state.updates + state.dropped
        """Number of updates that the log mentions."""
        self._versions, self._dtype = versions, settings.spec.actions.dtype
        self._wanted, self._made = wanted, dict[int, dict[str, np.ndarray]]()
        self.returned: dict[int, tuple[Version, dict[str, np.ndarray]]] = {}
        """Versions to which a record returns, as the new versions that this made."""
        self.serving.on_update = self._keep
        self._keep(state)

    def apply(self, record: Record) -> None:
        """One record; InputError if it does not fit."""
        entry = decode(record, self._dtype)
        match entry:
            case See() | Decide() | Observe() | Discard() | End():
                try:
                    self.serving.replay(entry)
                except InputError as error:
                    raise InputError(f"record {record.sequence} does not fit: {error}") from error
            case Mode():
                self.serving.set_mode(entry)
            case Rollback():
                arrays = self._arrays(entry.version)
                number = self.serving.return_to(entry.version, arrays, lambda: None)
                self.serving.desk.returns[entry.version] = record.sequence
                made = Version(number, record.sequence, entry.time)
                self.returned[entry.version] = made, arrays
                self._keep(self.serving.state)
            case Learned():
                self.learned = entry.number
            case _:
                pass

    def _keep(self, state: LearnerState) -> None:
        if state.updates in self._wanted:
            self._made[state.updates] = slim(state.agent)

    def _arrays(self, version: int) -> dict[str, np.ndarray]:
        found = self._made.get(version)
        return self._versions.load(version)[1] if found is None else found


class Replayed(NamedTuple):
    """What a replay has found."""

    first: int
    """Sequence of the checkpoint that it began with."""
    last: int
    """Sequence of the last record."""
    state: LearnerState
    checked: int
    """Checkpoints whose digest was compared, all of them equal."""


def replay(
    folder: Path,
    until: int | None = None,
    config: Mapping[str, Any] | None = None,
    agent: Any = None,
    trust: bool = False,
    tell: Callable[[int], object] = lambda _: None,
) -> Replayed:
    """Rebuild a learner from its log. InputError if a digest differs from what was recorded.

    Args:
      folder: of the live agent; nothing in it is changed.
      until: the sequence to stop after.
      config: other settings. Off-policy agents only: they learn from actions of other policies.
      agent: the agent, if it is not part of this library; or trust the one that the folder names.
      trust: import it.
      tell: called with the sequence, now and then.
    """
    if not is_begun(folder):
        raise InputError(f"{folder} is not the folder of a live agent: it has no live.json")
    if until is not None:
        values.whole("until", until, 1, 2**63)
    checkpoints, log = Checkpoints(folder / "checkpoints"), folder / "log"
    start = _first(checkpoints, log, agent, trust)
    if until is not None and until < start.sequence:
        values.refuse("until", until, f"at least {start.sequence:,}: the log before it was dropped")
    marks, wanted = _marks(log, start.sequence)
    settings, state = start.settings, start.state
    if config:
        settings, marks = what_if(settings, config), {}
        _check_from_nothing(folder, start.sequence, wanted)
        state = Learning(settings).begin()
    desk = Desk.from_json(start.desk, None)
    player = Player(settings, state, desk, Versions(folder / "versions"), wanted)
    last, checked = start.sequence, 0
    for record in logs.read(log, start.sequence):
        if until is not None and record.sequence > until:
            break
        player.apply(record)
        last = record.sequence
        if (expected := marks.get(last)) is not None:
            if player.serving.state.digest() != expected:
                raise InputError(
                    f"the learner of sequence {last} differs from the one that was recorded: the "
                    "log was made by another version of lcpo or JAX, or on another processor"
                )
            checked += 1
        if last % 1000 == 0:
            tell(last)
    return Replayed(start.sequence, last, player.serving.state, checked)


def _check_from_nothing(folder: Path, first: int, returns: frozenset[int]) -> None:
    """Raise InputError unless all that the agent has learned is in the log."""
    why = ""
    if first:
        why = f"the log begins after event {first:,}: keep it from the start (keep_log=True)"
    elif is_warm(folder):
        why = "the agent began with a trained policy, which other settings cannot have"
    elif returns:
        why = "there was a rollback, to a version that learned with the recorded settings"
    if why:
        raise InputError(f"{folder} cannot be replayed with other settings: {why}")


def _first(checkpoints: Checkpoints, log: Path, agent: Any, trust: bool) -> Checkpoint:
    """The oldest checkpoint from which the log is complete."""
    begins = logs.first_sequence(log)
    for sequence in checkpoints.numbers():
        if sequence >= begins - 1:
            return checkpoints.load(sequence, agent, trust)
    raise InputError(f"{checkpoints.folder} has no checkpoint from which {log} continues")


def _marks(log: Path, after: int) -> tuple[dict[int, str], frozenset[int]]:
    """Digests by sequence, and the versions to which a record returns."""
    marks, wanted = {}, set()
    for record in logs.read(log, after):
        entry = decode(record) if record.kind in _MARKS else None
        if isinstance(entry, Saved):
            marks[entry.sequence] = entry.digest
        elif isinstance(entry, Rollback):
            wanted.add(entry.version)
    return marks, frozenset(wanted)


_MARKS = {number_of(Rollback), number_of(Saved)}


def what_if(settings: Settings, config: Mapping[str, Any]) -> Settings:
    """The settings with other values; InputError for agents that learn from their own actions."""
    if not issubclass(settings.plain_agent.Config, off_policy.Config):
        raise InputError(
            f"{settings.agent_name} learns from its own actions, and the log has those of another "
            "policy: other settings can be replayed for agents with a replay buffer, such as ddqn "
            "and sac"
        )
    given = settings.to_json()
    given["config"] = {**given["config"], **config}
    return Settings.make(**{**given, "agent": settings.plain_agent, "spec": settings.spec})
