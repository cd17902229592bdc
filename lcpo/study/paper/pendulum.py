"""What studies on the windy Pendulum share: their options, and every agent on every trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from lcpo.run.plan.agents import plan_agents
from lcpo.run.plan.job import Job
from lcpo.study.study import Options, listed


@dataclasses.dataclass(frozen=True)
class PendulumOptions(Options):
    """Options of such a study."""

    without: ClassVar[tuple[str, ...]] = ("envs",)

    traces: str = "1,2,3,4"
    """Contexts, separated by commas."""


def plan_pendulum(
    options: PendulumOptions,
    agents: Sequence[str],
    sweeps: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
    seeds: int = 5,
) -> list[Job]:
    """Every agent with every trace and seed; `sweeps`: by agent, values of its config.

    `seeds`: of each, at the paper's scale.
    """
    return [
        job
        for trace in listed("traces", options.traces)
        for agent in agents
        for job in plan_agents(
            agent,
            "pendulum",
            trace=trace,
            fraction=options.fraction,
            seeds=range(options.num_seeds(seeds)),
            published=options.published,
            name_setting=True,
            sweep=(sweeps or {}).get(agent, {}),
        )
    ]
