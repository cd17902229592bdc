"""Agents solve probes whose answers are known, and LCPO remembers.

Runs that differ in seeds and in traced config values go through one vmapped program. Each test
also runs a setting that must fail, so that passing means something.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo import config as configs
from lcpo.agents import AGENTS, a2c
from lcpo.core import ood
from lcpo.envs.base import Env
from lcpo.envs.probes import Bandit, ConstantReward, DelayedReward, Rooms, TwoContexts
from lcpo.run.drive.compiled import RunState, load_contexts, make_chunk, make_init
from lcpo.types import Agent, ContextSlice, Spec

pytestmark = pytest.mark.learn

SEEDS = 8
ON_POLICY = ["a2c", "a2c-entropy", "lcpo", "trpo", "ppo", "lcpo-p"]
SMALL = {
    "rollout_length": 40,
    "hidden": (32, 32),
    "learning_rate": 3e-3,
    "value_learning_rate": 3e-3,
}

Measured = dict[str, np.ndarray]  # metric -> [settings, seeds, updates]


def train(
    agent: str,
    env: Env,
    updates: int,
    settings: Sequence[Mapping[str, Any]] = ({},),
    trace: np.ndarray | None = None,
    num_seeds: int = SEEDS,
    **shared: Any,
) -> tuple[RunState, Measured]:
    """Every setting with every seed: final states [settings * seeds, ...] and metrics.

    The settings differ in traced fields only; `shared` fields are the same in all.
    """
    chosen = AGENTS[agent]
    shared = {**{k: v for k, v in SMALL.items() if hasattr(chosen.Config, k)}, **shared}
    steps = updates * shared["rollout_length"]
    each = [configs.resolve(chosen.config(**{**shared, **s}), steps) for s in settings]
    runs = configs.stack([c for c in each for _ in range(num_seeds)])
    seeds = jnp.tile(jnp.arange(num_seeds), len(each))
    envs = configs.stack([env] * len(seeds))
    rows = np.zeros((steps + 1, 1)) if trace is None else trace
    contexts = load_contexts(rows, 0, steps + 1, env.spec.context.lags)
    # Agents that differ only in their preset share a program. (An empty dict has no hash.)
    init, chunk = compiled(chosen._replace(name="", preset=None), env.spec, updates)
    state = init(runs, envs, seeds, contexts)
    state, found = chunk(runs, envs, seeds, state, contexts, jnp.int32(0), jnp.int32(updates))
    metrics = {k: np.asarray(v).reshape(len(each), num_seeds, updates) for k, v in found.items()}
    assert all(np.isfinite(v).all() for v in metrics.values())
    return state, metrics


@functools.cache
def compiled(agent: Agent, spec: Spec, updates: int) -> tuple[Callable, Callable]:
    return make_init(agent, spec, many=True), make_chunk(agent, spec, updates, many=True)


def late_return(metrics: Measured) -> np.ndarray:
    """Mean return of the episodes in the last 20 updates, [settings]."""
    total, count = (metrics[k][..., -20:].sum((1, 2)) for k in ("episode_return_sum", "episodes"))
    return total / count


@pytest.mark.parametrize("agent", ON_POLICY)
def test_bandit(agent: str) -> None:
    """The best of five arms; with steps of length 0 the choice stays random."""
    settings = [{}, {"max_kl": 0.0} if agent == "trpo" else {"learning_rate": 0.0}]
    _, metrics = train(agent, Bandit(), 300, settings)
    learned, idle = late_return(metrics)
    assert learned > 0.95
    assert idle < 0.4


@pytest.mark.parametrize("agent", ON_POLICY)
def test_delayed_reward(agent: str) -> None:
    """Credit reaches the first of five steps; with gamma = 0 it cannot."""
    _, metrics = train(agent, DelayedReward(), 300, [{"gamma": 0.99}, {"gamma": 0.0}])
    learned, blind = late_return(metrics)
    assert learned > 0.95
    assert 0.2 < blind < 0.8


GAMMA = 0.9
VALUED = {"scale_rewards": False, "gamma": GAMMA, "learning_rate": 0.0, "value_learning_rate": 1e-2}


def values(state: RunState, obs: Sequence[Sequence[float]]) -> np.ndarray:
    """V(obs) of every run, [runs, number of observations]."""
    learner = getattr(state.agent, "learner", state.agent)
    return np.asarray(jax.vmap(lambda v: a2c.outputs(v, jnp.array(obs))[:, 0])(learner.value))


def test_value_of_constant_reward() -> None:
    state, _ = train("a2c", ConstantReward(), 500, **VALUED)
    np.testing.assert_allclose(values(state, [[1.0, 0.0]]), 1.0 / (1.0 - GAMMA), rtol=0.03)


IN_ROOMS = [[0.0, 0.0], [1.0, 0.0]]
LEFT = GAMMA ** np.arange(1, 5)  # discount of what follows k = 1 .. 4 payments
PAID = (1.0 - LEFT) / (1.0 - GAMMA)  # value of k payments


@pytest.mark.parametrize("agent", ["a2c", "lcpo"])
def test_value_bootstraps_where_truncated_and_not_where_terminated(agent: str) -> None:
    """Rooms: the same rewards and episodes, of which only the kind of end differs."""
    state, _ = train(agent, Rooms(end="truncated"), 600, **VALUED)
    near(values(state, IN_ROOMS), [0.0, 1.0 / (1.0 - GAMMA)])
    state, _ = train(agent, Rooms(end="terminated"), 600, **VALUED)
    near(values(state, IN_ROOMS), [0.0, PAID.mean()])


def test_value_under_truncation_leaks() -> None:
    """The published fault: an episode's value holds that of the next one, 0.5 / (1 - gamma)."""
    # What follows is drawn at random: a run's values have standard deviations of 0.5 and 0.7.
    fault = {"faults": [a2c.TRUNCATION_LEAKS]}
    state, _ = train("a2c", Rooms(), 2400, num_seeds=64, **VALUED, **fault)
    following = LEFT.mean() * 0.5 / (1.0 - GAMMA)
    near(values(state, IN_ROOMS), [following, PAID.mean() + following])


