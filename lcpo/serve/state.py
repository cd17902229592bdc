"""What a server knows besides its agent: whether it is ready, what went wrong, who waits."""

from __future__ import annotations

import collections
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from lcpo.errors import InputError, tell
from lcpo.live import Decide, LiveAgent, Observe, See
from lcpo.live.journal import Learned, Rollback, decode
from lcpo.live.log import read
from lcpo.live.records import Record
from lcpo.live.versions import Version
from lcpo.serve.config import Config
from lcpo.serve.events import Events
from lcpo.serve.metrics import Metrics
from lcpo.serve.series import Series

PROBLEMS = 20
TAIL = 10_000
"""Records of the log from which the series is rebuilt."""
RECHECK_SECONDS = 1.0
"""How long a failed write makes the server unready; the disk is then tried again."""


class State:
    """Of one server. Only the event loop changes it, except for problems."""

    def __init__(self, config: Config, events: Events, clock: Any = time.time) -> None:
        self.config, self.events, self.clock = config, events, clock
        self.started = clock()
        self.agent: LiveAgent | None = None
        self.step = "starting"
        """What it waits for before it is ready."""
        self.draining = False
        """It is stopping: unready, and it still answers for `drain_seconds`."""
        self.refuses = False
        """It has stopped answering calls."""
        self.unwritten: tuple[float, str] | None = None
        """When and why the log could not be written, until a write succeeds."""
        self.problems: collections.deque[dict[str, Any]] = collections.deque(maxlen=PROBLEMS)
        self.series, self.metrics = Series(), Metrics()
        self.versions: tuple[list[int], list[Version]] = ([], [])
        """Those that were read; their files are verified whenever they are read."""
        self.version, self.updates = -1, 0
        self.version_time, self.learned_time = self.started, 0.0
        self.calls = ThreadPoolExecutor(16, "lcpo-call")
        """For calls that wait for a disk."""
        self.waits = ThreadPoolExecutor(16, "lcpo-wait")
        """For outcomes that may wait for learning: they must not hold up decisions."""
        self.looks = ThreadPoolExecutor(1, "lcpo-look")
        """For documents about the agent."""
        self.tasks = ThreadPoolExecutor(1, "lcpo-task")
        """For checkpoints and rollbacks, one at a time."""

    def serve(self, agent: LiveAgent) -> None:
        """Be ready, with an agent that was opened and warmed up."""
        agent.defer = self._defer
        self.version = agent.policy_version
        self.updates = self.version - agent.num_rollbacks
        self.agent, self.step = agent, ""

    def _defer(self, task: Callable[[], None]) -> None:
        """Run what is due in a thread; what fails there is a problem."""

        def report(done: Future[None]) -> None:
            error = done.exception()
            if error is not None:
                self.problem(tell(error))

        self.tasks.submit(task).add_done_callback(report)

    @property
    def is_inline(self) -> bool:
        """Whether calls are quick enough for the event loop: neither disk nor update takes part."""
        live = self.config.file.live
        return live.durability == "process" and live.learn == "background"

    def answered(self, text: str) -> str:
        """A text as an answer may have it: paths in the agent's folder begin there."""
        return text.replace(f"{self.config.folder}{os.sep}", "")

    def problem(self, text: str) -> None:
        """Something went wrong: report it, and keep it for the status page."""
        self.problems.appendleft({"time": self.clock(), "text": text})
        self.events.write("problem", text=text)

    def failed_write(self, text: str) -> None:
        """An event could not be written."""
        if self.unwritten is None:
            self.problem(text)
        self.unwritten = (time.monotonic(), text)

    def checks(self) -> dict[str, str]:
        """By name, "ok" or what is wrong; the server is ready if all are."""
        found = {"agent": self.step or "ok", "log": "ok", "drain": "ok"}
        unwritten = self.unwritten  # a call may change it while a document is made in a thread
        if unwritten is not None and not self._has_space(unwritten[0]):
            found["log"] = unwritten[1]
        if self.draining:
            found["drain"] = "the server is stopping"
        return found

    @property
    def is_ready(self) -> bool:
        """Whether it is ready."""
        return is_ok(self.checks())

    def _has_space(self, failed: float) -> bool:
        """Whether the log may be written again: the next call will show it."""
        if time.monotonic() - failed < RECHECK_SECONDS:
            return False
        try:
            found = os.statvfs(self.config.folder)
        except OSError:
            return False
        return found.f_bavail * found.f_frsize > 2**20

    def look(self) -> None:
        """Notice updates; called after decisions, and every second."""
        agent = self.agent
        version = self.version if agent is None else agent.policy_version
        if agent is None or version == self.version:
            return
        self.version, self.version_time = version, self.clock()
        updates = version - agent.num_rollbacks
        if updates > self.updates:  # a rollback makes a version, too, and learns nothing
            self.updates, self.learned_time = updates, self.version_time
            self.series.updated(self.version_time, agent.metrics)

    def rebuild(self, agent: LiveAgent) -> None:
        """Fill the series from the end of the log, and find when the policy changed."""
        last = agent.stats().sequence
        try:
            self._replay(agent, read(agent.folder / "log", max(last - TAIL, agent.first - 1)))
        except InputError as error:  # the page begins empty; serving does not depend on it
            self.problem(f"the status page begins empty: {error}")

    def _replay(self, agent: LiveAgent, records: Iterable[Record]) -> None:
        context, seen = agent.settings.spec.context, dict[str, Any]()
        for record in records:
            match entry := decode(record):
                case See():
                    given = entry.context
                    seen[entry.stream] = context.newest(entry.obs) if given is None else given
                case Decide():
                    newest = seen.pop(entry.stream, ())
                    self.series.decided(entry.time, entry.id, entry.source, list(newest))
                case Observe() if entry.reward is not None:
                    self.series.observed(entry.time, entry.id, float(entry.reward))
                case Learned() if entry.problem is None:
                    self.series.updated(entry.time, entry.metrics)
                    self.learned_time = self.version_time = entry.time
                case Rollback():
                    self.version_time = entry.time
                case _:
                    pass

    def close(self) -> None:
        """End the threads."""
        for pool in (self.calls, self.waits, self.looks, self.tasks):
            pool.shutdown()


def is_ok(checks: dict[str, str]) -> bool:
    """Whether nothing is wrong."""
    return all(text == "ok" for text in checks.values())
