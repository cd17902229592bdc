"""What users report on their decisions, checked: rewards and successors."""

from __future__ import annotations

import struct
import zlib
from typing import Any, NamedTuple

import numpy as np

from lcpo import values
from lcpo.distributions import Categorical
from lcpo.errors import Conflict, InputError
from lcpo.live.events import Observe
from lcpo.live.state import NEITHER, Experience
from lcpo.types import Spec

_NO_READINGS = np.zeros(0, np.float32)
DEFAULT = -1
"""In place of a checksum: the reward did not come in time."""


class Given(NamedTuple):
    """The checked values of an `Observe`, except for the successor, which its stream reads."""

    reward: float | None
    terminated: bool
    truncated: bool
    action: np.ndarray | None
    elapsed: float
    readings: np.ndarray
    checks: tuple[int, int]
    """Of the reward with all that comes with it, and of the successor; NEITHER where not given."""


def check(spec: Spec, event: Observe) -> Given:
    """InputError if a value is invalid."""
    if not isinstance(event.id, int) or isinstance(event.id, bool):
        values.refuse("id", event.id, "the id of a decision, a whole number")
    terminated = values.flag("terminated", event.terminated)
    truncated = values.flag("truncated", event.truncated)
    elapsed = values.number("elapsed", event.elapsed, 0.0)
    action = check_action(spec, event.action)
    reward = None if event.reward is None else values.number("reward", event.reward)
    if reward is None and (event.readings is not None or action is not None or elapsed != 1.0):
        raise InputError("action, elapsed and readings come with the reward: give it, too")
    readings = _check_readings(spec, event.readings) if reward is not None else _NO_READINGS
    successor = event.next_obs
    if successor is None:
        if terminated or truncated:
            raise InputError(
                "an episode ends without next_obs: give the observation that the last action "
                "led to, because the next one belongs to another episode"
            )
        if event.next_context is not None:
            raise InputError("next_context is given without next_obs: give both, or neither")
        if reward is None:
            raise InputError("neither reward nor next_obs is given: nothing to observe")
    first = NEITHER if reward is None else _checksum((reward, elapsed), action, readings)
    second = NEITHER
    if successor is not None:
        seen = values.reals("next_obs", successor)
        context = event.next_context
        context = None if context is None else values.reals("next_context", context)
        second = _checksum((terminated, truncated), seen, context)
    return Given(reward, terminated, truncated, action, elapsed, readings, (first, second))


class News(NamedTuple):
    """What an observation adds to what is known of its decision."""

    reward: bool
    successor: bool
    expired: bool = False
    """A reward is given, but another was used by now."""


def news(known: tuple[int, int], given: tuple[int, int], number: int) -> News:
    """By checksums of reward and successor.

    InputError if a part was observed before with another content.
    """
    expired = known[0] == DEFAULT and given[0] != NEITHER
    for old, new, what in zip(known, given, ("reward", "successor"), strict=True):
        if old not in (NEITHER, DEFAULT) and new not in (NEITHER, old):
            raise Conflict(
                f"decision {number} was observed before, with another {what}, which stays: only "
                "the same one may be repeated"
            )
    reward, successor = (b != NEITHER == a for a, b in zip(known, given, strict=True))
    return News(reward, successor, expired)


def with_reward(step: Experience, given: Given) -> Experience:
    """A step with its reward. A policy does not learn from an action that it did not choose."""
    played, weight = step.action, step.weight
    if given.action is not None:
        weight = weight if np.array_equal(given.action, played) else 0.0
        played = given.action
    # Built by position: `_replace` takes far longer.
    return Experience(
        *step[:5], weight, step.obs, played, step.extra, given.reward, given.elapsed,
        given.readings, *step[12:15], (given.checks[0], step.checks[1]), *step[16:],
    )  # fmt: skip


def with_default(step: Experience, reward: float, spec: Spec) -> Experience:
    """A step whose reward did not come."""
    readings = np.zeros(len(spec.readings), np.float32)
    return step._replace(reward=reward, readings=readings, checks=(DEFAULT, step.checks[1]))


def _checksum(numbers: tuple[float, ...], *arrays: np.ndarray | None) -> int:
    found = zlib.crc32(struct.pack(f"{len(numbers)}d", *numbers))
    for array in arrays:
        found = zlib.crc32(b"-" if array is None else array.tobytes(), found)
    return found | 1 << 32  # other than NEITHER


def check_action(spec: Spec, action: Any, what: str = "action") -> np.ndarray | None:
    """An action [A] as an array, or None; InputError if there is no such action."""
    if action is None:
        return None
    actions, found = spec.actions, np.atleast_1d(values.reals(what, action))
    if not actions.contains(found):
        numbered = ", numbered from 0" if isinstance(actions, Categorical) else ""
        values.refuse(what, action, f"{actions.size} number(s), one of {actions}{numbered}")
    return found.astype(actions.dtype)


def _check_readings(spec: Spec, readings: Any) -> np.ndarray:
    names = spec.readings
    if readings is None and not names:
        return _NO_READINGS
    found = values.reals("readings", () if readings is None else readings)
    if found.shape != (len(names),):
        values.refuse("readings", readings, f"one number for each of {names}")
    return found.copy()
