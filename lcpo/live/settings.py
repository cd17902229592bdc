"""What a learner is made with, checked before any work."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from lcpo import config as configs
from lcpo import values
from lcpo.errors import InputError
from lcpo.run.plan.check import check_spec
from lcpo.types import AnyAgent, Spec


def plain_spec(spec: Any) -> Spec:
    """The spec without promises: whoever calls `act` may give any context after any other."""

    def fail(rule: str) -> None:
        raise InputError(rule)

    check_spec(spec, fail)
    return spec._replace(contiguous_contexts=False, unit_steps=False)


def check_values(config: Any) -> dict[str, Any]:
    """Names and values; none where there is None."""
    config = {} if config is None else config
    is_named = isinstance(config, Mapping) and all(isinstance(name, str) for name in config)
    return (
        dict(config) if is_named else values.refuse("config", config, "a dict of names and values")
    )


def make_config(agent: AnyAgent, config: Any, steps: int | None) -> Any:
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
