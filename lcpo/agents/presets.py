"""Config values that depend on the environment (`lcpo.defaults`) and on the length of the run.

Values of an environment have one order of precedence:

    the agent's defaults  <  (agent, env)  <  the variant's  <  (variant, env)  <  the user's

A run that plays its trace 20 times as fast must explore for a twentieth of the steps, and remember
a twentieth of them (`shorten`). Rollouts, batches, gradient steps and rates stay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeVar

from lcpo import config as configs
from lcpo import defaults
from lcpo.defaults import Values
from lcpo.types import AnyAgent

C = TypeVar("C")

WHOLE = Fraction(1)
FEWER = (
    "buffer_size", "epsilon_steps", "forget", "min_steps", "model_memory", "permanent_period",
    "random_steps", "threshold", "train_every", "train_until", "window",
)  # fmt: skip
"""Counted in interactions or in updates, or growing with them (MBCD's evidence of a change)."""
AT_LEAST = {"permanent_period": "batch_size"}
"""A pass over the transitions of a period needs at least one batch."""
FASTER = ("averaging_rate",)
"""A share per update: 1 / rate is counted in updates."""


def settings(agent: AnyAgent, env: str, env_class: Any = None) -> Values:
    """Config values of `agent` on `env`; `env_class`: of an environment with its own defaults."""
    inherited = settings(agent.parent, env, env_class) if agent.parent else {}
    given = defaults.of(env, env_class).agents.get(agent.name, {})
    return {**inherited, **agent.preset, **given}


def published(agent: AnyAgent, env: str, env_class: Any = None) -> Values:
    """Config values of the published code, with all its faults."""
    inherited = published(agent.parent, env, env_class) if agent.parent else {}
    faults = configs.published_faults(agent.Config)
    given = defaults.of(env, env_class).published.get(agent.name, {})
    return {**inherited, **faults, **given}


def shorten(config: C, fraction: Fraction) -> C:
    """The config for a run of a fraction of the length that its values are for."""
    if fraction == 1:
        return config
    values: dict[str, Any] = {}
    for field in dataclasses.fields(config):  # pyright: ignore[reportArgumentType]
        value = getattr(config, field.name)
        if field.name in FEWER and value:
            least = max(1, field.metadata.get("low") or 0)
            if field.name in AT_LEAST:
                least = min(value, getattr(config, AT_LEAST[field.name]))
            if isinstance(value, tuple):
                values[field.name] = tuple(max(least, round(x * fraction)) for x in value)
            else:
                values[field.name] = type(value)(max(least, round(value * fraction)))
        elif field.name in FASTER:
            values[field.name] = min(1.0, float(value / fraction))
    return dataclasses.replace(config, **values)  # pyright: ignore[reportArgumentType]


def random_share(config: Mapping[str, Any], steps: int) -> float:
    """The share of this many interactions whose actions are uniformly random."""
    first = min(config.get("random_steps") or 0, steps)
    fall = config.get("epsilon_steps") or 0
    falling = min(fall, steps - first)  # epsilon goes from 1 to 1 - falling / fall
    return (first + (falling * (1.0 - falling / (2.0 * fall)) if fall else 0.0)) / steps
