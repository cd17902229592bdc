"""What agents count in interactions, and how it changes where a run is shorter than the paper's.

A run that plays its trace 20 times as fast must explore for a twentieth of the steps, and remember
a twentieth of them. What an update is made of stays: rollouts, batches, numbers of steps, rates.
Phases of a run are a share of it unless they are given (`config.resolve`); `random_share` tells how
much of a run they leave to chance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeVar

C = TypeVar("C")

WHOLE = Fraction(1)
FEWER = (
    "buffer_size", "epsilon_steps", "forget", "min_steps", "model_memory", "permanent_period",
    "random_steps", "threshold", "train_every", "train_until", "window",
)  # fmt: skip
"""Counted in interactions or in updates, or growing with them (MBCD's evidence of a change)."""
AT_LEAST = {"permanent_period": "batch_size"}
"""A pass over the transitions of a period needs a batch of them."""
FASTER = ("averaging_rate",)
"""A share per update: 1 / rate is counted in updates."""


def shorten(config: C, fraction: Fraction) -> C:
    """The config for a run in a fraction of the time that its values are for."""
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
    """Share of so many interactions whose actions are uniformly random, whatever is learnt."""
    first = min(config.get("random_steps") or 0, steps)
    fall = config.get("epsilon_steps") or 0
    falling = min(fall, steps - first)  # epsilon goes from 1 to 1 - falling / fall
    return (first + (falling * (1.0 - falling / (2.0 * fall)) if fall else 0.0)) / steps
