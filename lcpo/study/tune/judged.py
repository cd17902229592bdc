"""What the search has found, on seeds and traces that it did not see."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lcpo.run.plan.agents import Choice, plan_traces
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import plan
from lcpo.run.store.results import Result
from lcpo.study.measure.stats import Estimate
from lcpo.study.measure.traces import summarise_traces
from lcpo.study.tune import ladder
from lcpo.study.tune.history import History, Trial
from lcpo.study.tune.search import Request, of_agent
from lcpo.values import file_name

TUNED = "tuned"
"""The variant of the found settings, in the names of runs."""


class Found(NamedTuple):
    """The best trial of each agent that has one, and the best of all."""

    best: Trial
    each: tuple[Trial, ...]


def find(request: Request, history: History) -> Found:
    """By the returns of the search alone."""
    trials, count = {t.number: t for t in history.trials}, len(request.levels)
    best = trials[ladder.ranking(history, count)[0]]
    firsts = [ladder.ranking(history, count, agent) for agent in range(len(request.agents))]
    return Found(best, tuple(trials[first[0]] for first in firsts if first))


def best_constant(history: History) -> str | None:
    """The constant action with the highest return on the search data."""
    found = history.baselines
    return max(found, key=lambda name: found[name]) if found else None


def first_jobs(request: Request, constant: str | None = None, check: bool = True) -> list[Job]:
    """The judging runs that do not depend on the search, and those of a constant action."""
    others = [*request.agents, *([Choice(constant)] if constant else []), Choice("random")]
    named = {(one.name, str(dict(one.config))): one for one in (*others, *request.beside)}
    return plan_traces(
        named.values(), request.env, traces=request.judge_traces, seeds=request.judge_seeds,
        check=check, **request.shared(),
    )  # fmt: skip


def jobs(request: Request, history: History) -> list[Job]:
    """All judging runs: found settings first, then defaults and baselines."""
    found: list[Job] = []
    for trial in find(request, history).each:
        if trial.settings:
            agent = request.agents[trial.agent]
            variant = label_of(request, trial).removeprefix(f"{agent.name}-")
            for trace in request.judge_traces:
                found += plan(
                    agent.name, request.env, trace=trace, seeds=request.judge_seeds,
                    overrides=config_of(request, trial), variant=variant, check=False,
                    **of_agent(agent, request),
                )  # fmt: skip
    return [*found, *first_jobs(request, best_constant(history), False)]


def label_of(request: Request, trial: Trial) -> str:
    """The name of a trial in the table: found settings, or the agent's defaults."""
    agent = request.agents[trial.agent]
    if trial.settings:
        # With its number: a search that is continued may find another trial, with runs of its own.
        return f"{agent_label(request, agent)}-{TUNED}-{trial.number}"
    return default_label(agent)


def agent_label(request: Request, agent: Choice) -> str:
    """The name of a searched agent, with what the user has fixed if its name alone is not unique.

    Otherwise the found settings of `ddqn` and of `ddqn[batch_size=128]` would have the same runs.
    """
    is_alone = sum(one.name == agent.name for one in request.agents) == 1
    return agent.name if is_alone else default_label(agent)


def default_label(agent: Choice) -> str:
    """The name of an agent's defaults in the table."""
    point = [f"{name}={file_name(f'{value}')}" for name, value in agent.config.items()]
    return "-".join([agent.name, *point])


class Against(NamedTuple):
    """The found settings beside another agent."""

    other: str
    difference: Estimate
    improvement: Estimate | None

    @property
    def verdict(self) -> str:
        """Whether the interval of the difference excludes 0."""
        low, high = self.difference.low, self.difference.high
        if math.isnan(low):
            return "too few seeds for an interval"
        if low > 0.0:
            return "better"
        return "worse" if high < 0.0 else "not significantly different"


def against(results: Sequence[Result], warmup: int, best: str) -> list[Against]:
    """The difference of the found settings from every other agent, paired by trace and seed."""
    labels = dict.fromkeys(r.job.label for r in results)
    found = []
    for other in labels:
        if other == best or not any(
            r.status == "finished" for r in results if r.job.label == other
        ):
            continue
        rows = summarise_traces(results, warmup, reference=other).rows
        row = next(row for row in rows if row.label == best)
        if row.difference is not None:
            found.append(Against(other, row.difference, row.improvement))
    return found


def config_of(request: Request, trial: Trial) -> Mapping[str, Any]:
    """All settings of a trial that differ from the defaults of the agent's name."""
    return {**request.agents[trial.agent].config, **trial.settings}
