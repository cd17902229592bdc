"""Gradient steps of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Counts(NamedTuple):
    """How often gradients are applied."""

    policy: float
    model: float | None
    """Of a learned model of the environment; None where there is none."""


def count(config: Mapping[str, Any], steps: int) -> Counts:
    """Of a run of so many interactions: updates, times the gradient steps in each.

    MBPO trains its model after each rollout, MBCD every so many interactions of a context: those of
    its last stage, which nearly all of a run is in.
    """
    updates = steps / config["rollout_length"]
    parts = config.get("minibatches", 1) * config.get("passes", 1)
    policy = updates * config.get("updates_per_rollout", 1) * parts
    if "model_batches" not in config:
        return Counts(policy, None)
    stages = config.get("train_every")
    trainings = steps / stages[-1] if stages else updates
    return Counts(policy, trainings * config["model_passes"] * config["model_batches"])
