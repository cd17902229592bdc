"""Gradient steps of a run, as a share of those that its agent takes in the paper.

A shortened run compares agents only where each has about the same share, whether it learns from its
newest rollout or from replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lcpo import config as configs
from lcpo.agents import AGENTS, presets
from lcpo.run.plan.job import Job


class Counts(NamedTuple):
    """How often gradients are applied; a share, where one run is divided by another."""

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


def share(job: Job, steps: int, paper_steps: int) -> Counts | None:
    """Of `steps` interactions of a job to `paper_steps` with the values of the paper.

    None of an agent that does not learn, or is not part of this library.
    """
    if "gamma" not in job.config or job.agent not in AGENTS:
        return None
    agent = AGENTS[job.agent]
    paper = agent.config(**presets.settings(agent, job.env))
    mine, theirs = count(job.config, steps), count(configs.to_json(paper), paper_steps)
    model = None if mine.model is None or not theirs.model else mine.model / theirs.model
    return Counts(mine.policy / theirs.policy, model)
