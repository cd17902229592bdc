"""Where features and history stand in an observation; host and compiled told apart."""

from __future__ import annotations

from typing import Any

import host_examples
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo.envs import ENVS
from lcpo.envs.base import (
    ObsLayout,
    entries,
    is_host,
    landmarks_of,
    max_input_of,
    notes_of,
    obs_layout,
    trace_rows,
    trace_windows,
)
from lcpo.envs.pendulum import Pendulum, PlainPendulum
from lcpo.history import extend

TRACE = np.stack([np.arange(7), 100 + np.arange(7)], axis=1).astype(np.float32)
LAYOUT = obs_layout(Pendulum().spec, "step")


def test_before_its_first_row_a_trace_repeats_it_and_after_its_last_it_starts_again() -> None:
    np.testing.assert_array_equal(
        trace_rows(np.array([-2, -1, 0, 6, 7, 15]), 7), [0, 0, 0, 6, 0, 1]
    )
    newest_first = trace_windows(TRACE, np.array([0, 1, 8]), 3)
    np.testing.assert_array_equal(newest_first[..., 0], [[0, 0, 0], [1, 0, 0], [1, 0, 6]])


def test_a_history_is_channel_by_channel_newest_first() -> None:
    expected = [[1, 0, 0, 101, 100, 100], [1, 0, 6, 101, 100, 106]]
    found = LAYOUT.history_at(TRACE, np.array([1, 8]))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(LAYOUT.newest(found), [[1, 101], [1, 101]])
    window = jnp.asarray(trace_windows(TRACE, np.array([8]), 3)[0])
    np.testing.assert_array_equal(entries(window), expected[1])


def test_the_layout_is_that_of_the_spec() -> None:
    assert ObsLayout(num_features=3, channels=2, lags=3) == LAYOUT
    assert (LAYOUT.features, LAYOUT.history) == (slice(0, 3), slice(3, 9))
    own = obs_layout(PlainPendulum().spec, "own")
    assert (own.num_features, own.channels, own.context_size) == (3, 0, 0)
    assert own.history_at(np.zeros((1, 0), np.float32), np.arange(4)).shape == (4, 0)
    makes_its_own = obs_layout(Pendulum().spec, "own")  # the entries are among its features
    assert (makes_its_own.num_features, makes_its_own.context_size) == (9, 0)


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_join_and_split_are_inverse_and_keep_the_kind_of_array(kind: Any) -> None:
    features, history = kind(np.zeros((4, 5, 3), np.float32)), kind(np.ones((4, 5, 6), np.float32))
    obs = LAYOUT.join(features, history)
    assert isinstance(obs, jax.Array) == (kind is jnp.asarray)
    for part, expected in zip(LAYOUT.split(obs), (features, history), strict=True):
        np.testing.assert_array_equal(part, expected)


def test_in_a_program_join_is_one_concatenation() -> None:
    def concatenate(features: Any, history: Any) -> Any:
        return jnp.concatenate([features, history], axis=-1)

    parts = jnp.zeros((4, 3)), jnp.zeros((4, 6))
    assert str(jax.make_jaxpr(ObsLayout.join)(*parts)) == str(jax.make_jaxpr(concatenate)(*parts))


def test_a_history_that_is_pushed_is_the_one_that_is_read_from_the_trace() -> None:
    cursors = np.arange(len(TRACE))
    history = extend(None, TRACE[0], 3, False)
    for cursor, expected in zip(cursors[1:], LAYOUT.history_at(TRACE, cursors)[1:], strict=True):
        history = extend(history, TRACE[cursor], 3, True)
        np.testing.assert_array_equal(history, expected)
    replaced = extend(history, np.array([50, 150], np.float32), 3, False)
    np.testing.assert_array_equal(replaced, [50, 5, 4, 150, 105, 104])
    nothing = np.zeros(0, np.float32)
    assert all(extend(nothing, nothing, 3, moved).shape == (0,) for moved in (True, False))


def test_the_two_kinds_and_their_optional_members() -> None:
    host = {name for name, make in ENVS.items() if is_host(make())}
    assert host == {"hopper", "straggler"}
    both = ("inverted-pendulum", "inverted-double-pendulum", "reacher")
    assert all(is_host(ENVS[name](physics="mujoco")) for name in both)
    assert is_host(host_examples.Drift())
    assert list(landmarks_of(ENVS["grid-world"]())) == ["no_trap", "trap"]
    assert not landmarks_of(Pendulum())
    assert not notes_of(Pendulum())
    assert max_input_of(Pendulum()) == 2.0
    assert max_input_of(ENVS["grid-world"]()) is None
