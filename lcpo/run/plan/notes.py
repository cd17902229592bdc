"""What a user should know about planned runs before they start, and with their results."""

from __future__ import annotations

from collections.abc import Sequence

from lcpo.agents.presets import random_share
from lcpo.run.plan.job import Job, Setup

MOSTLY = 0.5
"""Runs with a larger share of random actions are reported."""


def notes(jobs: Sequence[Job]) -> list[str]:
    """Notes on the environment, which all jobs share, and on each agent."""
    return [*Setup(jobs[0]).notes, *exploration_notes(jobs)]


def exploration_notes(jobs: Sequence[Job]) -> list[str]:
    """A line for each agent most of whose actions are random."""
    found = {}
    for job in jobs:
        steps = job.training["steps"] if job.training else job.steps
        share = random_share(job.config, steps)
        if share > MOSTLY:
            given = {name: job.config.get(name) for name in ("random_steps", "epsilon_steps")}
            counted = ", ".join(f"{name} = {count:,}" for name, count in given.items() if count)
            found[job.stem] = (
                f"{job.agent} acts at random in {share:.0%} of its {steps:,} steps ({counted}): "
                "run more steps, or reduce that number (None: a share of the run)"
            )
    return list(dict.fromkeys(found.values()))
