"""Histories that are kept context by context are those that a driver reads off a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lcpo.envs.base import Advance, obs_layout
from lcpo.errors import InputError
from lcpo.history import ContextHistory
from lcpo.types import ContextSlice, Spec

SPEC = Spec(2 + 6, ContextSlice(start=2, channels=2, lags=3), (4,))
TRACE = np.arange(40, dtype=np.float32).reshape(20, 2)
ENDS = (3, 4, 9)


@pytest.mark.parametrize("advance", ["step", "episode"])
@pytest.mark.parametrize("told", [True, False], ids=["successors", "no-successors"])
def test_histories_are_those_of_a_trace(advance: Advance, told: bool) -> None:
    layout, history = obs_layout(SPEC, advance), ContextHistory(SPEC, advance)
    row, features = 0, np.zeros(2)

    def look() -> ContextHistory:
        obs, after = history.join(history.read(features, TRACE[row]))
        np.testing.assert_array_equal(obs[2:], layout.history_at(TRACE, np.array([row]))[0])
        return after

    for t in range(14):
        history = look().pass_step()
        row += advance == "step"
        if told or t % 3 == 0:
            history = look()
        if t in ENDS:
            history = history.end_episode()
            row += advance == "episode"


def test_a_reset_may_bring_another_context() -> None:
    history = ContextHistory(SPEC)
    for context in ([1.0, 1.0], [2.0, 2.0], [3.0, 3.0]):
        history = history.join(history.read([0.0, 0.0], context))[1].pass_step()
    history = history.join(history.read([0.0, 0.0], [4.0, 4.0]))[1].end_episode()
    obs, _ = history.join(history.read([0.0, 0.0], [5.0, 5.0]))
    np.testing.assert_array_equal(obs[2:], [5, 3, 2, 5, 3, 2])


def test_whole_observations_bring_their_history() -> None:
    history, given = ContextHistory(SPEC), np.arange(8, dtype=np.float32)
    whole, history = history.join(history.read(given))
    given[:] = -1.0  # a user's array, used again
    np.testing.assert_array_equal(whole, np.arange(8))
    obs, _ = history.pass_step().join(history.read([0.0, 0.0], [9.0, 9.0]))
    np.testing.assert_array_equal(obs[2:], [9, 2, 3, 9, 5, 6])


def test_the_context_may_stand_in_the_middle() -> None:
    history = ContextHistory(Spec(4, ContextSlice(start=1, channels=1, lags=2), (2,)))
    obs, _ = history.join(history.read([1.0, 2.0], 7.0))
    np.testing.assert_array_equal(obs, [1, 7, 7, 2])


@pytest.mark.parametrize(
    ("obs", "context", "match"),
    [
        (np.zeros(2), None, r"needs \[8\], or \[2\] and a context"),
        (np.zeros(8), [1.0, 2.0], "needs the 2 features"),
        (np.zeros(2), [1.0], r"context has shape \[1\]: needs \[2\]"),
        (np.zeros(2), [1.0, np.nan], r"context\[1\] is not finite"),
        (np.full(8, np.inf), None, r"obs\[0\] is not finite"),
        ("x", None, "array of real numbers"),
        (np.full(8, 1e300), None, "not finite"),
    ],
)
def test_what_does_not_fit_is_refused(obs: Any, context: Any, match: str) -> None:
    history = ContextHistory(SPEC)
    with pytest.raises(InputError, match=match):
        history.read(obs, context)


def test_a_context_that_the_spec_does_not_have_is_refused() -> None:
    with pytest.raises(InputError, match="the spec has none"):
        ContextHistory(Spec(2, ContextSlice(2, 0, 1), (2,))).read(np.zeros(2), [1.0])
