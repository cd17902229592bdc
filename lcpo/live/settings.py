"""The arguments of a learner, checked before it learns."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from lcpo import config as configs
from lcpo import values
from lcpo.agents import find_agent
from lcpo.agents import normalise as scaling
from lcpo.envs.base import Advance
from lcpo.errors import InputError
from lcpo.run.plan.check import check_program, check_spec
from lcpo.run.plan.plan import check_dict
from lcpo.run.store.policy_file import spec_to_json
from lcpo.types import Agent, AnyAgent, Spec


@dataclasses.dataclass(frozen=True)
class Settings:
    """All of a learner that never changes; `make` checks them."""

    agent_name: str
    agent: AnyAgent
    """With the normalisation of `rule`."""
    spec: Spec
    """Without promises: callers of `act` may give any context after any other."""
    config: Any
    seed: np.int32
    advance: Advance
    rule: scaling.Rule

    @classmethod
    def make(
        cls, agent: Any, spec: Any, config: Any, seed: Any, steps: Any, advance: Any, normalise: Any
    ) -> Settings:
        """Arguments as of `lcpo.Learner`, unchecked; InputError for invalid ones."""
        check_spec(spec)
        spec = spec._replace(contiguous_contexts=False, unit_steps=False)
        if advance not in ("step", "episode", "own"):
            values.refuse("advance", advance, "'step', 'episode' or 'own'")
        rule, own = scaling.read_rule(normalise), advance == "own"
        scaling.check_rule(rule, spec, own)
        plain = agent if isinstance(agent, Agent) else find_agent(agent)
        scaled = scaling.normalise(plain, rule, own)
        made = _make_config(scaled, config, steps)
        whole_seed = np.int32(values.whole("seed", seed, 0))
        check_program(scaled, made, spec)
        name = agent.name if isinstance(agent, Agent) else agent
        return cls(name, scaled, spec, made, whole_seed, advance, rule)

    def to_json(self) -> dict[str, Any]:
        """Plain values, by the names of `make`'s arguments."""
        return {
            "agent": self.agent_name,
            "config": configs.to_json(self.config),
            "spec": spec_to_json(self.spec),
            "seed": int(self.seed),
            "advance": self.advance,
            "normalise": scaling.to_json(self.rule),
        }


def _make_config(agent: AnyAgent, config: Any, steps: int | None) -> Any:
    """The agent's config, with every size that is a share of the steps."""
    if isinstance(config, agent.Config):
        config = configs.to_json(config)
    made = agent.config(**check_dict("config", config))
    if steps is not None:
        return configs.resolve(made, values.whole("steps", steps))
    shares = [field.name for field in dataclasses.fields(made) if field.metadata.get("share")]
    missing = [name for name in shares if getattr(made, name) is None]
    if missing:
        raise InputError(
            f"{', '.join(missing)} of agent {agent.name!r} depend on the steps to come: give "
            f"steps=, about how many, or config={{{missing[0]!r}: ...}}"
        )
    return made
