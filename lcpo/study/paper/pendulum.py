"""What studies on the windy Pendulum share: their options, and every agent on every trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from lcpo.agents import find_agent
from lcpo.run.plan.agents import plan_agents
from lcpo.run.plan.job import Job
from lcpo.study.study import Options, names

SHORT = 2_000_000
"""Shorter runs explore for a tenth of their steps: the paper's 200,000 would be most of them."""


@dataclasses.dataclass(frozen=True)
class PendulumOptions(Options):
    """Options of such a study."""

    traces: str = "3,4"
    """Contexts, separated by commas."""
    seeds: int = 5
    """Seeds of each agent."""
    steps: int | None = None
    """Interactions of each run, the first ones of the trace; default: all of it."""


def plan_pendulum(
    options: PendulumOptions,
    agents: Sequence[str],
    sweeps: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
) -> list[Job]:
    """Every agent with every trace and seed; `sweeps`: by agent, values of its config."""
    return [
        job
        for trace in names(options.traces)
        for agent in agents
        for job in plan_agents(
            agent,
            "pendulum",
            trace=trace,
            steps=options.steps,
            seeds=range(options.seeds),
            published=options.published,
            label="published" if options.published else "",
            overrides=random_phase(agent, options.steps),
            sweep=(sweeps or {}).get(agent, {}),
        )
    ]


def random_phase(agent: str, steps: int | None) -> dict[str, Any]:
    """Config values of an agent in runs of so many steps; None: of the paper's."""
    explores = hasattr(find_agent(agent).Config, "random_steps")
    if not explores or steps is None or steps >= SHORT:
        return {}
    return {"random_steps": steps // 10}
