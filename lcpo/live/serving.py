"""A learner in service: who decides, and what is kept of each decision.

`Serving` is the `Core` of a learner with a mode, a guard, a fallback and an incumbent, and with a
`Desk`. Learner and desk change only with recorded events, so that a replay of the log makes both
again.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import values
from lcpo.errors import Conflict, NoAnswer, tell
from lcpo.live import outcomes
from lcpo.live.core import Core
from lcpo.live.desk import (
    FALLBACK,
    FROZEN,
    GUARD,
    INCUMBENT,
    LIVE,
    POLICY,
    SHADOW,
    SWITCHBACK,
    Decider,
    Desk,
    Made,
)
from lcpo.live.events import Decide, End, Event, Observe, See
from lcpo.live.guard import Guard, Memory
from lcpo.live.journal import Choice, Mode
from lcpo.live.keys import checksum
from lcpo.live.learning import Answer
from lcpo.live.log import NotWritten
from lcpo.live.state import LearnerState
from lcpo.live.switchback import Switchback, Total
from lcpo.live.versions import Rule, Watch, restored
from lcpo.types import Tree


class Chosen(NamedTuple):
    """An action and who chose it."""

    action: np.ndarray
    source: str
    policys: bool


class Serving(Core):
    """A learner's core with a mode. Calls may come from several threads."""

    gone = "the agent is closed: open its folder again"
    torn = (
        "a call was interrupted while its event was written, so the agent may lack it: close the "
        "agent, and open its folder again"
    )
    desk: Desk
    guard: Guard | None = None
    fallback: Decider | None = None
    incumbent: Decider | None = None
    starts_fresh = True
    """The first policy is random: the fallback, if there is one, answers before the first update,
    and after a return to that policy."""
    record: Callable[..., Any] | None
    """Called with the entries of one call: all of them take effect, or none."""
    on_update: Callable[[LearnerState], object] | None = None
    """Called after every update, dropped or not. It must not act or observe."""
    _seen = See("", ())
    """The newest observation that was recorded."""

    def take(self, state: LearnerState) -> None:
        """Continue from a state."""
        if not hasattr(self, "desk"):
            self.desk = Desk()
        super().take(state)

    def decide(
        self, see: See, taken: Any, deterministic: bool, key: str | None = None,
        trace: str | None = None,
    ) -> Decide:  # fmt: skip
        """See, learn if it is time and learning has no thread of its own, then decide.

        With a key that was used before: the decision of then, and nothing changes.
        """
        if key is None:
            return self._decide(see, taken, deterministic, None, trace)
        with self._lock:  # it can be taken again: nobody decides in between
            self._usable()
            old = self.desk.keys.repeated(see, key)
            if old is None:
                return self._decide(see, taken, deterministic, key, trace)
        action = np.asarray(old.action, self.loop.spec.actions.dtype)
        rest = (old.probability, old.policy_version, old.source)
        return Decide(see.stream, old.id, action, *rest, 0.0, key=key)

    def _decide(
        self, see: See, taken: Any, deterministic: bool, key: str | None, trace: str | None
    ) -> Decide:
        mode, spec = self.desk.mode, self.loop.spec
        if taken is not None and mode in (LIVE, FROZEN):
            raise Conflict(
                f"taken is given in {mode} mode, in which the policy decides: report another "
                "action with observe(action=...), or use shadow mode"
            )
        played = outcomes.check_action(spec, taken, "taken")
        if played is None and self.incumbent is None and mode in (SHADOW, SWITCHBACK):
            raise Conflict(
                f"{mode} mode needs `taken`, the action of your own rule, or the rule itself as "
                "`incumbent`, given when the agent is opened"
            )
        if deterministic:
            self.learning.check_deterministic()
        with self._lock:
            seen = self._learned_from(self.loop.see(self._usable(), see))
            entries: list[See | Choice] = [see]
            if self._thread is None and self.learning.is_full(seen):
                self._commit(seen, see)
                self._learn_now()
                seen, entries = self.state, []
            obs, number = seen.streams[see.stream].obs, seen.decisions
            assert obs is not None
            snapshot, answer = self.snapshot, self._propose(obs, number, deterministic)
            chosen = self._choose(obs, see, played, answer)
            drawn = chosen.source == POLICY and not deterministic
            probability = answer.probability if answer and chosen.source == POLICY else None
            extra = answer.extra if answer else self._no_extra()
            decide = Decide(
                see.stream, number, chosen.action, probability, snapshot.version, chosen.source,
                float(drawn), extra, see.time, key, trace,
            )  # fmt: skip
            if answer is not None and chosen.source != POLICY:
                entries.append(Choice(number, answer.action.tolist(), answer.probability))
            # All at once: if they cannot be written, nothing has happened.
            self._commit(self.loop.decide(seen, decide), decide, *entries)
            return decide

    def set_mode(self, event: Mode, record: Callable[[], object] = lambda: None) -> None:
        """Another mode; `record` is called before it takes effect."""
        design = None if event.switchback is None else Switchback(**event.switchback)
        with self._lock:
            self._usable()
            self._record_first(record)
            self.desk.mode, self.desk.drops = event.mode, 0
            if design is not None and design != self.desk.switchback:
                self.desk.begin_experiment(design)
            self._is_torn = False

    def return_to(
        self, version: int, arrays: Mapping[str, np.ndarray], record: Callable[[], object]
    ) -> int:
        """Return to a version when learning has caught up: that makes a new one, whose number is
        returned.

        `record` is called at that moment, before it takes effect.
        """
        with contextlib.ExitStack() as hurry:
            while True:
                self._wait_for_learning(hurry)
                with self._learning, self._lock:
                    if not self._has_caught_up():
                        continue
                    now = self._usable()
                    changed, number = restored(now.agent, arrays), now.updates + 1
                    self._record_first(record)
                    if version in self.desk.untrained:
                        self.desk.untrained.add(number)
                    self._set(now._replace(agent=changed, updates=number))
                    if self.desk.watch is not None:
                        self.desk.watch.begin_again(number)
                    self.desk.due, self.desk.drops = False, 0
                    self._is_torn = False
                    return number

    def _update(self) -> None:
        before = self.state
        try:
            super()._update()
        finally:
            after = self.state
            if after.updates + after.dropped > before.updates + before.dropped:
                self.desk.drops = self.desk.drops + 1 if after.dropped > before.dropped else 0
                if self.on_update is not None:
                    self.on_update(after)

    def _propose(self, obs: np.ndarray, number: int, deterministic: bool) -> Answer | None:
        """The policy's answer; None if it has no valid one."""
        try:
            answer = self.learning.propose(self.snapshot, obs, number, deterministic)
        except Exception as error:  # of the agent or the device
            self.problem = f"the policy has no answer: {tell(error)}"
            return None
        sane = answer.probability is None or math.isfinite(answer.probability)
        return answer if sane and self.loop.actions.contains(answer.action) else None

    def _choose(
        self, obs: np.ndarray, see: See, taken: np.ndarray | None, answer: Answer | None
    ) -> Chosen:
        """Whose action is played."""
        policys = self.desk.is_policys(see.time)
        if not policys and taken is not None:
            return Chosen(taken, INCUMBENT, False)
        is_random = self.starts_fresh and self.snapshot.version in self.desk.untrained
        is_fresh = is_random and self.fallback is not None
        if not policys:
            asked = Chosen(self._ask(self.incumbent, INCUMBENT, obs), INCUMBENT, False)
        elif answer is None or is_fresh:
            asked = Chosen(self._ask(self.fallback, FALLBACK, obs), FALLBACK, True)
        else:
            asked = Chosen(answer.action, POLICY, True)
        if self.guard is None:
            return asked
        memory = self.desk.memories.get(see.stream, Memory())
        try:
            held = self.guard.apply(memory, obs, asked.action)
        except Exception as error:  # of the user's function
            self.problem = f"the guard failed: {tell(error)}"
            return Chosen(self._ask(self.fallback, FALLBACK, obs), FALLBACK, policys)
        return Chosen(held.action, GUARD if held.changed else asked.source, policys)

    def _ask(self, decider: Decider | None, who: str, obs: np.ndarray) -> np.ndarray:
        if decider is None:
            raise NoAnswer(f"{self.problem or 'the policy has no answer'}: give a {who}")
        action = outcomes.check_action(self.loop.spec, decider(obs.copy()), f"the {who}'s action")
        return values.refuse(f"the {who}'s action", None, "an action") if action is None else action

    def _no_extra(self) -> tuple[np.ndarray, ...]:
        shapes = jax.tree.leaves(self.learning.extra_shapes)
        return tuple(np.zeros(x.shape[1:], x.dtype) for x in shapes)

    def _learned_from(self, state: LearnerState) -> LearnerState:
        """A state after an event; in frozen mode, steps that close then are not learned from."""
        is_frozen = self.desk.mode == FROZEN
        return state._replace(closed=self.state.closed) if is_frozen else state

    def _write(self, *entries: Any) -> None:
        if self.record is not None:
            self.record(*entries)

    def _commit(self, state: LearnerState, event: Event, *earlier: Any) -> None:
        before = self.state
        super()._commit(self._learned_from(state), event, *earlier)
        for entry in (*earlier, event):
            if isinstance(entry, See):
                self._seen = entry
        if isinstance(event, See):  # its decision follows, alone or together with it
            return
        if isinstance(event, Decide):
            self._keep(event)
        elif isinstance(event, Observe) and state.counts.observed > before.counts.observed:
            self._count(event)
        elif isinstance(event, End):
            self.desk.memories.pop(event.stream, None)
        desk = self.desk
        if len(desk.made) > 2 * len(state.where) + 100:  # discarded or expired
            desk.made = {
                number: made for number, made in desk.made.items() if number in state.where
            }
            desk.memories = {s: m for s, m in desk.memories.items() if s in state.streams}

    def _keep(self, event: Decide) -> None:
        desk, policys = self.desk, self.desk.is_policys(event.time)
        desk.decided[event.source] += 1
        design = desk.switchback if desk.mode == SWITCHBACK else None
        counts = design is not None and design.counts(event.time)
        desk.made[event.id] = Made(event.source, event.policy_version, event.time, policys, counts)
        if event.key is not None:  # its `See` is the event before
            desk.keys.keep(event, checksum(self._seen))
        if self.guard is not None:
            memory = desk.memories.get(event.stream, Memory())
            desk.memories[event.stream] = self.guard.remember(memory, event.action)

    def _count(self, event: Observe) -> None:
        """A reward, for means, experiments and the watch."""
        desk, reward = self.desk, float(event.reward)
        made = desk.made.pop(event.id, None)
        if made is None:
            return
        desk.rewards[made.source] = desk.rewards.get(made.source, Total()).add(reward)
        if made.counts and desk.switchback is not None:
            block = desk.switchback.block(made.time)
            desk.blocks[block] = desk.blocks.get(block, Total()).add(reward)
        if desk.watch is not None and made.policys:
            desk.due |= desk.watch.see_policy(made.version, reward)
        elif desk.watch is not None:
            desk.watch.see_incumbent(reward)

    def serve_with(
        self, guard: Guard | None, fallback: Decider | None, rule: Rule | None
    ) -> None:  # fmt: skip
        """Another guard, fallback and rule for rollbacks, from the next call on."""
        with self._lock:
            self.guard, self.fallback, watch = guard, fallback, self.desk.watch
            if rule is None or watch is None or rule != watch.rule:
                self.desk.due = False
                self.desk.watch = rule and Watch.from_json(rule, (watch or Watch(rule)).to_json())

    def now(self) -> tuple[LearnerState, Desk]:
        """State and desk of one moment, to look at."""
        with self._lock:
            desk = self.desk
            counts = {"decided": collections.Counter(desk.decided), "rewards": dict(desk.rewards)}
            return self.state, dataclasses.replace(desk, blocks=dict(desk.blocks), **counts)

    def frozen_copy(self, last: Callable[[], int]) -> tuple[LearnerState, dict[str, Any], int]:
        """State, desk and `last()` of one moment at which learning has caught up.

        Beside learning in a thread, calls go on while the agent is copied.
        """
        with contextlib.ExitStack() as hurry:
            while True:
                self._wait_for_learning(hurry)
                with self._learning:
                    with self._lock:
                        if not self._has_caught_up():
                            continue
                        state, desk, sequence = self.state, self.desk.to_json(), last()
                        if self._thread is None:  # calls learn, which uses up the agent's buffers
                            return state._replace(agent=_copy(state.agent)), desk, sequence
                    hurry.close()
                    return state._replace(agent=_copy(state.agent)), desk, sequence

    def _has_caught_up(self) -> bool:
        if self._is_torn:
            raise NotWritten(self.torn)
        self._learn_now()  # an interrupted update, if learning has no thread
        if self._backlog() and not self._learns:
            why = self.problem or "the agent is closed"
            raise NotWritten(f"{why}: there are steps that it has not learned from")
        return self._backlog() == 0


def _copy(agent: Tree) -> Tree:
    return jax.tree.map(jnp.array, agent)
