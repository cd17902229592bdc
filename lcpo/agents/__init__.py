"""One file per agent. `AGENTS[name]` is an agent, or an agent with preset config values."""

from __future__ import annotations

from lcpo.agents import a2c, ddqn, lcpo, sac, tabular_a2c
from lcpo.types import Agent

_ALL = (
    a2c.agent,
    # The control that the paper lacks: A2C with LCPO's automatic entropy.
    a2c.agent.variant("a2c-entropy", entropy_coef=0.03, entropy_target=0.1),
    lcpo.agent,
    lcpo.agent.variant("lcpo-noent", entropy_coef=0.0, entropy_target=0.0),
    # Anchors from the whole reservoir: does it matter that they are OOD?
    lcpo.agent.variant("lcpo-uniform", detector="everything"),
    # Mahalanobis distance of the whole observation, 12 per dimension (sigma^2), as in the paper.
    lcpo.agent.variant("lcpo-mhd", detector="mahalanobis-full", sigma=12**0.5),
    tabular_a2c.agent,
    ddqn.agent,
    sac.agent,
)

AGENTS: dict[str, Agent] = {agent.name: agent for agent in _ALL}
