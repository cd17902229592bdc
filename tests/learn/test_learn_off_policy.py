"""Agents with replay solve the probes, and remember what their replay remembers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training import (
    AGAIN,
    FIRST,
    GAMMA,
    IN_ROOMS,
    SECOND,
    SMALL,
    TWO_CONTEXTS,
    late_return,
    near,
    on_return,
    probe_settings,
    train,
)  # fmt: skip

from lcpo.core import nets
from lcpo.envs.probes import Bandit, DelayedReward, Rooms, TwoContexts
from lcpo.run.drive.base import RunState

pytestmark = pytest.mark.learn

OFF_POLICY = ["ddqn", "sac"]
QUICK: dict[str, Any] = {
    "updates_per_rollout": 4, "batch_size": 64, "random_steps": 400, "target_rate": 0.05,
}  # fmt: skip
EXPLORES: dict[str, dict[str, Any]] = {"ddqn": {"epsilon_steps": 4000}, "sac": {}}


@pytest.mark.parametrize("agent", OFF_POLICY)
def test_bandit(agent: str) -> None:
    """The best of five arms; at learning rate 0 the choice has nothing to do with what pays."""
    settings = [{"learning_rate": 3e-3}, {"learning_rate": 0.0}]
    _, metrics = train(agent, Bandit(), 300, settings, **QUICK, **EXPLORES[agent])
    learned, idle = late_return(metrics)
    assert learned > 0.95
    assert idle < 0.5


@pytest.mark.parametrize("agent", OFF_POLICY)
def test_delayed_reward(agent: str) -> None:
    """Credit reaches the first of five steps; with gamma = 0 it cannot."""
    settings = [{"gamma": 0.99}, {"gamma": 0.0}]
    _, metrics = train(agent, DelayedReward(), 300, settings, **QUICK, **EXPLORES[agent])
    learned, blind = late_return(metrics)
    assert learned > 0.95
    assert blind < 0.8


def values(state: RunState, agent: str) -> np.ndarray:
    """Mean over actions of Q in each room, [runs, rooms]: there all actions are worth the same."""
    learner = state.agent.learner
    q = learner.q if agent == "ddqn" else learner.critics[0]
    network = nets.for_actions(Rooms().spec, SMALL["hidden"])
    return np.asarray(jax.vmap(lambda p: network.apply(p, jnp.array(IN_ROOMS)).mean((-2, -1)))(q))


@pytest.mark.parametrize("agent", OFF_POLICY)
def test_value_bootstraps_where_truncated_and_not_where_terminated(agent: str) -> None:
    """Rooms: the same rewards and episodes, of which only the kind of end differs.

    Time is not observed: to a one-step target an end after 4 steps is one with probability 1/4.
    """
    fixed = {"entropy_coef": 0.0, "entropy_target": 0.0} if agent == "sac" else EXPLORES[agent]
    shared = {**QUICK, **fixed, "gamma": GAMMA, "scale_rewards": False}
    state, _ = train(agent, Rooms(end="truncated"), 600, **shared)
    near(values(state, agent), [0.0, 1.0 / (1.0 - GAMMA)])
    state, _ = train(agent, Rooms(end="terminated"), 600, **shared)
    near(values(state, agent), [0.0, 1.0 / (1.0 - 0.75 * GAMMA)])


@pytest.mark.parametrize("agent", OFF_POLICY)
def test_replay_of_all_history_remembers_and_of_the_newest_forgets(agent: str) -> None:
    """A, long B, A again: with all of A in replay, or with nothing but B."""
    for size, remembers in ((None, True), (2000, False)):
        _, metrics = train(
            agent, TwoContexts(), FIRST + SECOND + AGAIN, trace=TWO_CONTEXTS, buffer_size=size,
            num_seeds=64, **probe_settings(agent),
        )  # fmt: skip
        reward = metrics["reward"][0]
        assert reward[:, FIRST + SECOND - 10 : FIRST + SECOND].mean() > 0.9, "B was not learned"
        share = on_return(metrics).mean()
        assert share > 0.9 if remembers else share < 0.6
