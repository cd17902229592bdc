"""A slow learner without agent: what is closed, in which order, and in which batches.

It keeps every decision for ever and looks through all of them at every event. Contexts have two
channels and two lags, as in `live_agents.SPEC`.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

GAMMA = 0.5


@dataclasses.dataclass
class Life:
    """A stream, from its first act to its end."""

    number: int
    began: list[float]
    contexts: list[list[float]] = dataclasses.field(default_factory=list)
    moved: bool = False
    episode: int = 0
    places: int = 0

    def look(self, x: float, context: list[float]) -> list[float]:
        if self.contexts and not self.moved:
            self.contexts[-1] = context
        else:
            self.contexts.append(context)
        self.moved = False
        # A history begins with its first context, repeated, even if that is replaced later.
        before = self.contexts[-2] if len(self.contexts) > 1 else self.began
        return [x, context[0], before[0], context[1], before[1]]


@dataclasses.dataclass
class Made:
    """A decision."""

    id: int
    name: str
    life: Life
    place: int
    episode: int
    time: float
    obs: list[float]
    action: Any
    weight: float
    reward: float | None = None
    successor: list[float] | None = None
    ended: tuple[bool, bool] = (False, False)
    fate: str = "open"
    told: Any = None
    told_successor: Any = None
    running: float = 0.0


class Oracle:
    def __init__(
        self, size: int, late: int | None, seconds: float | None, missing: float | None
    ) -> None:
        self.size, self.late, self.seconds, self.missing = size, late, seconds, missing
        self.lives: dict[str, Life] = {}
        self.made: list[Made] = []
        self.closed: list[Made] = []
        self.begun = 0

    def act(self, name: str, x: float, context: list[float], action: Any, time: float) -> None:
        self.expire(time)
        if name not in self.lives:
            self.lives[name] = Life(self.begun, context)
            self.begun += 1
        life = self.lives[name]
        seen = life.look(x, context)
        mine = [m for m in self.made if m.life is life and m.fate == "open"]
        for m in mine:
            is_due = self.late is not None and life.places - m.place > self.late
            if m.reward is None and is_due:
                self.give_up(m)
            if m.fate == "open" and m.successor is None:
                m.successor = seen
            self.close_if_complete(m)
        place, life.places, life.moved = life.places, life.places + 1, True
        number = len(self.made)
        self.made.append(Made(number, name, life, place, life.episode, time, seen, action, 1.0))

    def observe(
        self, number: int, reward: float | None, successor: Any, end: str | None, time: float
    ) -> str:
        """`successor`: features and context; `end`: terminated, truncated, or None."""
        m = self.made[number]
        waits = self.seconds is not None and m.fate == "open" and m.reward is None
        is_due = waits and time - m.time > (self.seconds or 0.0)
        if m.fate in ("expired", "discarded"):
            return m.fate
        if is_due and self.missing is None:
            return "expired"
        expired = reward is not None and (is_due or m.told == "default")
        told, told_successor = reward, None if successor is None else (successor, end)
        known = None if is_due or m.told == "default" else m.told
        conflict = (told is not None and known not in (None, told)) or (
            told_successor is not None and m.told_successor not in (None, told_successor)
        )
        if conflict:
            return "error"
        new_reward = told is not None and m.told is None and not expired
        new_successor = told_successor is not None and m.told_successor is None
        is_last = m.place == m.life.places - 1
        if new_successor and (m.successor is not None or not is_last or m.fate != "open"):
            return "error"
        if not new_reward and not new_successor:
            return "expired" if expired else "duplicate"
        self.expire(time)
        if new_successor and successor is not None:
            m.successor, m.told_successor = m.life.look(*successor), told_successor
            m.ended = (end == "terminated", end == "truncated")
            m.life.episode += end is not None
        if new_reward:
            m.reward, m.told = reward, told
        self.close_if_complete(m)
        if expired:
            return "expired"
        return "late" if new_reward and not is_last else "ok"

    def discard(self, name: str, number: int | None, time: float) -> None:
        self.expire(time)
        for m in self.made:
            chosen = m.life is self.lives.get(name) if number is None else m.id == number
            if chosen and m.fate == "open":
                m.fate = "discarded"

    def end(self, name: str, time: float) -> None:
        self.expire(time)
        life = self.lives.pop(name)
        mine = [m for m in self.made if m.life is life and m.fate == "open"]
        for m in mine:
            if m.successor is not None:
                self.give_up(m)
                self.close_if_complete(m)
        for m in mine:
            m.fate = "discarded" if m.fate == "open" else m.fate

    def expire(self, time: float) -> None:
        for m in self.made:
            waits = m.fate == "open" and m.reward is None
            if waits and self.seconds is not None and time - m.time > self.seconds:
                self.give_up(m)
                self.close_if_complete(m)

    def give_up(self, m: Made) -> None:
        if m.reward is not None:
            return
        if self.missing is None:
            m.fate = "expired"
        else:
            m.reward, m.told = self.missing, "default"

    def close_if_complete(self, m: Made) -> None:
        if m.fate == "open" and m.reward is not None and m.successor is not None:
            m.fate = "closed"
            before = [c for c in self.closed if c.life is m.life]
            goes_on = bool(before) and before[-1].episode == m.episode
            m.running = m.reward + (GAMMA * before[-1].running if goes_on else 0.0)
            self.closed.append(m)

    def batch(self, index: int) -> list[tuple[Made, bool]]:
        """The steps of an update, each with whether it is cut or truncated."""
        chosen = self.closed[index * self.size : (index + 1) * self.size]
        order = list(dict.fromkeys(m.life.number for m in chosen))
        chosen = sorted(chosen, key=lambda m: (order.index(m.life.number), m.place))
        follows = [
            a.life is b.life and a.place + 1 == b.place
            for a, b in zip(chosen, [*chosen[1:], None], strict=True)
            if b is not None
        ] + [False]
        alone = self.is_alone(index)
        return [
            (m, m.ended[1] or (not alone and not any(m.ended) and not f))
            for m, f in zip(chosen, follows, strict=True)
        ]

    def is_alone(self, index: int) -> bool:
        """Whether all steps up to and including this update's are one unbroken sequence."""
        steps = self.closed[: (index + 1) * self.size]
        batches = [steps[i : i + self.size] for i in range(0, len(steps), self.size)]
        flat = [m for b in batches for m in sorted(b, key=lambda m: (m.life.number, m.place))]
        return all(a.life is b.life and a.place + 1 == b.place for a, b in itertools.pairwise(flat))
