"""Agents solve probes whose answers are known, and LCPO remembers.

Runs that differ in seeds and in traced config values go through one vmapped program. Each test
also runs a setting that must fail, so that passing means something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    SEEDS,
    SMALL,
    TWO_CONTEXTS,
    Measured,
    late_return,
    near,
    on_return,
    probe_settings,
    train,
)  # fmt: skip

from lcpo.agents import AGENTS, on_policy
from lcpo.core import nets, ood
from lcpo.envs.probes import Bandit, ConstantReward, DelayedReward, Rooms, TwoContexts
from lcpo.run.drive.base import RunState
from lcpo.types import ContextSlice

pytestmark = pytest.mark.learn

ON_POLICY = ["a2c", "a2c-entropy", "lcpo", "trpo", "ppo", "lcpo-p", "lcpo-plus", "clear"]
IDLE = {"trpo": {"max_kl": 0.0}, "lcpo-plus": {"learning_rate": 0.0, "c_0": 0.0, "c_anchor": 0.0}}


@pytest.mark.parametrize("agent", ON_POLICY)
def test_bandit(agent: str) -> None:
    """The best of five arms; with steps of length 0 the choice stays random."""
    _, metrics = train(agent, Bandit(), 300, [{}, IDLE.get(agent, {"learning_rate": 0.0})])
    learned, idle = late_return(metrics)
    assert learned > 0.95
    assert idle < 0.4


@pytest.mark.parametrize("agent", ON_POLICY)
def test_delayed_reward(agent: str) -> None:
    """Credit reaches the first of five steps; with gamma = 0 it cannot."""
    shared: dict[str, Any] = {}
    if agent == "lcpo-plus":  # its entropy bonus alone costs 5 %
        shared = {"entropy_coef": 0.0, "entropy_target": 0.0}
    _, metrics = train(
        agent, DelayedReward(), 300, [{**shared, "gamma": gamma} for gamma in (0.99, 0.0)]
    )
    learned, blind = late_return(metrics)
    assert learned > 0.95
    assert 0.2 < blind < 0.8


VALUED: dict[str, Any] = {
    "scale_rewards": False,
    "gamma": GAMMA,
    "learning_rate": 0.0,
    "value_learning_rate": 1e-2,
}


def values(state: RunState, obs: Sequence[Sequence[float]]) -> np.ndarray:
    """V(obs) of every run, [runs, number of observations]."""
    learner = getattr(state.agent, "learner", state.agent)
    network = nets.for_spec(Rooms().spec, SMALL["hidden"], 1)
    return np.asarray(jax.vmap(lambda v: network.apply(v, jnp.array(obs))[:, 0])(learner.value))


def test_value_of_constant_reward() -> None:
    state, _ = train("a2c", ConstantReward(), 500, **VALUED)
    np.testing.assert_allclose(values(state, [[1.0, 0.0]]), 1.0 / (1.0 - GAMMA), rtol=0.03)


LEFT = GAMMA ** np.arange(1, 5)  # discount of what follows k = 1 .. 4 payments
PAID = (1.0 - LEFT) / (1.0 - GAMMA)  # value of k payments


@pytest.mark.parametrize("agent", ["a2c", "lcpo", "lcpo-plus", "clear"])
def test_value_bootstraps_where_truncated_and_not_where_terminated(agent: str) -> None:
    """Rooms: the same rewards and episodes, of which only the kind of end differs."""
    state, _ = train(agent, Rooms(end="truncated"), 600, **VALUED)
    near(values(state, IN_ROOMS), [0.0, 1.0 / (1.0 - GAMMA)])
    state, _ = train(agent, Rooms(end="terminated"), 600, **VALUED)
    paid = PAID.mean()
    if agent == "lcpo-plus":
        # Time is not observed, so its one-step targets, 1 and in three of four steps the value
        # of the same room, have another fixed point than returns. It learns from both.
        w_v = AGENTS[agent].config().w_v
        paid = (paid + w_v) / (1.0 + w_v * (1.0 - 0.75 * GAMMA))
    near(values(state, IN_ROOMS), [0.0, paid])


def test_value_under_truncation_leaks() -> None:
    """The published fault: an episode's value holds that of the next one, 0.5 / (1 - gamma)."""
    # What follows is drawn at random: a run's values have standard deviations of 0.5 and 0.7.
    fault: dict[str, Any] = {"faults": [on_policy.TRUNCATION_LEAKS]}
    state, _ = train("a2c", Rooms(), 2400, num_seeds=64, **VALUED, **fault)
    following = LEFT.mean() * 0.5 / (1.0 - GAMMA)
    near(values(state, IN_ROOMS), [following, PAID.mean() + following])


def train_a_b_a(
    agent: str, settings: Sequence[Mapping[str, Any]] = ({},), **shared: Any
) -> Measured:
    updates = FIRST + SECOND + AGAIN
    shared = {**probe_settings(agent), **shared}
    return train(agent, TwoContexts(), updates, settings, TWO_CONTEXTS, **shared)[1]


