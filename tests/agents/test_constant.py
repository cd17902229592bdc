"""`random` and `constant:ACTION`: agents wherever an agent is named."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo.agents import AGENTS, constant, find_agent, is_ours
from lcpo.envs.pendulum import Pendulum
from lcpo.errors import InputError
from lcpo.run.plan.agents import plan_agents, read_agents
from lcpo.run.plan.job import check_trust
from lcpo.run.plan.plan import plan
from lcpo.study.commands import train_command
from lcpo.types import ContextSlice, Spec

KEY = jax.random.key(0)
TWO = Spec(1, ContextSlice(1, 0, 0), (3, 2))
"""Two action dimensions of unequal size."""


@pytest.mark.parametrize(
    ("name", "spec", "action"),
    [
        ("constant:2", Pendulum().spec, [2]),
        ("constant:2,1", TWO, [2, 1]),
        ("constant:1", TWO, [1, 1]),
    ],
)
def test_one_action_always(name: str, spec: Spec, action: list[int]) -> None:
    agent = find_agent(name)
    assert agent is find_agent(name)
    assert agent.root is AGENTS["constant"]
    assert agent.check is not None
    config = agent.config()
    agent.check(config, spec)
    obs = jnp.zeros((4, spec.obs_size))
    found, _ = agent.act(config, spec, constant.State(), obs, KEY)
    np.testing.assert_array_equal(found, [action] * 4)
    assert agent.probabilities is not None
    chances = agent.probabilities(config, spec, constant.State(), obs)
    np.testing.assert_array_equal(np.argmax(chances, axis=-1), [action] * 4)


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("constant:15", "action = 15 does not exist: needs a number from 0 to 14"),
        ("constant:1,0", "has 2 numbers: needs 1, one for each dimension"),
        ("constant:-1", "needs the index of an action"),
        ("constant:1.5", "needs the index of an action"),
        ("constant:", "needs the index of an action"),
        ("constant:agent", "cannot import agent 'constant:agent'"),
    ],
)
def test_actions_that_do_not_exist(name: str, needs: str) -> None:
    with pytest.raises(InputError, match=needs):
        plan(name, "pendulum", trace="iid", steps=400, seeds=1)


def test_a_number_for_each_dimension_must_exist() -> None:
    agent = find_agent("constant:1,2")
    assert agent.check is not None
    with pytest.raises(
        InputError, match="constant:1,2 does not exist: needs numbers from 0 to 2,1"
    ):
        agent.check(agent.config(), TWO)


def test_named_among_others() -> None:
    assert [one.name for one in read_agents("lcpo, constant:1,0 ,constant:2,a2c,")] == [
        "lcpo", "constant:1,0", "constant:2", "a2c",
    ]  # fmt: skip
    assert [one.name for one in read_agents("a2c,1")] == ["a2c", "1"]
    jobs = plan_agents("constant:3,random,constant:4", "pendulum", trace="iid", steps=400, seeds=2)
    assert [job.name for job in jobs[::2]] == [
        "constant.3-pendulum-iid-s0", "random-pendulum-iid-s0", "constant.4-pendulum-iid-s0",
    ]  # fmt: skip
    check_trust(jobs, trust=False, where="a plan")
    assert is_ours("constant:3")
    assert not is_ours("constant:agent"), "a module of the user's"
    assert train_command(jobs[0]).split()[2:8] == [
        "--agent", "constant:3", "--env", "pendulum", "--trace", "iid",
    ]  # fmt: skip
    assert "--action" not in train_command(jobs[0])


def test_random_takes_each_action_as_often() -> None:
    agent, obs = AGENTS["random"], jnp.zeros((6000, 1))
    found, _ = agent.act(agent.config(), TWO, constant.State(), obs, KEY)
    for dimension, count in enumerate(TWO.num_actions):
        share = np.bincount(np.asarray(found[:, dimension]), minlength=count) / len(found)
        np.testing.assert_allclose(share, 1 / count, atol=0.03)
    assert agent.probabilities is not None
    chances = agent.probabilities(agent.config(), TWO, constant.State(), obs[:2])
    np.testing.assert_allclose(chances[0], [[1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0]], atol=1e-6)