def near(found: np.ndarray, expected: Sequence[float]) -> None:
    """Within 0.3 on the mean over runs; the values that must be told apart differ by 2 or more."""
    np.testing.assert_allclose(found.mean(0), expected, atol=0.3)


FIRST, SECOND, AGAIN = 150, 450, 30
"""Updates in context A, in B, and back in A. A is over a fifth of the past until the end."""
TWO_CONTEXTS = np.repeat(
    [[-1.0], [1.0], [-1.0]],
    np.array([FIRST, SECOND, AGAIN]) * SMALL["rollout_length"] + [0, 0, 1],
    axis=0,
)
# A fixed entropy bonus, the same for all: a policy that has become deterministic in A may never
# learn B, and would then have nothing to forget for.
SOFT = {"entropy_coef": 0.2, "entropy_target": 0.0}


def train_a_b_a(
    agent: str, settings: Sequence[Mapping[str, Any]] = ({},), **shared: Any
) -> Measured:
    updates = FIRST + SECOND + AGAIN
    return train(agent, TwoContexts(), updates, settings, TWO_CONTEXTS, **SOFT, **shared)[1]


def learned_both(reward: np.ndarray) -> bool:
    """Share of right answers at the end of A and of B, mean over seeds."""
    before, after = slice(FIRST - 10, FIRST), slice(FIRST + SECOND - 10, FIRST + SECOND)
    return reward[:, before].mean() > 0.9 and reward[:, after].mean() > 0.9


def on_return(metrics: Measured) -> np.ndarray:
    """Probability of a right answer back in A, before anything is learned, [settings, seeds]."""
    wrong = (metrics["tv_minus"] + metrics["tv_plus"]) / 2.0
    return 1.0 - wrong[..., FIRST + SECOND]


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


def test_lcpo_p_remembers_by_its_penalty() -> None:
    """Without the anchors' loss, which is PPO, it forgets."""
    lcpo_p = train_a_b_a("lcpo-p", [{"kappa": 10.0}, {"kappa": 0.0}], learning_rate=1e-3)
    assert all(learned_both(reward) for reward in lcpo_p["reward"])
    remembered, forgot = on_return(lcpo_p)
    assert remembered.mean() > 0.85
    assert remembered.min() > 0.7
    assert forgot.mean() < 0.4
    active = lcpo_p["constraint_active"][..., FIRST + 1 : FIRST + SECOND]
    assert active.mean() > 0.95


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
