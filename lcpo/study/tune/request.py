"""What a user asks of a search, checked and complete."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lcpo import config as configs
from lcpo import values
from lcpo.agents import find_agent, presets
from lcpo.contexts import TraceRef
from lcpo.errors import InputError
from lcpo.run.plan.agents import Agents, Choice, read_agents
from lcpo.run.plan.job import Job, find_env
from lcpo.run.plan.plan import check_dict, check_seeds, plan
from lcpo.study.measure import compare as rows
from lcpo.study.tune import judged, sampler, space
from lcpo.study.tune import search as searches
from lcpo.study.tune.history import Trial
from lcpo.study.tune.search import Limits, Request

TRIALS = 40
"""Trials of a search without a limit of its own."""
FIRST_JUDGE = 1000
"""The first seed of the judging runs where none is given: the search does not use it."""
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}


def limits(trials: int | None, budget: str | float | None) -> Limits:
    """When a search ends, from what a user gave."""
    if trials is not None:
        trials = values.whole("trials", trials)
    if trials is None and budget is None:
        trials = TRIALS
    return Limits(trials, None if budget is None else read_budget(budget))


def read_budget(budget: str | float) -> float:
    """Seconds, from a number of them or a text such as 90s, 10min or 2h."""
    if isinstance(budget, str):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h)", budget.strip())
        if found is None:
            values.refuse("budget", budget, "a time such as 90s, 10min or 2h")
        budget = float(found[1]) * UNITS[found[2]]
    seconds = values.number("budget", budget, 0.0)
    if not seconds:
        values.refuse("budget", budget, "more than 0 seconds")
    return seconds


def make_request(
    agents: Agents,
    env: str,
    *,
    traces: Sequence[Any],
    judge_traces: Sequence[Any] | None,
    steps: int | None,
    seeds: int | Iterable[int],
    judge_seeds: int | Iterable[int],
    search: str | Mapping[str, Any] | None,
    beside: Agents,
    warmup: int | None,
    seed: int,
    batch: int,
    scale: float | None,
    env_config: Mapping[str, Any] | None,
    normalise: Any,
) -> Request:
    """What a user asked for, checked and complete."""
    sampler.check_installed()
    chosen, dimensions = read_agents(agents), space.read_search(search)
    found = [find_agent(one.name) for one in chosen]
    for one in found:
        if one.training is not None:
            raise InputError(f"agent {one.name!r} trains first: search one that learns as it runs")
    space.check_chosen(found, dimensions)
    refs = tuple(None if x is None else TraceRef.parse(x) for x in traces)
    judge = refs if judge_traces is None else tuple(TraceRef.parse(x) for x in judge_traces)
    steps = _steps(chosen[0], env, refs[0], steps, scale, env_config)
    spaces = [
        space.space_of(a, one.config, dimensions, steps, presets.settings(a, env, find_env(env)))
        for a, one in zip(found, chosen, strict=True)
    ]
    request = Request(
        agents=tuple(chosen),
        spaces=tuple(spaces),
        env=env,
        env_config=dict(check_dict("env_config", env_config)),
        traces=refs,
        judge_traces=judge,
        steps=steps,
        seeds=tuple(check_seeds(seeds)),
        judge_seeds=_judge_seeds(judge_seeds),
        warmup=rows.default_warmup(steps, refs[0]) if warmup is None else warmup,
        scale=scale,
        normalise=normalise,
        beside=tuple(read_agents(beside)) if beside else (),
        seed=values.whole("seed", seed, 0),
        batch=values.whole("batch", batch),
    )
    # As its file has it, where tuples are lists: otherwise a resumed search would be another one.
    request = searches.from_json(json.loads(json.dumps(searches.to_json(request))))
    check(request)
    return request


def _steps(
    agent: Choice, env: str, trace: TraceRef | None, steps: int | None, scale: Any, env_config: Any
) -> int:
    """The length of a run: given, or the trace's."""
    if steps is not None:
        return values.whole("steps", steps)
    job = plan(
        agent.name, env, trace=trace, seeds=[0], scale=scale, overrides=agent.config,
        env_overrides=env_config, check=False,
    )[0]  # fmt: skip
    return job.sized_for or job.steps


def _judge_seeds(seeds: int | Iterable[int]) -> tuple[int, ...]:
    """Those that were given, or as many as were asked for, from `FIRST_JUDGE` on."""
    found = check_seeds(seeds)
    is_count = values.is_number(values.plain(seeds))
    return tuple(FIRST_JUDGE + x for x in found) if is_count else tuple(found)


def check(request: Request) -> None:
    """Raise InputError unless every run can be planned, and the judging data are new."""
    _check_combinations(request)
    jobs = judged.first_jobs(request)
    defaults = Trial(0, 0, {})
    seen = {_data(job) for job in searches.trial_jobs(request, defaults, len(request.levels) - 1)}
    for job in jobs:
        if _data(job) in seen:
            where = "" if job.trace is None else f" on trace {job.trace}"
            raise InputError(
                f"the search uses seed {job.seed}{where}, too: judge on other seeds "
                "(--judge-seeds) or traces (--judge-traces)"
            )
    rows.check_warmup(request.warmup, jobs)
    for number, found in enumerate(request.spaces):
        for end in (0, -1):
            settings = {name: _end(one, end) for name, one in found.items()}
            trial = Trial(0, number, settings)
            searches.trial_jobs(request, trial, 0, check=True)


def _data(job: Job) -> tuple[str | None, int]:
    """What a run meets: a file by its content, for its path can be written in several ways."""
    return job.trace_digest or job.trace_name, job.seed


def _end(found: space.Dimension, end: int) -> Any:
    return _values(found)[end]


def _values(found: space.Dimension) -> Sequence[Any]:
    """Those to check: the ends of a range, or all choices."""
    return found if isinstance(found, space.Range) else found.values


def _check_combinations(request: Request) -> None:
    """Raise InputError if an agent refuses two of the searched values together.

    A trial that draws such values could never run, and the search would stop there for good.
    """
    spec = searches.make_env(request).spec
    for number, (agent, found) in enumerate(zip(request.found_agents, request.spaces, strict=True)):
        if agent.check is None:
            continue
        first = {**request.defaults(number), **{name: _end(x, 0) for name, x in found.items()}}
        for names in itertools.combinations(found, 2):
            for drawn in itertools.product(*(_values(found[name]) for name in names)):
                pair = dict(zip(names, drawn, strict=True))
                try:
                    agent.check(configs.make(agent.Config, {**first, **pair}), spec)
                except InputError as error:
                    both = " and ".join(f"{k} = {space.shown(v)}" for k, v in pair.items())
                    raise InputError(
                        f"the search includes {both}, which do not work together: {error}; leave "
                        "one of them out (--search)"
                    ) from error
