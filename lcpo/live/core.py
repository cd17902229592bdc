"""The learner behind `Learner`: one state, changed by one event at a time, and updates beside it.

Two locks. `_lock` guards the state and is held for microseconds, except where learning happens
within the call. `_learning` is held during an update, whose agent's buffers nobody else may read:
saving and copying the state wait for it, acting and observing do not.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.errors import InputError, tell
from lcpo.live.events import Decide, Discard, End, Event, Observe, See
from lcpo.live.learning import Learning
from lcpo.live.loop import DUPLICATE, EXPIRED_REWARD, Loop
from lcpo.live.state import Backup, LearnerState

BACKLOG = 16
"""With so many rollouts to learn from, `observe` waits for learning; `act` never does."""
PATIENCE = 1.0
"""Seconds after which whoever needs learning to catch up lets `observe` wait for every rollout."""
SWITCH = 5e-4
"""Seconds after which Python's threads take turns, where one of them learns. Its default is 5e-3,
which a call would wait for whenever the other thread holds the interpreter."""

Record = Callable[[Event], Any]


class Core:
    """A state, its policy, and who learns. Calls may come from several threads."""

    gone = "the learner is closed: make another, or load a saved one"
    torn = (
        "a call was interrupted while its event was recorded, so the learner may lack it: make "
        "another, or load a saved one"
    )

    def __init__(
        self, loop: Loop, learning: Learning, state: LearnerState, background: bool,
        record: Record | None,
    ) -> None:  # fmt: skip
        self.loop, self.learning, self.record = loop, learning, record
        self.problem: str | None = None
        self.duplicates = 0
        self._lock, self._learning = threading.Condition(), threading.Lock()
        self._closed, self._ended, self._thread = False, False, None
        self._hurries, self._is_torn = 0, False
        self.take(state)
        if background:
            learning.warm_up()
            sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH))
            self._thread = threading.Thread(target=self._work, name="lcpo-learner", daemon=True)
            self._thread.start()

    def take(self, state: LearnerState) -> None:
        """Continue from a state, whose agent's buffers are the core's from now on."""
        with self._learning, self._lock:
            self._set(state)

    def _set(self, state: LearnerState) -> None:
        self.state, self.snapshot = state, self.learning.snapshot(state)
        self._backup: Backup | None = None  # made by the first update
        self._lock.notify_all()

    def copy(self) -> LearnerState:
        """The state, with an agent that later updates leave alone."""
        with self._learning, self._lock:
            return self.state._replace(agent=jax.tree.map(jnp.array, self.state.agent))

    def act(self, see: See, taken: np.ndarray | None, deterministic: bool, source: str) -> Decide:
        """See, learn if it is time and learning has no thread of its own, then decide."""
        if deterministic:
            self.learning.check_deterministic()
        with self._lock:
            self._commit(self.loop.see(self._usable(), see), see)
            self._learn_now()
            obs = self.state.streams[see.stream].obs
            assert obs is not None
            number, snapshot = self.state.decisions, self.snapshot
            answer = self.learning.propose(snapshot, obs, number, deterministic)
            weight = 1.0 if taken is None and not deterministic else 0.0
            action, probability = answer.action, answer.probability
            if taken is not None:
                action, probability = taken, None
            decide = Decide(
                see.stream, number, action, probability, snapshot.version, source, weight,
                answer.extra, see.time,
            )  # fmt: skip
            self._commit(self.loop.decide(self.state, decide), decide)
            return decide

    def observe(self, event: Observe, stream: Any) -> str:
        """What became of it; `stream`: whose last decision is meant, if the event has no id."""
        with self._lock:
            if event.id is None:
                event = event._replace(id=self.loop.find(self._usable(), stream, event))
            state, result = self.loop.observe(self._usable(), event)
            if state is self.state:
                self.duplicates += result == DUPLICATE
                return result
            if result == EXPIRED_REWARD:  # only its successor was taken
                event = event._replace(reward=None, action=None, elapsed=1.0, readings=None)
            self._commit(state, event)
            self._learn_now()
            if self._thread is not None:
                self._lock.wait_for(lambda: self._backlog() < self.most_waiting or not self._learns)
        return result

    def change(self, event: Discard | End) -> int:
        """Apply an event; the number of decisions that it has discarded."""
        with self._lock:
            if isinstance(event, Discard) and event.id is not None:
                where = self._usable().where
                event = event._replace(stream=where.get(event.id, event.stream))
            before = self._usable().counts.discarded
            self._commit(self.loop.apply(self.state, event), event)
            self._learn_now()
            return self.state.counts.discarded - before

    def replay(self, event: Event) -> None:
        """Apply a recorded event. Updates happen at the counts at which they happened."""
        with self._lock:
            state = self.loop.apply(self._usable(), event)
            if state is not self.state:
                self._commit(state, event)
                self._learn_now()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until there is no full rollout left, if a thread learns; whether that is so."""
        with self._lock:
            if self._thread is not None:
                self._lock.wait_for(lambda: self._backlog() == 0 or not self._learns, timeout)
            return self._backlog() == 0

    @property
    def most_waiting(self) -> int:
        """Full rollouts with which `observe` waits for learning."""
        return 1 if self._hurries else BACKLOG

    def _wait_for_learning(self, hurry: contextlib.ExitStack) -> None:
        """Wait until learning has caught up.

        If that takes long, `observe` waits for every rollout from then on, until `hurry` is closed:
        where learning is slower than acting, it would never catch up otherwise.
        """

        def change(by: int) -> None:
            with self._lock:
                self._hurries += by
                self._lock.notify_all()

        if not self.wait(PATIENCE):
            change(1)
            hurry.callback(change, -1)

    def close(self) -> None:
        """Finish the current update, and refuse all further calls."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _usable(self) -> LearnerState:
        if self._closed:
            raise InputError(self.gone)
        if self._is_torn:
            raise InputError(self.torn)
        return self.state

    def _commit(self, state: LearnerState, event: Event, *earlier: Any) -> None:
        """Record the event before it takes effect: if that fails, nothing has changed.

        `earlier`: what else the state includes, and what is recorded with the event.
        """
        self._record_first(lambda: self._write(*earlier, event))
        self.state, self._is_torn = state, False
        if self._thread is not None and self.learning.is_full(state):
            self._lock.notify_all()

    def _record_first(self, record: Callable[[], object]) -> None:
        """Record what is about to happen; then `_is_torn` is set until it has happened.

        Ctrl-C may come in between. Calls after it would be recorded as if nothing were missing.
        """
        self._is_torn = self.record is not None
        try:
            record()
        except Exception:  # nothing was recorded
            self._is_torn = False
            raise

    def _write(self, *events: Event) -> None:
        if self.record is not None:
            for event in events:
                self.record(event)

    def _backlog(self) -> int:
        return len(self.state.closed) // self.learning.num_steps

    def _learn_now(self) -> None:
        """Learn from every full rollout, unless a thread does."""
        while self._thread is None and self.learning.is_full(self.state):
            self._update()

    def _work(self) -> None:
        """Learn from full rollouts as they come, in a thread."""
        try:
            while True:
                with self._lock:
                    self._lock.wait_for(lambda: self._closed or self.learning.is_full(self.state))
                    if self._closed:
                        return
                with self._learning, contextlib.suppress(RuntimeWarning):  # of a filter, an error
                    self._update()
        except Exception as error:
            self.problem = f"learning has ended: {tell(error)}; open or load the agent again"
            raise
        finally:  # nobody waits for it any more
            with self._lock:
                self._ended = True
                self._lock.notify_all()

    @property
    def _learns(self) -> bool:
        return not self._closed and not self._ended

    def _update(self) -> None:
        """One update. The lock is needed only while its result is put into the state."""
        state = self.state
        if not self.learning.is_full(state):  # set from outside in the meantime
            return
        self._backup = backup = self._backup or Backup(state.agent)
        backup.follow(state.agent)
        try:
            update = self.learning.compute(state, backup)
        except BaseException:  # such as Ctrl-C: the update was not made, and can be repeated
            with self._lock:
                self.state = self.state._replace(agent=backup.restore())
            raise
        try:
            snapshot = self.learning.snapshot(self.learning.merge(state, update))
        except Exception as error:  # of the device
            kept, metrics = backup.restore(), dict(state.metrics)
            update = update._replace(agent=kept, metrics=metrics, problem=tell(error))
            snapshot = self.snapshot
        with self._lock:
            self.state, self.snapshot = self.learning.merge(self.state, update), snapshot
            if update.problem is not None:
                number = self.state.updates + 1
                kept = "was dropped, and the learner keeps its previous state"
                self.problem = f"update {number} {kept}: {update.problem}"
            self._lock.notify_all()
        if update.problem is not None and self.problem is not None:
            warnings.warn(self.problem, RuntimeWarning, stacklevel=5)
