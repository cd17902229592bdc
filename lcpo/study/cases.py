"""The cases of a study, each an agent with values of its config, and their jobs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lcpo.agents import find_agent
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.run.plan.agents import plan_agents, read_agents
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import check_count
from lcpo.study.study import Options, listed


class Case(NamedTuple):
    """An agent with its values in a study."""

    agent: str
    """A name, or a name with settings: lcpo[sigma=2]."""
    variant: str = ""
    """Its name in the paper's table and in the names of its runs."""
    values: Mapping[str, Any] = {}
    """Config values."""
    sweep: Mapping[str, Sequence[Any]] = {}
    """Config values of a sweep; every combination runs."""
    by_trace: Callable[[str], Mapping[str, Any]] = lambda trace: {}
    """Config values that depend on the trace."""

    @property
    def title(self) -> str:
        return self.variant or self.agent

    def points(self) -> dict[str, dict[str, Any]]:
        """The points of its sweep, by their names such as "c_anchor=0.001-value_steps=5"."""
        values = itertools.product(*self.sweep.values())
        points = [dict(zip(self.sweep, point, strict=True)) for point in values]
        return {"-".join(f"{k}={v}" for k, v in point.items()): point for point in points}


def agent_cases(text: str) -> list[Case]:
    """A case for each agent, "a,b,c"."""
    return [Case(name) for name in listed("agents", text)]


def agent_case(name: str) -> Case:
    """An agent that a study does not list, perhaps with settings: my_module:agent[gamma=0.9]."""
    (chosen,) = read_agents(name)
    find_agent(chosen.name)  # raises if there is none
    return Case(chosen.name, sweep={field: (value,) for field, value in chosen.config.items()})


def choose(cases: Sequence[Case], text: str | None) -> list[Case]:
    """The cases whose titles are asked for, "a,b,c"; None: all."""
    known = {case.title: case for case in cases}
    chosen = list(known) if text is None else listed("agents", text)
    for name in chosen:
        if name not in known:
            raise InputError(unknown("part", name, known))
    return [known[name] for name in chosen]


def plan_cases(
    options: Options,
    cases: Sequence[Case],
    envs: Sequence[str],
    traces: Sequence[str | None],
    *,
    seeds: int | Callable[[Case], int],
    steps: int | None = None,
    marked: bool = False,
) -> list[Job]:
    """Every case in every environment with every trace and seed; runs of a trace are consecutive.

    `seeds`: of each, or of a case, at the paper's scale. `marked`: whether the names of runs as
    published say so.
    """
    jobs = [
        job
        for env in envs
        for trace in traces
        for case in cases
        for job in plan_agents(
            case.agent,
            env,
            trace=trace,
            steps=steps,
            fraction=options.fraction,
            seeds=range(options.num_seeds(seeds(case) if callable(seeds) else seeds)),
            overrides={**case.values, **case.by_trace(trace or "")},
            sweep=case.sweep,
            published=options.published,
            variant=case.variant,
            name_setting=marked,
            check=options.check,
        )
    ]
    check_count(len(jobs))
    return jobs
