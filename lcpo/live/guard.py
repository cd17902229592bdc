"""Guards: what an action may be, whoever decides it.

A guard is a function of your own, `guard(obs, action) -> action`, or limits as data:

    Limits(low=1, high=4)                               actions 1 to 4
    Limits(change=1)                                    at most one up or down per step
    Limits(budget=Budget(load=(0, 0, 1, 2), limit=20, window=60))

A budget bounds the extra load of any `window` consecutive actions of a stream. All limits hold on
every action that they return. For this, an action is refused if the way back to one without extra
load, in steps of `change`, would exceed the budget.

The functions are pure: from a memory of a stream's actions to the next one.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lcpo import values
from lcpo.distributions import Categorical, Distribution
from lcpo.errors import InputError

Action = tuple[float, ...]
Function = Callable[[np.ndarray, np.ndarray], Any]


@dataclasses.dataclass(frozen=True)
class Budget:
    """A bound on the extra load of consecutive actions."""

    load: Sequence[float] | Sequence[Sequence[float]]
    """Extra load of each action; with several action dimensions, one list for each."""
    limit: float
    """The largest sum of extra loads over `window` actions."""
    window: int
    """Number of consecutive actions of a stream."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits on actions; a number holds for every action dimension, a list has one for each."""

    low: float | Sequence[float] | None = None
    """The smallest action."""
    high: float | Sequence[float] | None = None
    """The largest action."""
    change: float | Sequence[float] | None = None
    """The largest difference from the stream's previous action."""
    budget: Budget | None = None


class Memory(NamedTuple):
    """What a stream has played, as far as limits depend on it."""

    action: Action | None = None
    """The previous action."""
    loads: tuple[float, ...] = ()
    """Extra loads of the newest actions, one fewer than the budget's window."""


class Guarded(NamedTuple):
    """An action that a guard has passed or replaced."""

    action: np.ndarray
    changed: bool


class Guard:
    """A guard for actions of one kind: a function or limits, checked."""

    def __init__(self, rule: Function | Limits, actions: Distribution) -> None:
        """InputError if the limits do not fit the actions."""
        self.rule, self.actions = rule, actions
        if isinstance(rule, Limits):
            self._low, self._high, self._change = _bounds(rule, actions)
            self._loads, self._free = _loads(rule.budget, actions, self._low, self._high)
        elif not callable(rule):
            values.refuse("guard", rule, "a function of (obs, action), or limits: guard.Limits")

    def apply(self, memory: Memory, obs: np.ndarray, action: np.ndarray) -> Guarded:
        """The action to play instead of `action` [A], or itself.

        Raises InputError if a function returns no action; its own errors pass.
        """
        if isinstance(self.rule, Limits):
            held = np.asarray(self._hold(memory, tuple(action.tolist())), action.dtype)
            return Guarded(held, not np.array_equal(held, action))
        found = np.atleast_1d(values.reals("the guard's action", self.rule(obs, action.copy())))
        if not self.actions.contains(found):
            values.refuse("the guard's action", found.tolist(), f"one of {self.actions}")
        held = found.astype(action.dtype)
        return Guarded(held, not np.array_equal(held, action))

    def remember(self, memory: Memory, action: np.ndarray) -> Memory:
        """The memory after an action was played."""
        played = tuple(action.tolist())
        if not isinstance(self.rule, Limits) or self.rule.budget is None:
            return Memory(played)
        kept = self.rule.budget.window - 1
        loads = (*memory.loads, self._load(played))
        return Memory(played, loads[-kept:] if kept else ())

    def _hold(self, memory: Memory, asked: Action) -> Action:
        """The allowed action next to `asked`."""
        low, high = self._low, self._high
        if memory.action is not None:
            near = list(zip(memory.action, self._change, strict=True))
            low = _clip([a - c for a, c in near], low, high)
            high = _clip([a + c for a, c in near], self._low, high)
        action = _clip(asked, low, high)
        while not self._can_return(memory.loads, action):
            closer = _clip(_toward(action, self._free, (1.0,) * len(action)), low, high)
            if closer == action:  # actions that were not guarded have spent the budget
                break
            action = closer
        return action

    def _can_return(self, loads: Sequence[float], action: Action) -> bool:
        """Whether a stream that plays the action can keep its budget from then on."""
        assert isinstance(self.rule, Limits)
        if (budget := self.rule.budget) is None:
            return True
        recent = list(loads)
        while True:
            recent.append(self._load(action))
            if math.fsum(recent[-budget.window :]) > budget.limit:
                return False
            if action == self._free:
                return True
            action = _toward(action, self._free, self._change)

    def _load(self, action: Action) -> float:
        return math.fsum(loads[int(a)] for loads, a in zip(self._loads, action, strict=True))


