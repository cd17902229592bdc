"""The arguments of a learner, checked before it learns."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

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


class Late(NamedTuple):
    """How long a decision waits for its reward, and what happens then."""

    decisions: int | None
    """Further decisions of its stream; None: the stream's next decision is refused."""
    seconds: float | None
    reward: float | None
    """The reward of a decision whose own did not come; None: the step is cut out."""

    @classmethod
    def make(cls, late: Any, late_seconds: Any, missing: Any) -> Late:
        """Arguments as of `lcpo.Learner`."""
        if late is None and (late_seconds is not None or missing != "cut"):
            raise InputError(
                "late_seconds and missing need late=, the number of further decisions of a stream "
                "that a reward may take"
            )
        decisions = None if late is None else values.whole("late", late, 0)
        seconds = None if late_seconds is None else values.number("late_seconds", late_seconds, 0.0)
        if isinstance(missing, str):
            reward = None if missing == "cut" else values.refuse("missing", missing, _MISSING)
        else:
            reward = values.number("missing", missing)
        return cls(decisions, seconds, reward)

    def to_json(self) -> dict[str, Any]:
        """By the names of `make`'s arguments."""
        missing = "cut" if self.reward is None else self.reward
        return {"late": self.decisions, "late_seconds": self.seconds, "missing": missing}


_MISSING = "'cut', or a number: the reward of decisions whose own did not come"


@dataclasses.dataclass(frozen=True)
class Settings:
    """All of a learner that never changes; `make` checks them."""

    agent_name: str
    agent: AnyAgent
    """With the normalisation of `rule`."""
    spec: Spec
    """Without promises: callers of `act` may give any context after any other. Of one world: a
    rollout is a sequence of steps, whose streams it does not know."""
    config: Any
    seed: np.int32
    advance: Advance
    rule: scaling.Rule
    plain_agent: AnyAgent
    """Without that normalisation."""
    late: Late

    @classmethod
    def make(
        cls, agent: Any, spec: Any, config: Any = None, seed: Any = 0, steps: Any = None,
        advance: Any = "step", normalise: Any = None, late: Any = None, late_seconds: Any = None,
        missing: Any = "cut",
    ) -> Settings:  # fmt: skip
        """Arguments as of `lcpo.Learner`, unchecked; InputError for invalid ones."""
        check_spec(spec)
        num_worlds, waits = spec.num_worlds, Late.make(late, late_seconds, missing)
        spec = spec._replace(contiguous_contexts=False, unit_steps=False, num_worlds=1)
        if advance not in ("step", "episode", "own"):
            values.refuse("advance", advance, "'step', 'episode' or 'own'")
        rule, own = scaling.read_rule(normalise), advance == "own"
        scaling.check_rule(rule, spec, own)
        plain = agent if isinstance(agent, Agent) else find_agent(agent)
        scaled = scaling.normalise(plain, rule, own)
        made = _make_config(scaled, config, steps)
        if num_worlds > 1:  # as many steps per update as if each world were a stream of its own
            made = dataclasses.replace(made, rollout_length=num_worlds * made.rollout_length)
        whole_seed = np.int32(values.whole("seed", seed, 0))
        check_program(scaled, made, spec)
        name = agent.name if isinstance(agent, Agent) else agent
        return cls(name, scaled, spec, made, whole_seed, advance, rule, plain, waits)

    def to_json(self) -> dict[str, Any]:
        """Plain values, by the names of `make`'s arguments."""
        return {
            "agent": self.agent_name,
            "config": configs.to_json(self.config),
            "spec": spec_to_json(self.spec),
            "seed": int(self.seed),
            "advance": self.advance,
            "normalise": scaling.to_json(self.rule),
            **self.late.to_json(),
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
            f"{', '.join(missing)} of agent {agent.name!r} needs the number of steps to come: give "
            f"steps=, about how many, or config={{{missing[0]!r}: ...}}"
        )
    return made
