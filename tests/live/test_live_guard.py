"""Guards: limits hold on every action, in every order of actions."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from lcpo.distributions import Categorical
from lcpo.errors import InputError
from lcpo.live.guard import Budget, Guard, Limits, Memory

OBS = np.zeros(2, np.float32)
SIX = Categorical((6,))


def play(guard: Guard, asked: list[int]) -> list[int]:
    memory, played = Memory(), []
    for action in asked:
        held = guard.apply(memory, OBS, np.array([action], np.int32))
        assert held.changed == (held.action[0] != action)
        assert held.action.dtype == np.int32
        memory = guard.remember(memory, held.action)
        played.append(int(held.action[0]))
    return played


def test_bounds_and_changes_hold() -> None:
    assert play(Guard(Limits(low=1, high=4), SIX), [0, 1, 4, 5]) == [1, 1, 4, 4]
    assert play(Guard(Limits(change=2), SIX), [5, 0, 0, 0, 1, 5]) == [5, 3, 1, 0, 1, 3]
    assert play(Guard(Limits(high=2, change=1), SIX), [5, 0, 5]) == [2, 1, 2]
    assert play(Guard(Limits(), SIX), [0, 5, 3]) == [0, 5, 3]


def test_a_budget_is_spent_and_comes_back() -> None:
    budget = Budget(load=(0, 1, 2, 3, 4, 5), limit=5, window=3)
    assert play(Guard(Limits(budget=budget), SIX), [5, 5, 5, 5, 5]) == [5, 0, 0, 5, 0]
    # In steps of one, the way back from 3 costs 3 + 2 + 1: too much.
    assert play(Guard(Limits(budget=budget, change=1), SIX), [5, 5, 5, 5]) == [2, 2, 1, 2]


def random_guard(rng: random.Random) -> tuple[Guard, Limits, Categorical]:
    actions = Categorical(tuple(rng.randint(2, 6) for _ in range(rng.randint(1, 3))))
    loads = []
    for count in actions.counts:
        row = [rng.choice([0.0, 0.1, 0.7, 1.3, 5.0]) for _ in range(count)]
        row[rng.randrange(1, count)] = 0.0
        loads.append(row)
    budget = Budget(loads, rng.choice([0.0, 1.0, 3.3]), rng.randint(1, 6))
    limits = Limits(
        low=rng.choice([None, 0, 1]),
        change=rng.choice([None, 1, 2, 1.5]),
        budget=rng.choice([budget, None]),
    )
    return Guard(limits, actions), limits, actions


def test_all_limits_hold_on_every_action_of_random_sequences() -> None:
    rng, replaced = random.Random(1), 0
    for _ in range(300):
        guard, limits, actions = random_guard(rng)
        memory, played, sums = Memory(), [], []
        for _ in range(30):
            asked = np.array([rng.randrange(n) for n in actions.counts], np.int32)
            action, changed = guard.apply(memory, OBS, asked)
            again, _ = guard.apply(memory, OBS, asked)
            assert np.array_equal(again, action)
            memory, replaced = guard.remember(memory, action), replaced + changed
            assert actions.contains(action)
            assert limits.low is None or (action >= limits.low).all()
            if played and limits.change is not None:
                assert (abs(action - played[-1]) <= limits.change).all()
            played.append(action)
            if limits.budget is not None:
                loads: Any = limits.budget.load
                sums.append(math.fsum(row[a] for row, a in zip(loads, action, strict=True)))
                assert math.fsum(sums[-limits.budget.window :]) <= limits.budget.limit
    assert replaced > 1000


def test_what_satisfies_the_limits_passes() -> None:
    rng = random.Random(2)
    for _ in range(100):
        guard, _, actions = random_guard(rng)
        memory = Memory()
        for _ in range(10):
            asked = np.array([rng.randrange(n) for n in actions.counts], np.int32)
            action, _ = guard.apply(memory, OBS, asked)
            assert not guard.apply(memory, OBS, action).changed
            memory = guard.remember(memory, action)


def test_actions_from_elsewhere_are_followed_by_the_way_back() -> None:
    """Such as those of the caller's own rule in shadow mode, which no guard has seen."""
    budget = Budget(load=(0, 1, 2, 3, 4, 5), limit=5, window=3)
    guard = Guard(Limits(change=2, budget=budget), SIX)
    memory = guard.remember(Memory(), np.array([5]))
    found = []
    for _ in range(4):
        action, _ = guard.apply(memory, OBS, np.array([5]))
        memory = guard.remember(memory, action)
        found.append(int(action[0]))
    assert found == [3, 1, 1, 3]


def test_a_function_decides() -> None:
    def at_night(obs: np.ndarray, action: np.ndarray) -> Any:
        return np.minimum(action, 2) if obs[1] > 0.5 else action

    guard = Guard(at_night, SIX)
    asked = np.array([5], np.int32)
    assert guard.apply(Memory(), OBS, asked) == (asked, False)
    held = guard.apply(Memory(), np.array([0.0, 1.0], np.float32), asked)
    assert (held.action.tolist(), held.changed) == ([2], True)
    assert guard.remember(Memory(), held.action) == ((2,), ())
    for wrong in (None, 6, [1, 2], math.nan, "x", 0.5):
        with pytest.raises(InputError, match="guard's action"):
            Guard(lambda _, __, w=wrong: w, SIX).apply(Memory(), OBS, asked)
    assert asked.tolist() == [5]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(low=4, high=3), "leave none of 6 actions"),
        (Limits(low=6), "leave none"),
        (Limits(high=-1), "leave none"),
        (Limits(low=(1, 2)), "list of 1"),
        (Limits(low="1"), "low"),  # pyright: ignore
        (Limits(change=0), "never moves"),
        (Limits(change=0.5), "never moves"),
        (Limits(budget=Budget((0, 1), 1, 1)), "a number for each of 6 actions"),
        (Limits(budget=Budget((0,) * 6, -1, 1)), "limit"),
        (Limits(budget=Budget((0,) * 6, 1, 0)), "window"),
        (Limits(budget=Budget((0, 0, -1, 0, 0, 0), 1, 1)), "load"),
        (Limits(low=1, budget=Budget((0, 1, 2, 3, 4, 5), 9, 1)), "whose load is 0"),
        (3, "a function of"),
    ],
)
def test_limits_that_cannot_hold_are_refused(limits: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Guard(limits, SIX)