def _bounds(limits: Limits, actions: Distribution) -> tuple[Action, Action, Action]:
    """Smallest and largest action, and largest change, for each dimension."""
    low = _each("low", limits.low, actions.size, -math.inf)
    high = _each("high", limits.high, actions.size, math.inf)
    change = _each("change", limits.change, actions.size, math.inf)
    if isinstance(actions, Categorical):
        low = tuple(max(math.ceil(x), 0.0) for x in _finite(low, 0.0))
        tops = [n - 1.0 for n in actions.counts]
        high = tuple(float(min(math.floor(min(x, t)), t)) for x, t in zip(high, tops, strict=True))
        change = tuple(x if math.isinf(x) else float(math.floor(x)) for x in change)
    if any(a > b for a, b in zip(low, high, strict=True)):
        raise InputError(
            f"guard: low = {limits.low} and high = {limits.high} leave none of {actions}"
        )
    if any(x <= 0.0 for x in change):
        values.refuse("change", limits.change, "at least 1, or the action never moves")
    return low, high, change


def _finite(numbers: Action, otherwise: float) -> Action:
    return tuple(x if math.isfinite(x) else otherwise for x in numbers)


def _each(what: str, value: Any, size: int, otherwise: float) -> Action:
    """One number for each dimension."""
    if value is None:
        return (otherwise,) * size
    found = value if isinstance(value, (list, tuple)) else [value] * size
    if len(found) != size:
        values.refuse(what, value, f"a number, or a list of {size}")
    return tuple(values.number(what, x) for x in found)


def _loads(
    budget: Budget | None, actions: Distribution, low: Action, high: Action
) -> tuple[list[list[float]], Action]:
    """Extra loads by dimension and action, and an allowed action without extra load."""
    if budget is None:
        return [], ()
    if not isinstance(actions, Categorical):
        raise InputError(f"a budget needs discrete actions, not {actions}: use low and high")
    values.whole("window", budget.window)
    values.number("limit", budget.limit, 0.0)
    given: Any = budget.load
    rows = given if given and isinstance(given[0], (list, tuple)) else [given]
    if [len(row) for row in rows] != list(actions.counts):
        values.refuse("load", given, f"a number for each of {actions}")
    loads = [[values.number("load", x, 0.0) for x in row] for row in rows]
    free = []
    for row, first, last in zip(loads, low, high, strict=True):
        none = [a for a in range(int(first), int(last) + 1) if row[a] == 0.0]
        if not none:
            raise InputError(
                "a budget needs an allowed action whose load is 0, to return to: give loads "
                "relative to the cheapest action"
            )
        free.append(float(none[0]))
    return loads, tuple(free)


def _clip(action: Sequence[float], low: Action, high: Action) -> Action:
    return tuple(map(float, map(min, map(max, action, low), high)))


def _toward(action: Action, goal: Action, steps: Sequence[float]) -> Action:
    """The action moved toward a goal by at most `steps`."""
    pairs = itertools.starmap(
        lambda a, g, s: a + max(-s, min(s, g - a)), zip(action, goal, steps, strict=True)
    )
    return tuple(pairs)
