"""What a learner is made with, checked before any work."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from lcpo import config as configs
from lcpo import values
from lcpo.agents import find_agent
from lcpo.agents import normalise as scaling
from lcpo.envs.base import Advance
from lcpo.errors import InputError
from lcpo.run.plan.check import check_program, check_spec
from lcpo.run.store.policy_file import spec_to_json
from lcpo.types import Agent, AnyAgent, Spec


@dataclasses.dataclass(frozen=True)
class Settings:
    """All of a learner that never changes; `make` checks them."""

    agent_name: str
    agent: AnyAgent
    """With the normalisation of `rule`."""
    spec: Spec
    """Without promises: whoever calls `act` may give any context after any other."""
    config: Any
    seed: np.int32
    advance: Advance
    rule: scaling.Rule

    @classmethod
    def make(
        cls,
        agent: str | AnyAgent,
        spec: Spec,
        config: Mapping[str, Any] | Any = None,
        seed: int = 0,
        *,
        steps: int | None = None,
        advance: Advance = "step",
        normalise: Any = None,
    ) -> Settings:
        """Arguments as of `lcpo.Learner`; InputError where one of them cannot be used."""
        plain_spec = _plain_spec(spec)
        if advance not in ("step", "episode", "own"):
            values.refuse("advance", advance, "'step', 'episode' or 'own'")
        rule, own = scaling.read_rule(normalise), advance == "own"
        scaling.check_rule(rule, plain_spec, own)
        plain = agent if isinstance(agent, Agent) else find_agent(agent)
        scaled = scaling.normalise(plain, rule, own)
        made = _make_config(scaled, config, steps)
        whole_seed = np.int32(values.whole("seed", seed, 0))
        check_program(scaled, made, plain_spec)
        name = agent.name if isinstance(agent, Agent) else agent
        return cls(name, scaled, plain_spec, made, whole_seed, advance, rule)

    def to_json(self) -> dict[str, Any]:
        """Plain values, the names of `make`'s arguments."""
        return {
            "agent": self.agent_name,
            "config": configs.to_json(self.config),
            "spec": spec_to_json(self.spec),
            "seed": int(self.seed),
            "advance": self.advance,
            "normalise": scaling.to_json(self.rule),
        }


def check_values(config: Any) -> dict[str, Any]:
    """Names and values; none where there is None."""
    config = {} if config is None else config
    is_named = isinstance(config, Mapping) and all(isinstance(name, str) for name in config)
    return (
        dict(config) if is_named else values.refuse("config", config, "a dict of names and values")
    )


def _plain_spec(spec: Any) -> Spec:
    def fail(rule: str) -> None:
        raise InputError(rule)

    check_spec(spec, fail)
    return spec._replace(contiguous_contexts=False, unit_steps=False)


def _make_config(agent: AnyAgent, config: Any, steps: int | None) -> Any:
    """The agent's config, with every size that stands for a share of the steps."""
    if isinstance(config, agent.Config):
        config = configs.to_json(config)
    made = agent.config(**check_values(config))
    if steps is not None:
        return configs.resolve(made, values.whole("steps", steps))
    fields = [field for field in dataclasses.fields(made) if field.metadata.get("share")]
    missing = [field.name for field in fields if getattr(made, field.name) is None]
    if missing:
        raise InputError(
            f"{', '.join(missing)} of agent {agent.name!r} depend on the steps to come: give "
            f"steps=, about how many, or config={{{missing[0]!r}: ...}}"
        )
    return made
