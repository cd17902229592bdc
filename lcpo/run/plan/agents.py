"""Several agents on one environment: which are meant, and their jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lcpo import values as plain_values
from lcpo.agents import AGENTS, find_agent, split_names
from lcpo.errors import CannotServe, InputError
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import check_count, plan

ALL = "all"
"""Stands for all agents that are judged while they learn."""


def plan_agents(
    agents: str,
    env: str,
    *,
    training_steps: int | None = None,
    normalise: Any = None,
    note: Callable[[str], None] = lambda text: None,
    **shared: Any,
) -> list[Job]:
    """The jobs of several agents, "a,b,c"; `shared` goes to `plan` with each.

    "all" stands for every agent of the library that can serve the environment; `note` is told which
    cannot. Training steps are for the agents that train before they are judged, `normalise` for
    those that do not need the environment's own units; where there are none, `plan` says so.
    """
    named = split_names(agents)
    if not all(named) or len(set(named)) < len(named):
        plain_values.refuse("agents", agents, "names, separated by commas, and each once")
    chosen = [name for word in named for name in (_others(named) if word == ALL else [word])]
    before = [name for name in chosen if find_agent(name).training] or chosen
    scaled = [name for name in chosen if not find_agent(name).raw] or chosen
    jobs: list[Job] = []
    left_out: dict[str, str] = {}
    for name in chosen:
        steps = training_steps if name in before else None
        rule = normalise if name in scaled else None
        try:
            jobs += plan(name, env, training_steps=steps, normalise=rule, **shared)
        except CannotServe as error:
            if name in named:
                raise
            left_out[name] = str(error).removeprefix(f"{name}: ")
    if not jobs:
        raise InputError(f"no agent can serve environment {env!r}: {_reasons(left_out)}")
    check_count(len(jobs))
    if left_out:
        note(f"left out of {ALL!r}: {_reasons(left_out)}")
    return jobs


def _others(named: list[str]) -> list[str]:
    """What "all" stands for beside agents that are named: LCPO first, it is the reference.

    Prescient agents are not meant: they have seen the whole trace before they are judged.
    """
    online = [name for name, agent in AGENTS.items() if agent.training is None]
    return [name for name in sorted(online, key=lambda name: name != "lcpo") if name not in named]


def _reasons(left_out: dict[str, str]) -> str:
    """Each reason once, with the agents that have it."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        by_reason.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(names)} ({reason})" for reason, names in by_reason.items())
