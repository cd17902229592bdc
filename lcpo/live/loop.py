"""From one `LearnerState` to the next: pure functions of a state and an event.

    state = loop.see(state, See("0", obs, context))         it completes the previous step
    while learning.is_full(state):
        state, problem = learning.learn(state)
    state = loop.decide(state, Decide("0", state.decisions, action, ...))
    state, result = loop.observe(state, Observe(id, reward))

They need no JAX. `lcpo.live.learning` has the agent's part: acting and updates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lcpo import values
from lcpo.errors import Conflict, InputError, Unknown
from lcpo.history import ContextHistory
from lcpo.live import outcomes
from lcpo.live.events import Decide, Discard, End, Event, Observe, See
from lcpo.live.settings import Settings
from lcpo.live.state import (
    CLOSED,
    CUT,
    EXPIRED,
    Counts,
    Experience,
    LearnerState,
    Stream,
)

OK, LATE, DUPLICATE, EXPIRED_REWARD = "ok", "late", "duplicate", "expired"
"""What became of an observation: taken; taken, after the stream's next decision; known before; not
taken, because the decision no longer waits for its reward."""
_GONE = {CUT: "discarded", EXPIRED: EXPIRED_REWARD}


class Loop:
    """The functions of a learner with given settings. It holds nothing that changes."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.spec, self.late = settings, settings.spec, settings.late
        self.actions = settings.spec.actions  # made anew by every use of that property
        self.gamma = float(getattr(settings.config, "gamma", 1.0))

    def apply(self, state: LearnerState, event: Event) -> LearnerState:
        """The state after an event. It does not learn."""
        match event:
            case See():
                return self.see(state, event)
            case Decide():
                return self.decide(state, event)
            case Observe():
                return self.observe(state, event)[0]
            case Discard():
                return self.discard(state, event)
            case End():
                return self.end(state, event)

    def see(self, state: LearnerState, event: See) -> LearnerState:
        """A stream's observation before it acts, which is the successor of its previous step."""
        name, begun = event.stream, state.counts.streams
        known = isinstance(name, str) and name in state.streams
        mine = state.streams[name] if known else self._new_stream(name, begun)
        if self.late.decisions is None and mine.open and mine.open[-1].reward is None:
            raise Conflict(
                f"stream {name!r} has acted and waits for its reward: call observe(reward) or "
                f"discard({name!r}) before the next act, or allow late rewards with late="
            )
        now, history = mine.history.join(mine.history.read(event.obs, event.context))
        state = self._expire(state, event.time)
        mine = state.streams[name] if known else mine
        mine = Stream(mine.number, history, now, *mine[3:])
        if not known:
            state = state._replace(counts=state.counts._replace(streams=begun + 1))
        most = math.inf if self.late.decisions is None else self.late.decisions
        return self._settle(state, name, mine, lambda step: mine.places - step.place > most, now)

    def decide(self, state: LearnerState, event: Decide) -> LearnerState:
        """The decision of a stream for what it has just seen."""
        mine = self._known_stream(state, event.stream)
        if mine.obs is None:
            raise InputError(f"stream {event.stream!r} decides, but it has seen nothing new")
        if event.id != state.decisions:
            raise InputError(f"decision {event.id} is not the next one, {state.decisions}")
        # Without a limit in seconds, states do not depend on the clock.
        time = 0.0 if self.late.seconds is None else event.time
        step = Experience(
            event.id, mine.number, mine.places, mine.episode, time, event.weight, mine.obs,
            event.action, event.extra,
        )  # fmt: skip
        mine = Stream(
            mine.number, mine.history.pass_step(), None, (*mine.open, step), mine.places + 1,
            *mine[5:],
        )  # fmt: skip
        where, streams = state.where.added(event.id, event.stream), dict(state.streams)
        streams[event.stream] = mine
        oldest = math.inf if self.late.seconds is None else min(state.oldest, time)
        return LearnerState(
            state.agent, streams, where, state.closed, event.id + 1, oldest, *state[6:]
        )

    def observe(self, state: LearnerState, event: Observe) -> tuple[LearnerState, str]:
        """The state, and what became of the observation; nothing changes unless it was taken."""
        given = outcomes.check(self.spec, event)
        after = self._expire(state, event.time)
        name = after.where.get(event.id)
        if name is None:
            return state, self._finished(after, event.id, given.checks)
        mine = after.streams[name]
        place = next(i for i, step in enumerate(mine.open) if step.id == event.id)
        step = mine.open[place]
        new = outcomes.news(step.checks, given.checks, event.id)
        if not new.reward and not new.successor:
            return state, EXPIRED_REWARD if new.expired else DUPLICATE
        late = new.reward and step.place != mine.places - 1
        if new.successor:
            mine, step = self._take_successor(mine, step, event, given)
        if new.reward:
            step = outcomes.with_reward(step, given)
        observed, lates, *rest = after.counts
        counts = Counts(observed + new.reward, lates + late, *rest)
        after = LearnerState(*after[:7], counts, *after[8:])
        opened = (*mine.open[:place], step, *mine.open[place + 1 :])
        mine = Stream(*mine[:3], opened, *mine[4:])
        if step.reward is not None and step.next_obs is not None:
            after = self._settle(after, name, mine, lambda _: False)
        else:
            after = after.with_streams({**after.streams, name: mine})
        return after, EXPIRED_REWARD if new.expired else LATE if late else OK

    def discard(self, state: LearnerState, event: Discard) -> LearnerState:
        """Without one open decision, or all of a stream's."""
        mine = self._known_stream(state, event.stream)
        gone = [step for step in mine.open if event.id in (None, step.id)]
        if event.id is not None and not gone:
            raise Unknown(
                f"decision {values.shown(event.id)} of stream {event.stream!r} is not open: it is "
                "learned from, was discarded, or was never made"
            )
        state = self._expire(state, event.time)
        mine, ids = state.streams[event.stream], {step.id for step in gone}
        kept = tuple(step for step in mine.open if step.id not in ids)
        cut = [(step, CUT) for step in mine.open if step.id in ids]
        return state.finish({**state.streams, event.stream: mine._replace(open=kept)}, cut)

    def end(self, state: LearnerState, event: End) -> LearnerState:
        """Without a stream. Its open decisions no longer wait; the last has no successor."""
        self._known_stream(state, event.stream)
        state = self._expire(state, event.time)
        mine = state.streams[event.stream]
        lost = [step for step in mine.open if step.next_obs is None]
        mine = mine._replace(open=tuple(step for step in mine.open if step.next_obs is not None))
        state = self._settle(state, event.stream, mine, lambda _: True)
        streams = {name: x for name, x in state.streams.items() if name != event.stream}
        return state.finish(streams, [(step, CUT) for step in lost])

    def find(self, state: LearnerState, stream: Any, event: Observe) -> int:
        """The id of a stream's last decision, whose outcome is reported without an id."""
        mine = state.streams.get(stream) if isinstance(stream, str) else None
        last = mine.open[-1] if mine is not None and mine.open else None
        if mine is None or last is None or last.place != mine.places - 1:
            raise InputError(
                f"stream {values.shown(stream)} has no action to observe: call act first"
            )
        known = (last.reward, event.reward), (last.next_obs, event.next_obs)
        if any(old is not None and new is not None for old, new in known):
            raise InputError(
                f"the last action of stream {stream!r} was observed before: call act first"
            )
        return last.id

    def _settle(
        self,
        state: LearnerState,
        name: str,
        mine: Stream,
        is_due: Callable[[Experience], bool],
        successor: np.ndarray | None = None,
    ) -> LearnerState:
        """The state with this stream, whose steps are closed if they are complete.

        `is_due`: whether a step that lacks its reward has waited for it long enough.
        `successor`: of the last step, if it lacks one.
        """
        account, still, settled, defaults = mine.account, [], [], 0
        for step in mine.open:
            if step.reward is None and is_due(step):
                if self.late.reward is None:
                    settled.append((step, EXPIRED))
                    continue
                step = outcomes.with_default(step, self.late.reward, self.spec)
                defaults += 1
            if step.next_obs is None and successor is not None:
                step = step._replace(next_obs=successor)
            if step.reward is None or step.next_obs is None:
                still.append(step)
                continue
            account, step = account.add(step, self.gamma)
            settled.append((step, CLOSED))
        mine = Stream(*mine[:3], tuple(still), *mine[4:6], account)
        streams = dict(state.streams)
        streams[name] = mine
        if defaults:
            counts = state.counts._replace(expired=state.counts.expired + defaults)
            state = state._replace(counts=counts)
        return state.finish(streams, settled) if settled else state.with_streams(streams)

    def _expire(self, state: LearnerState, time: float) -> LearnerState:
        """The state in which no decision has waited for longer than `late_seconds`."""
        most = self.late.seconds
        if most is None or time - state.oldest <= most:
            return state
        waiting = [
            (step.id, name, step.time)
            for name, mine in state.streams.items()
            for step in mine.open
            if step.reward is None
        ]
        for number, name, since in sorted(waiting):
            if time - since > most:
                mine = state.streams[name]
                state = self._settle(state, name, mine, lambda step, n=number: step.id == n)
        left = [since for _, _, since in waiting if time - since <= most]
        return state._replace(oldest=min(left, default=math.inf))

    def _take_successor(
        self, mine: Stream, step: Experience, event: Observe, given: outcomes.Given
    ) -> tuple[Stream, Experience]:
        if step.next_obs is not None or step.place != mine.places - 1:
            raise Conflict(
                f"decision {event.id} already has its successor, the observation of the act that "
                "followed: omit next_obs, terminated and truncated"
            )
        seen = mine.history.read(event.next_obs, event.next_context, "next_obs")
        successor, history = mine.history.join(seen)
        ended = given.terminated or given.truncated
        history = history.end_episode() if ended else history
        mine = mine._replace(history=history, episode=mine.episode + ended)
        checks = (step.checks[0], given.checks[1])
        step = step._replace(
            next_obs=successor, terminated=given.terminated, truncated=given.truncated,
            checks=checks,
        )  # fmt: skip
        return mine, step

    def _finished(self, state: LearnerState, number: int, checks: tuple[int, int]) -> str:
        """What became of an observation of a decision that is not open."""
        young, old = state.finished
        found = young.get(number) or old.get(number)
        if found is None:
            made = 0 <= number < state.decisions
            why = "was finished long ago" if made else "was never made"
            raise Unknown(
                f"decision {values.shown(number)} {why}, so there is nothing to observe: give the "
                "id of a decision that act returned"
            )
        if found.how != CLOSED:
            return _GONE[found.how]
        new = outcomes.news(found.checks, checks, number)
        if new.successor:
            raise Conflict(
                f"decision {number} already has its successor, the observation of the act that "
                "followed: omit next_obs, terminated and truncated"
            )
        return EXPIRED_REWARD if new.expired else DUPLICATE

    def _known_stream(self, state: LearnerState, name: Any) -> Stream:
        mine = state.streams.get(name) if isinstance(name, str) else None
        if mine is None:
            known = ", ".join(map(repr, list(state.streams)[:5])) or "none yet"
            raise Unknown(f"there is no stream {values.shown(name)}: the streams are {known}")
        return mine

    def _new_stream(self, name: Any, number: int) -> Stream:
        values.name("stream", name)
        return Stream(number, ContextHistory(self.spec, self.settings.advance))
