"""Returns, values and episodes of streams that share a rollout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from live_agents import ONE

from lcpo import Learner

CONFIG: dict[str, Any] = {"rollout_length": 6, "hidden": (4,), "gamma": 0.9}


def play(learner: Learner, rewards: dict[str, list[float]], ends: tuple[int, ...] = ()) -> None:
    """Streams take turns; after the steps `ends` their episodes end."""
    for t in range(len(next(iter(rewards.values())))):
        for name, values in rewards.items():
            learner.act([float(t)], [0.0, 0.0], name)
            end = t in ends
            learner.observe(
                values[t], [float(t + 1)], truncated=end, next_context=[0.0, 0.0], stream=name
            )


def followed(rewards: list[float], ends: tuple[int, ...] = ()) -> list[float]:
    """Running discounted returns of a stream of its own."""
    out, running = [], 0.0
    for t, reward in enumerate(rewards):
        running = reward + 0.9 * running
        out.append(running)
        running = 0.0 if t in ends else running
    return out


@pytest.mark.parametrize("ends", [(), (3, 7)])
def test_returns_of_streams_go_on_across_cuts(ends: tuple[int, ...]) -> None:
    """The reward scale is that of returns which each stream follows by itself."""
    rng = np.random.default_rng(0)
    rewards = {name: rng.normal(2.0, size=12).tolist() for name in ("a", "b")}
    learner = Learner("a2c", ONE, CONFIG)
    play(learner, rewards, ends)
    assert learner.updates == 4
    all_returns = np.concatenate([followed(x, ends) for x in rewards.values()])
    moments = learner.state.agent.return_stats
    assert float(moments.mean) == pytest.approx(all_returns.mean(), rel=1e-3)
    assert float(moments.var) == pytest.approx(all_returns.var(), rel=1e-3)


def test_episodes_are_counted_by_stream() -> None:
    learner = Learner("a2c", ONE, CONFIG)
    play(learner, {"a": [1.0] * 6, "b": [10.0] * 6}, ends=(4,))
    metrics = learner.metrics  # of the second half: steps 3 to 5 of both streams
    assert learner.updates == 2
    assert (metrics["episodes"], metrics["episode_length_sum"]) == (2.0, 10.0)
    assert metrics["episode_return_sum"] == 55.0


def test_one_stream_and_two_differ_by_their_cuts_only() -> None:
    """A stream of half the steps twice: the same moments as in one sequence with truncations."""
    first, second = Learner("a2c", ONE, CONFIG), Learner("a2c", ONE, CONFIG)
    rewards = np.random.default_rng(1).normal(size=6).tolist()
    for t, reward in enumerate(rewards):
        for learner, name in ((first, "0"), (second, "ab"[t // 3])):
            learner.act([float(t)], [0.0, 0.0], name)
            learner.observe(
                reward, [9.0], truncated=t % 3 == 2, next_context=[0.0, 0.0], stream=name
            )
    assert first.updates == second.updates == 1
    # Actions depend on the decision's number alone, so that both have made the same steps.
    for name in ("policy_loss", "value_loss", "reward", "episodes", "episode_return_sum"):
        assert first.metrics[name] == pytest.approx(second.metrics[name], rel=1e-5)


def test_more_worlds_make_longer_rollouts() -> None:
    """`num_worlds` of the spec is no number of streams any more."""
    learner = Learner("a2c", ONE._replace(num_worlds=3), CONFIG)
    assert (learner.config.rollout_length, learner.spec.num_worlds) == (18, 1)
    play(learner, {"only": [1.0] * 36})
    assert learner.updates == 2
