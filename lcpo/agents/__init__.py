"""One file per agent. `AGENTS[name]` is an agent, or one with preset values or a training plan."""

from __future__ import annotations

from typing import Any

from lcpo import names
from lcpo.agents import (
    a2c,
    bfdqn,
    clear,
    constant,
    ddqn,
    ideal_mbpo,
    lcpo,
    lcpo_p,
    lcpo_plus,
    mbcd,
    mbpo,
    online_ewc,
    ppo,
    pt_dqn,
    sac,
    sliding_ogd,
    tabular_a2c,
    tabular_q,
    trpo,
)
from lcpo.errors import InputError
from lcpo.names import Registry
from lcpo.types import Agent, AnyAgent, Training


def prescient(
    agent: AnyAgent,
    steps: int = 32_000_000,
    halve: tuple[str, ...] = ("learning_rate",),
    **preset: Any,
) -> AnyAgent:
    """`agent` trained from random starts on the whole trace, then evaluated as a frozen policy.

    The fields `halve` are halved after 50, 60, 70, 80 and 90 % of the training.
    """
    return agent.variant(f"prescient-{agent.name}", Training(steps, halve), **preset)


_ALL: tuple[AnyAgent, ...] = (
    a2c.agent,
    # The control that the paper lacks: A2C with LCPO's automatic entropy.
    a2c.agent.variant("a2c-entropy", entropy_coef=0.03, entropy_target=0.1),
    lcpo.agent,
    lcpo.agent.variant("lcpo-noent", entropy_coef=0.0, entropy_target=0.0),
    # Anchors from the whole reservoir: does it matter that they are OOD?
    lcpo.agent.variant("lcpo-uniform", detector="everything"),
    # Mahalanobis distance of the whole observation, 12 per dimension (sigma^2), as in the paper.
    lcpo.agent.variant("lcpo-mhd", detector="mahalanobis-full", sigma=12**0.5),
    lcpo_p.agent,
    lcpo_plus.agent,
    # The paper's anchors, OOD contexts only, with the parts of LCPO+.
    lcpo_plus.agent.variant("lcpo-plus-ood", detector="l2"),
    trpo.agent,
    ppo.agent,
    # LCPO-P without anchors.
    ppo.agent.variant("ppo-entropy", entropy_coef=0.03, entropy_target=0.1),
    clear.agent,
    ddqn.agent,
    bfdqn.agent,
    pt_dqn.agent,
    # The optimiser that PT-DQN's authors use for the permanent network: docs/agents/pt-dqn.md.
    pt_dqn.agent.variant("pt-dqn-sgd", permanent_optimiser="sgd"),
    sac.agent,
    online_ewc.agent,
    sliding_ogd.agent,
    mbpo.agent,
    ideal_mbpo.agent,
    mbcd.agent,
    tabular_a2c.agent,
    tabular_q.agent,
    # Baselines that do not learn: docs/agents/constant.md.
    constant.random,
    constant.agent,
)
_PRESCIENT: tuple[AnyAgent, ...] = (
    prescient(a2c.agent, rollout_length=3200),
    prescient(trpo.agent, steps=10_000_000, halve=(), rollout_length=10_000),
    # Random for 1000 updates; DDQN's epsilon falls in the 5000 after them.
    prescient(ddqn.agent, rollout_length=3200, random_steps=3_200_000, epsilon_steps=16_000_000),
    prescient(sac.agent, rollout_length=3200, random_steps=3_200_000),
)

_RULES = (
    "never-hedge", "hedge-3ms", "hedge-10ms", "hedge-30ms", "hedge-60ms", "hedge-100ms",
    "hedge-300ms", "hedge-600ms", "hedge-1000ms",
    "hedge-p95", "hedge-sketch", "hedge-cap", "hedge-table", "hedge-hourly",
)  # fmt: skip
"""Rules for hedging requests: docs/agents/hedging.md."""

AGENTS: Registry[AnyAgent] = Registry(
    {agent.name: agent for agent in _ALL}
    | {name: f"lcpo.straggler.rules:{name.replace('-', '_')}" for name in _RULES}
    | {agent.name: agent for agent in _PRESCIENT}
)


def is_ours(name: str) -> bool:
    """Whether an agent is part of this library, so that loading it runs no third-party code."""
    return constant.is_action(name) or names.is_ours(name, AGENTS)


def find_agent(name: str) -> AnyAgent:
    """An agent by name, "constant:ACTION", or a user's own as "package.module:agent"."""
    if constant.is_action(name):
        return constant.of_action(name)
    if isinstance(name, str) and constant.PREFIX in name[:9] and not name[9:].isidentifier():
        needed = "the index of an action, or one index per action dimension, as in constant:1,0"
        raise InputError(f"agent {name[:80]!r}: needs {needed}")
    found = names.find("agent", name, AGENTS)
    if not isinstance(found, Agent):
        raise InputError(f"{name} is a {type(found).__name__}: needs an lcpo.types.Agent")
    return found
