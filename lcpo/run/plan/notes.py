"""What a user should know of planned runs before they start, and when their results are shown."""

from __future__ import annotations

from collections.abc import Sequence

from lcpo.agents.presets import random_share
from lcpo.run.plan.job import Job, Setup

MOSTLY = 0.5
"""Runs with a larger share of random actions say so."""


def notes(jobs: Sequence[Job]) -> list[str]:
    """Of the environment, which all jobs share, and of each agent."""
    return [*Setup(jobs[0]).notes, *exploration_notes(jobs)]


def exploration_notes(jobs: Sequence[Job]) -> list[str]:
    """A line for each agent most of whose actions are random, however well it learns."""
    found = {}
    for job in jobs:
        steps = job.training["steps"] if job.training else job.steps
        share = random_share(job.config, steps)
        if share > MOSTLY:
            phases = [
                f"{name} = {job.config[name]:,}"
                for name in ("random_steps", "epsilon_steps")
                if job.config.get(name)
            ]
            found[job.stem] = (
                f"{job.agent} acts at random in {share:.0%} of its {steps:,} steps "
                f"({', '.join(phases)}): give it more steps, or fewer of those (None: a share of "
                "the run)"
            )
    return list(dict.fromkeys(found.values()))