def learned_both(reward: np.ndarray) -> bool:
    """Share of right answers at the end of A and of B, mean over seeds."""
    before, after = slice(FIRST - 10, FIRST), slice(FIRST + SECOND - 10, FIRST + SECOND)
    return reward[:, before].mean() > 0.9 and reward[:, after].mean() > 0.9


def test_lcpo_remembers_and_a2c_forgets() -> None:
    """A, long B, A again. LCPO that never finds an anchor forgets as A2C does."""
    plain, lcpo = train_a_b_a("a2c"), train_a_b_a("lcpo", [{"sigma": 1.0}, {"sigma": 10.0}])
    assert all(learned_both(reward) for reward in (*plain["reward"], *lcpo["reward"]))
    remembered, unanchored = on_return(lcpo)
    assert remembered.mean() > 0.9
    assert remembered.min() > 0.75
    assert on_return(plain).mean() < 0.5
    assert unanchored.mean() < 0.5
    active = lcpo["constraint_active"][..., FIRST + 1 : FIRST + SECOND]
    assert active[0].mean() > 0.95
    assert active[1].max() == 0.0
    assert lcpo["anchor_kl"].max() <= 1e-4
    moved = lcpo["step_fraction"][0, :, FIRST + 1 : FIRST + SECOND] > 0.0
    assert moved.mean() > 0.5  # it learned B by anchored steps, not for want of any


def test_lcpo_plus_remembers_what_a_context_is_worth() -> None:
    """Its policy remembers in any case; rehearsal makes its value function fit the past better."""
    plus = train_a_b_a("lcpo-plus", [{"w_v": 0.0, "w_pi": 0.0}, {"w_pi": 0.0}, {}])
    assert all(learned_both(reward) for reward in plus["reward"])
    assert all(back.mean() > 0.85 for back in on_return(plus))
    error = plus["past_value_loss"][..., FIRST + SECOND - 50 : FIRST + SECOND].mean(axis=(1, 2))
    assert error[1:].max() < 0.9 * error[0]
    assert np.all(plus["anchor_kl"] <= plus["limit"])


def test_lcpo_p_remembers_by_its_penalty() -> None:
    """Without the anchors' loss, which is PPO, it forgets."""
    lcpo_p = train_a_b_a("lcpo-p", [{"kappa": 10.0}, {"kappa": 0.0}])
    assert all(learned_both(reward) for reward in lcpo_p["reward"])
    remembered, forgot = on_return(lcpo_p)
    assert remembered.mean() > 0.85
    assert remembered.min() > 0.7
    assert forgot.mean() < 0.4
    active = lcpo_p["constraint_active"][..., FIRST + 1 : FIRST + SECOND]
    assert active.mean() > 0.95


def test_clear_remembers_by_replay_and_more_by_cloning() -> None:
    """With the past in reach it learns A on while B lasts; with nothing but B it forgets."""
    clones = [{"policy_clone_coef": 1e-3}, {"policy_clone_coef": 0.1}]
    clear = train_a_b_a("clear", clones)
    assert all(learned_both(reward) for reward in clear["reward"])
    replayed, cloned = on_return(clear)
    assert replayed.mean() > 0.7
    assert cloned.mean() > 0.85
    forgot = train_a_b_a("clear", buffer_size=2000)
    assert learned_both(forgot["reward"][0])
    assert on_return(forgot).mean() < 0.4


def same_context(context: ContextSlice, recent: jax.Array, data: jax.Array) -> jax.Array:
    """A detector turned inside out: only the recent context counts as OOD."""
    return jnp.where(ood.l2(context, recent, data) < 1.0, jnp.inf, 0.0)


def test_it_is_the_anchors_that_remember() -> None:
    """Steps under the same limit, anchored in the context they train in, forget the other one."""
    lcpo = train_a_b_a("lcpo", detector=f"{__name__}:same_context")
    assert learned_both(lcpo["reward"][0])
    assert lcpo["constraint_active"][0, :, FIRST + SECOND // 2 : FIRST + SECOND].mean() > 0.95
    assert on_return(lcpo).mean() < 0.75


def test_lcpo_without_anchors_is_a2c_with_entropy() -> None:
    """Where no context is OOD the two are one algorithm: same actions, same parameters."""
    trace = TWO_CONTEXTS[(FIRST - 5) * SMALL["rollout_length"] :]
    state, lcpo = train("lcpo", TwoContexts(), 10, [{"sigma": 10.0}, {"sigma": 1.0}], trace)
    control_state, control = train("a2c-entropy", TwoContexts(), 10, trace=trace)
    free, anchored = lcpo["reward"]
    np.testing.assert_array_equal(free, control["reward"][0])
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a[:SEEDS], b, rtol=1e-4, atol=1e-5),
        state.agent.learner.policy,
        control_state.agent.policy,
    )
    assert not np.array_equal(anchored, free)
