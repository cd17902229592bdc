"""A live agent: a learner whose events are in a log before they are acknowledged.

    agent = lcpo.live.open("autoscaler", agent="lcpo", spec=spec, mode="shadow")
    decision = agent.act([queue, servers], [requests], taken=my_rule(queue))
    agent.observe(reward, id=decision.id)

The folder holds everything: `live.json` (what the agent was made with), `log/`, `checkpoints/` and
`versions/`. Open it again, after a crash as well, and the agent continues where it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from lcpo import __version__, values
from lcpo.errors import InputError
from lcpo.live.checkpoints import Checkpoint, Checkpoints
from lcpo.live.desk import FROZEN, MODES, SWITCHBACK, Desk
from lcpo.live.events import Discard, End, Observe, See
from lcpo.live.folder import Options, decider, is_warm
from lcpo.live.guard import Guard
from lcpo.live.journal import Entry, Learned, Mode, Opened, Rollback, Saved, encode
from lcpo.live.keys import checked
from lcpo.live.learner import Decision
from lcpo.live.log import Log, NotWritten
from lcpo.live.rebuild import Player
from lcpo.live.serving import Serving
from lcpo.live.state import LearnerState
from lcpo.live.switchback import Result, Switchback, estimate
from lcpo.live.versions import Version, Versions, slim
from lcpo.run.store.lock import locked

ModeName = Literal["frozen", "shadow", "switchback", "live"]


class LiveStats(NamedTuple):
    """Where a live agent stands."""

    mode: str
    policy_version: int
    good_version: int | None
    """The version to which a rollback would return."""
    decisions: dict[str, int]
    """By source: policy, incumbent, guard, fallback."""
    mean_reward: dict[str, float]
    """By source."""
    open: int
    """Decisions that wait for a reward or a successor."""
    late: int
    expired: int
    discarded: int
    updates: int
    dropped_updates: int
    problem: str | None
    """The newest thing that went wrong."""
    switchback: Result | None
    """The difference so far, in switchback mode."""
    sequence: int
    """Of the newest event in the log."""
    checkpoint: int
    """Sequence up to which recovery needs no log."""
    log_bytes: int


class LiveAgent:
    """A learner in a folder; made by `lcpo.live.open`. Several threads may call it."""

    defer: Callable[[Callable[[], None]], object] | None = None
    """Runs what is due after a call, such as a checkpoint; None: the call does it itself."""
    num_rollbacks = 0
    """Since the folder was opened."""
    _tender: threading.Thread | None = None
    """Saves the newest checkpoint that is due, if learning has a thread of its own."""

    def __init__(self, folder: Path, options: Options, agent: Any, trust: bool) -> None:
        """Recover what the folder holds."""
        self.folder, self.options = folder, options
        self._checkpoints = Checkpoints(folder / "checkpoints")
        self._versions = Versions(folder / "versions", options.keep_versions)
        self._open = contextlib.ExitStack()
        self._saving, self._tending = threading.Lock(), threading.Lock()
        try:
            self._open.enter_context(locked(folder, warnings.warn))
            start, problems = self._checkpoints.newest(agent, trust)
            self.settings = start.settings
            guard = options.guard and Guard(options.guard, self.settings.spec.actions)
            player = self._player(start, guard)
            rest = {"durability": options.durability, "segment_bytes": options.segment_bytes}
            if self._versions.numbers() and not any((folder / "log").glob("*.log")):
                raise InputError(  # the first version is saved after the log has begun
                    f"the log in {folder / 'log'} has no segments, though the agent has served: "
                    "restore them from a copy, or begin a new folder"
                )
            log = Log(folder / "log", player.apply, after=start.sequence, **rest)
            self._log = self._open.enter_context(log)
            self._saved = self._tried = start.sequence
            self._begin(player, guard)
            found = [*problems, *([f"{self._log.cut} were cut"] if self._log.cut else [])]
            for problem in found:
                self._tell(problem)
        except BaseException:
            self._open.close()
            raise

    def _player(self, start: Checkpoint, guard: Guard | None) -> Player:
        desk = Desk.from_json(start.desk, self.options.rollback)
        player = Player(start.settings, start.state, desk, self._versions)
        player.serving.guard = guard
        return player

    def _begin(self, player: Player, guard: Guard | None) -> None:
        """From replaying to serving."""
        old, options = player.serving, self.options
        self._core = core = Serving(
            old.loop, old.learning, old.state, options.learn == "background", self._record
        )
        core.desk, core.problem = old.desk, old.problem
        core.guard, core.incumbent = guard, options.incumbent
        core.fallback = decider(options.fallback, self.settings.spec)
        core.starts_fresh = not is_warm(self.folder)
        self._open.callback(core.close)
        self._learned = player.learned
        core.on_update = self._updated
        self._record(Opened(__version__, self._now()))
        if not self._versions.numbers():
            self._save_version(core.state)
        if player.returned:  # the process ended before it had saved what a rollback needs
            for about, arrays in player.returned.values():
                self._keep_version(about, arrays)
            self._try_checkpoint()

    @property
    def mode(self) -> str:
        """frozen, shadow, switchback or live."""
        return self._core.desk.mode

    @property
    def design(self) -> Switchback | None:
        """Of the newest switchback experiment."""
        return self._core.desk.switchback

    def act(
        self,
        obs: Any,
        context: Any = None,
        stream: str = "0",
        taken: Any = None,
        deterministic: bool = False,
        *,
        key: str | None = None,
        trace: str | None = None,
    ) -> Decision:
        """The action of a stream for an observation. It is in the log when this returns.

        Arguments as of `lcpo.Learner.act`, and:

        Args:
          taken: the action of your own rule, in shadow mode, and in switchback mode, where it is
            played in the incumbent's blocks.
          key: your own id of this call. Repeat it with the same key if no answer came: the stream
            gets the same decision again, also after a crash. The newest 4,096 keys are known.
          trace: W3C `traceparent` of the call, which is logged with the decision.
        """
        see = See(stream, obs, context, self._now())
        flag = values.flag("deterministic", deterministic)
        trace = None if trace is None else _text("trace", trace)
        made = self._core.decide(see, taken, flag, checked(key), trace)
        self._finish(may_wait=False)
        return Decision(
            made.id, made.action.copy(), made.probability, made.policy_version, made.source
        )

    def observe(
        self,
        reward: float | None = None,
        next_obs: Any = None,
        terminated: bool = False,
        truncated: bool = False,
        next_context: Any = None,
        stream: str = "0",
        *,
        id: int | None = None,
        action: Any = None,
        elapsed: float = 1.0,
        readings: Any = None,
        trace: str | None = None,
    ) -> str:
        """The outcome of a decision; arguments and answers as of `lcpo.Learner.observe`.

        It is in the log when this returns. Repeat it, with the decision's id, if no answer came:
        the same again is "duplicate". `trace`: W3C `traceparent` of the call, for the log.
        """
        number = None if id is None else values.whole("id", id, 0, 2**62)
        trace = None if trace is None else _text("trace", trace)
        event = Observe(
            number, reward, next_obs, terminated, truncated, next_context, action,  # pyright: ignore
            elapsed, readings, self._now(), trace,
        )  # fmt: skip
        result = self._core.observe(event, stream)
        self._finish()
        return result

    def made_with(self, key: str, stream: str = "0") -> int | None:
        """The id of the decision that was made with a key, if it is remembered."""
        found = self._core.desk.keys.find(stream, key)
        return None if found is None else found.id

    def last_decision(self, stream: str) -> int | None:
        """The id of a stream's last decision, if that is open."""
        mine = self._core.state.streams.get(stream)
        return mine.open[-1].id if mine is not None and mine.open else None

    def is_open(self, id: int) -> bool:
        """Whether a decision waits for its reward or its successor."""
        return id in self._core.state.where

    def discard(self, stream: str = "0", *, id: int | None = None) -> int:
        """Do not learn from a decision, or from any open one of a stream; returns how many."""
        number = None if id is None else values.whole("id", id, 0, 2**62)
        count = self._core.change(Discard(stream, number, self._now()))
        self._finish()
        return count

    def end(self, stream: str = "0") -> int:
        """A stream leaves; returns how many of its decisions were discarded."""
        count = self._core.change(End(stream, self._now()))
        self._finish()
        return count

    def set_mode(
        self, mode: ModeName, switchback: Switchback | None = None, why: str = "asked for"
    ) -> None:
        """Change the mode. Switchback mode needs a design, unless there was one before."""
        if mode not in MODES:
            values.refuse("mode", mode, f"one of {', '.join(MODES)}")
        design = self._core.desk.switchback if switchback is None else switchback
        if not isinstance(design, Switchback) and (mode == SWITCHBACK or switchback is not None):
            values.refuse("switchback", switchback, "a design, such as Switchback(length=3600)")
        self._change_mode(mode, design if mode == SWITCHBACK else None, _text("why", why))
        self._finish()

    def _change_mode(self, mode: str, design: Switchback | None, why: str) -> None:
        event = Mode(mode, design and dataclasses.asdict(design), why, self._now())
        self._core.set_mode(event, lambda: self._record(event))

    def rollback(self, version: int | None = None, why: str = "asked for") -> int:
        """Return to a version, or to the last good one; learning continues from there.

        The policy gets a new version number, which is returned.
        """
        chosen = self._good() if version is None else version
        arrays = self._versions.load(chosen)[1]
        event = Rollback(chosen, _text("why", why), self._now())
        returns = self._core.desk.returns

        def record() -> None:
            self._record(event)
            returns[chosen] = self._log.last
            self.num_rollbacks += 1

        number = self._core.return_to(chosen, arrays, record)
        # Saved at once: the newest of the versions before may be the bad ones.
        self._keep_version(Version(number, returns[chosen], event.time), arrays)
        self._try_checkpoint()
        return number

    def _try_checkpoint(self) -> None:
        try:
            self.checkpoint()
        except NotWritten as error:  # the rollback itself is in the log
            self._tell(str(error))

    def versions(self) -> list[Version]:
        """The versions that are kept, the oldest first."""
        return [self._versions.load(number)[0] for number in self._versions.numbers()]

    def version_numbers(self) -> list[int]:
        """The numbers of the versions that are kept, without reading them."""
        return self._versions.numbers()

    def checkpoint(self) -> int:
        """Save everything, so that recovery needs no log before it; returns its sequence."""
        with self._saving:
            self._log.check_usable()
            time = self._now()
            state, desk, sequence = self._core.frozen_copy(lambda: self._log.last)
            self._log.flush(sequence)  # a power cut must not leave a log that ends before
            try:
                digest = self._checkpoints.save(self._core.learning, state, desk, sequence)
            except OSError as error:
                why = f"the checkpoint in {self._checkpoints.folder} could not be written"
                raise NotWritten(f"{why} ({error.strerror})") from error
            self._log.append(*encode(Saved(sequence, digest, time)))
            self._saved = self._tried = sequence
            needed = self._checkpoints.prune(self.options.keep_log)
            returns = self._core.desk.returns
            for version in [version for version, last in returns.items() if last <= needed]:
                del returns[version]
            if not self.options.keep_log:
                self._log.drop(needed)
            return sequence

    def stats(self) -> LiveStats:
        """Where the agent stands."""
        core = self._core
        state, desk = core.now()
        design = desk.switchback if desk.mode == SWITCHBACK else None
        under_way = design and design.block(self._now())
        return LiveStats(
            desk.mode, state.updates, desk.watch and desk.watch.good, desk.decided,
            {name: total.sum / total.number for name, total in desk.rewards.items()},
            len(state.where), state.counts.late, state.counts.expired, state.counts.discarded,
            state.updates, state.dropped, core.problem,
            design and estimate(design, desk.blocks, under_way),
            self._log.last, self._saved, self._log.num_bytes,
        )  # fmt: skip

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the newest update that was not dropped."""
        return dict(self._core.state.metrics)

    @property
    def policy_version(self) -> int:
        """Number of updates of the current policy."""
        return self._core.state.updates

    @property
    def streams(self) -> Collection[str]:
        """The names of the streams that have not ended."""
        return self._core.state.streams.keys()

    @property
    def first(self) -> int:
        """Sequence of the oldest event in the log."""
        return self._log.first

    @property
    def num_waiting(self) -> int:
        """Complete steps that have not been learned from yet."""
        return len(self._core.state.closed)

    @property
    def may_wait(self) -> bool:
        """Whether `observe` may wait for learning; the call may complete the step that lacks."""
        most = self._core.most_waiting - 1
        return self.num_waiting >= most * self.settings.config.rollout_length

    def serve_with(self, guard: Any = None, fallback: Any = None, rollback: Any = None) -> None:
        """Another guard, fallback and rule for rollbacks, from the next call on.

        Arguments as of `lcpo.live.Options`; None: there is none.
        """
        rest = {"guard": guard, "fallback": fallback, "rollback": rollback}
        options = dataclasses.replace(self.options, **rest)
        made, spec = guard and Guard(guard, self.settings.spec.actions), self.settings.spec
        self._core.serve_with(made, decider(fallback, spec), rollback)
        self.options = options

    def warm_up(self) -> None:
        """Compile all that acting and learning need, which takes seconds; later calls do not."""
        self._core.learning.warm_up()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until learning in the background has caught up; False after `timeout` seconds."""
        return self._core.wait(timeout)

    def digest(self) -> str:
        """A fingerprint of the learner, which `lcpo replay` reproduces."""
        return self._core.frozen_copy(lambda: 0)[0].digest()

    def close(self) -> None:
        """Save a checkpoint and free the folder."""
        try:
            with contextlib.suppress(NotWritten):  # a full disk: recovery replays the log instead
                self.checkpoint()
        finally:
            self._shut()

    def _shut(self) -> None:
        """Let go of the folder, when nothing is being saved any more."""
        self._core.close()
        if self._tender is not None:
            self._tender.join()
        self._open.close()

    def __enter__(self) -> LiveAgent:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._shut()

    def _now(self) -> float:
        """The caller's time; what is not a number must not get into the log."""
        return values.number("the time of clock()", self.options.clock())

    def _record(self, *entries: Entry) -> None:
        self._log.write([encode(entry) for entry in entries])

    def _finish(self, may_wait: bool = True) -> None:
        """What follows an event: it becomes durable, and what is due is done.

        `may_wait`: for learning, which a rollback does.
        """
        self._log.commit(self._log.last)
        if self._is_due() and self._tending.acquire(blocking=False):  # else another thread does it
            if self.defer is not None:
                self.defer(self._tend_now)
            elif self.options.learn == "background" and not (may_wait and self._core.desk.due):
                self._tender = threading.Thread(
                    target=self._tend_now, name="lcpo-tend", daemon=True
                )
                self._tender.start()
            else:
                self._tend_now()

    def _tend_now(self) -> None:
        try:
            self._tend()
        except (NotWritten, InputError) as error:  # the event is written; the rest is tried again
            self._tell(str(error))
        finally:
            self._tending.release()

    def _is_due(self) -> bool:
        desk, options = self._core.desk, self.options
        is_old = self._log.last - self._tried >= options.checkpoint_every
        return desk.due or is_old or (desk.drops >= options.max_drops and desk.mode != FROZEN)

    def _tend(self) -> None:
        """Roll back, freeze, save: whatever is due."""
        desk, options = self._core.desk, self.options
        if desk.due:
            self._roll_back()
        if desk.drops >= options.max_drops and desk.mode != FROZEN:
            why = f"{desk.drops} updates in a row were dropped: {self._core.problem}"
            self._change_mode(FROZEN, None, why)
            self._tell(why)
        if self._log.last - self._tried >= options.checkpoint_every:
            self._tried = self._log.last  # a failed attempt is not repeated with every event
            self.checkpoint()

    def _roll_back(self) -> None:
        rule = self.options.rollback
        assert rule is not None
        good = self._good()
        why = (
            f"the reward of {rule.window} decisions was worse than the incumbent's by {rule.margin}"
        )
        self.rollback(good, why)
        self._tell(f"rollback to version {good}: {why}")

    def _good(self) -> int:
        """The newest version up to the last good one that can be read; otherwise the first."""
        watch, kept = self._core.desk.watch, self._versions.numbers()
        last = watch.good if watch else None
        problem = f"{self._versions.folder} has no version to return to"
        for number in reversed([n for n in kept if last is not None and n <= last] or kept[:1]):
            try:
                self._versions.load(number)
            except InputError as error:
                problem = str(error)
                self._tell(problem)
            else:
                return number
        raise InputError(problem)

    def _updated(self, state: LearnerState) -> None:
        """After an update: note it, and keep the version."""
        number = state.updates + state.dropped
        if number > self._learned:
            problem = self._core.problem if self._core.desk.drops else None
            metrics = values.without_nan(dict(state.metrics))
            with contextlib.suppress(NotWritten):  # for reports only
                self._record(Learned(number, state.updates, metrics, problem, self.options.clock()))
            self._learned = number
        if state.updates % self.options.version_every == 0 and not self._core.desk.drops:
            self._save_version(state)

    def _save_version(self, state: LearnerState) -> None:
        about = Version(state.updates, self._log.last, self.options.clock())
        self._keep_version(about, slim(state.agent))

    def _keep_version(self, about: Version, arrays: Mapping[str, np.ndarray]) -> None:
        desk, watch = self._core.desk, self._core.desk.watch
        try:
            self._versions.save(about, arrays)
            self._versions.prune(watch.good if watch else None, desk.returns)
        except OSError as error:
            self._tell(f"version {about.version} could not be saved: {error}")

    def _tell(self, problem: str) -> None:
        self._core.problem = problem
        warnings.warn(problem, RuntimeWarning, stacklevel=3)


def _text(what: str, value: Any) -> str:
    """Text for the log."""
    return value if isinstance(value, str) else values.refuse(what, value, "text")
