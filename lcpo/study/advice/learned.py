"""Did a learner learn? Warnings for one that ends below a baseline, or makes few updates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lcpo.agents import constant, find_agent
from lcpo.run.plan.job import Job
from lcpo.run.store import record as records
from lcpo.run.store.results import Result
from lcpo.study.measure.compare import Summary

FEW = 500
"""A run with fewer updates is reported."""
MOSTLY = 0.9
"""A constraint that is active in a larger share of the updates may be what prevents learning."""
SHORTEST = 20
"""Rollouts shorter than this are not suggested."""
BASELINES = (constant.agent, constant.random)


def learning_warnings(summary: Summary, finished: Sequence[Result]) -> list[str]:
    """A line for each learner that ended below `constant` or `random`, or made few updates."""
    first: dict[str, Result] = {}
    for result in finished:
        if "rollout_length" in result.job.config:  # else it is imported
            first.setdefault(result.job.label, result)
    agents = {label: find_agent(result.job.agent) for label, result in first.items()}
    ends = {row.label: row.after_warmup.mean for row in summary.rows}
    baselines = [name for name, agent in agents.items() if agent.root in BASELINES]
    best = max(baselines, key=lambda name: np.nan_to_num(ends[name], nan=-np.inf), default=None)
    found = []
    for label, result in first.items():
        if agents[label].raw or result.job.training:
            continue
        updates = int(result.record["updates"].sum()) * _steps_per_rollout(result.job.config)
        active, texts = records.activity(result.record), []
        if best is not None and ends[label] < ends[best]:
            texts.append(
                f"its return after warm-up ({ends[label]:.4g}) is below that of {best} "
                f"({ends[best]:.4g}), which learns nothing"
            )
        if updates < FEW:
            texts.append(f"it makes only {updates:,} updates ({FEW} are a minimum)")
        if not texts:
            continue
        if active is not None and active > MOSTLY:
            texts.append(f"the constraint is active in {100 * active:.1f} % of them")
        advice = f"Try {', '.join(_suggestions(result.job, updates, active))}"
        if best is None:
            command = f"lcpo compare --agents {result.job.agent},constant:0,random"
            advice += f". Compare it with agents that do not learn: {command}"
        found.append(f"{label}: {', and '.join(texts)}. {advice}")
    return found


def _steps_per_rollout(config: Mapping[str, Any]) -> int:
    """Gradient steps of the policy after each rollout."""
    passes = config.get("passes", 1) * config.get("minibatches", 1)
    return passes * config.get("updates_per_rollout", 1)


def _suggestions(job: Job, updates: int, active: float | None) -> list[str]:
    """What may help, of the fields that the agent has."""
    config, found = job.config, {}
    length = config["rollout_length"]
    found["rollout_length"] = max(SHORTEST, 10 * round(length / 40))
    if active is not None and active > MOSTLY and "c_anchor" in config:
        found["c_anchor"] = 10 * config["c_anchor"]
    for name in ("value_steps", "updates_per_rollout"):
        if name in config:
            found[name] = max(10, 2 * config[name])
    if found["rollout_length"] >= length:
        del found["rollout_length"]
    needed = max(2, math.ceil(FEW / updates)) * job.steps
    changes = [f"{name} = {value:g} (now {config[name]:g})" for name, value in found.items()]
    return [*changes, f"or at least {needed:,} steps"]
