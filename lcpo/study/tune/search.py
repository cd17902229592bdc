"""A search as a value: what was asked for, its file, and the runs of each round.

OUT/tune.json has the request and the history. OUT/search holds the runs of the trials, and OUT
itself, a folder of runs like any other, those that judge what was found.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lcpo import config as configs
from lcpo.agents import find_agent, presets
from lcpo.contexts import TraceRef
from lcpo.envs.base import AnyEnv, is_host
from lcpo.errors import InputError
from lcpo.run.plan.agents import Choice, plan_agents
from lcpo.run.plan.job import Job, Setup, find_env, outside
from lcpo.run.plan.plan import plan
from lcpo.run.store import checkpoint
from lcpo.run.store.files import load_document, save_document
from lcpo.run.store.layout import check_links, run_files
from lcpo.run.store.record import Record
from lcpo.run.store.results import Result
from lcpo.study.measure.compare import run_return
from lcpo.study.tune import history as histories
from lcpo.study.tune import ladder, sampler, space
from lcpo.study.tune.history import Entry, History, Round, Scores, Trial
from lcpo.study.tune.ladder import Level
from lcpo.study.tune.space import Space
from lcpo.types import AnyAgent

SCHEMA = 1
MOST_CONSTANTS = 32
"""If there are more combinations of actions, a constant action is the same in each dimension."""
Pair = tuple[TraceRef | None, int]
"""A trace and a seed."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """When a search ends: at the first of these."""

    trials: int | None = None
    seconds: float | None = None
    """Of search and judging together."""


@dataclasses.dataclass(frozen=True)
class Request:
    """What is searched, and on which data."""

    agents: tuple[Choice, ...]
    """With the settings that the user has fixed."""
    spaces: tuple[Space, ...]
    """Of each agent."""
    env: str
    env_config: Mapping[str, Any]
    traces: tuple[TraceRef | None, ...]
    judge_traces: tuple[TraceRef | None, ...]
    steps: int
    seeds: tuple[int, ...]
    judge_seeds: tuple[int, ...]
    warmup: int
    scale: float | None
    normalise: Any
    beside: tuple[Choice, ...]
    """Other agents of the judging runs."""
    seed: int
    """Of the search."""
    batch: int
    """New trials per round."""

    @property
    def pairs(self) -> list[Pair]:
        """The data of the search: the first seed on each trace, then the second one, ..."""
        return [(trace, seed) for seed in self.seeds for trace in self.traces]

    @property
    def levels(self) -> tuple[Level, ...]:
        return ladder.levels(self.steps, len(self.pairs), _longest_update(self))

    def warmup_on(self, level: Level) -> int:
        """Steps left out of the returns on a level: at most half of a short run."""
        return self.warmup if level.steps == self.steps else min(self.warmup, level.steps // 2)

    @property
    def found_agents(self) -> list[AnyAgent]:
        return [find_agent(one.name) for one in self.agents]

    def defaults(self, agent: int) -> Mapping[str, Any]:
        """The defaults of an agent on this environment, for runs of this length."""
        chosen, env_class = self.agents[agent], find_env(self.env)
        found = find_agent(chosen.name)
        given = {**found.presets, **presets.settings(found, self.env, env_class), **chosen.config}
        return configs.to_json(configs.resolve(configs.make(found.Config, given), self.steps))

    def shared(self) -> dict[str, Any]:
        """What all runs are planned with."""
        return {
            "steps": self.steps, "scale": self.scale, "env_overrides": self.env_config,
            "normalise": self.normalise,
        }  # fmt: skip


def _longest_update(request: Request) -> int:
    """Steps of the longest update in the search."""
    worlds, longest = make_env(request).spec.num_worlds, 1
    for number, found in enumerate(request.spaces):
        choices = found.get("rollout_length")
        lengths = [request.defaults(number)["rollout_length"]]
        if choices is not None:
            lengths += choices.values if isinstance(choices, space.Choices) else [choices.high]
        longest = max(longest, *map(int, lengths))
    return longest * worlds


def make_env(request: Request) -> AnyEnv:
    """The environment."""
    return configs.make(find_env(request.env), request.env_config)


def tune_file(out: Path) -> Path:
    """The file of a search."""
    check_links(out, out / "tune.json")
    return out / "tune.json"


def search_folder(out: Path) -> Path:
    """The folder with the runs of trials."""
    check_links(out, out / "search")
    return out / "search"


class Search(NamedTuple):
    """The content of the file of a search."""

    request: Request
    limits: Limits
    history: History = History()


def save(out: Path, found: Search) -> None:
    """Write the file of a search, atomically."""
    limits = dataclasses.asdict(found.limits)
    body = {"request": to_json(found.request), "limits": limits}
    save_document(tune_file(out), SCHEMA, {**body, **histories.to_json(found.history)})


def load(out: Path) -> Search:
    """Read it; InputError if it is damaged. Nothing that it names is imported."""
    file = tune_file(out)
    body = load_document(file, SCHEMA, {"request": dict, "limits": dict, "rounds": list})
    try:
        limits = Limits(**body["limits"])
        return Search(from_json(body["request"]), limits, histories.from_json(body))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{file} is not the file of a search ({error!r})") from error


def named(request: Request) -> set[str]:
    """The code outside this library that a search names. Nothing is imported."""
    found: set[str] = set()
    for one in (*request.agents, *request.beside):
        job = Job(one.name, request.env, None, 1.0, 1, 0, dict(one.config), {})
        found |= outside(job).keys()
    for one in request.spaces:
        detectors = one.get("detector", space.Choices(()))
        for name in detectors.values if isinstance(detectors, space.Choices) else ():
            job = Job("lcpo", "pendulum", None, 1.0, 1, 0, {"detector": name}, {})
            found |= outside(job).keys()
    return found


def to_json(request: Request) -> dict[str, Any]:
    """Plain values."""
    found = {f.name: getattr(request, f.name) for f in dataclasses.fields(request)}
    for name in ("agents", "beside"):
        found[name] = [[one.name, dict(one.config)] for one in found[name]]
    for name in ("traces", "judge_traces"):
        found[name] = [None if trace is None else str(trace) for trace in found[name]]
    found["spaces"] = [space.to_json(one) for one in request.spaces]
    return {k: list(v) if isinstance(v, tuple) else v for k, v in found.items()}


def from_json(body: Mapping[str, Any]) -> Request:
    """The inverse of `to_json`."""
    found: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in body.items()}
    for name in ("agents", "beside"):
        found[name] = tuple(Choice(str(agent), dict(config)) for agent, config in body[name])
    for name in ("traces", "judge_traces"):
        found[name] = tuple(None if x is None else TraceRef.parse(x) for x in body[name])
    found["spaces"] = tuple(space.from_json(one) for one in body["spaces"])
    found["normalise"] = body["normalise"]
    return Request(**found)


def next_round(request: Request, history: History, trials: int | None) -> Round | None:
    """What runs next: the round that was interrupted, or else a new one; None: nothing is left.

    `trials`: of the whole search; None: no limit.
    """
    if history.rounds and not history.rounds[-1].has_ended:
        return history.rounds[-1]
    entries = ladder.promotions(history, len(request.levels))
    before = len(history.trials)
    count = request.batch if trials is None else min(request.batch, trials - before)
    new: list[Trial] = []
    if count > 0:
        searched = [
            sampler.Searched(agent, found, request.defaults(i))
            for i, (agent, found) in enumerate(
                zip(request.found_agents, request.spaces, strict=True)
            )
        ]
        new = sampler.ask(searched, history, len(request.levels), count, request.seed)
    entries += [Entry(trial.number, 0) for trial in new]
    return Round(tuple(new), tuple(entries)) if entries else None


def round_jobs(request: Request, history: History, one: Round) -> dict[Entry, list[Job]]:
    """The runs of each entry of a round, one for each of its pairs."""
    trials = {trial.number: trial for trial in (*history.trials, *one.new)}
    return {entry: trial_jobs(request, trials[entry.trial], entry.level) for entry in one.entries}


def trial_jobs(request: Request, trial: Trial, level: int, check: bool = False) -> list[Job]:
    """The runs of a trial on a level. Higher levels share the whole runs of lower ones.

    `check`: whether the program is checked, which takes a second.
    """
    found, agent = request.levels[level], request.agents[trial.agent]
    pairs = request.pairs[: found.pairs]
    is_short = found.steps < request.steps
    by_pair: dict[Pair, Job] = {}
    for trace in dict.fromkeys(trace for trace, _ in pairs):
        jobs = plan(
            agent.name,
            request.env,
            trace=trace,
            seeds=[seed for other, seed in pairs if other == trace],
            overrides={**agent.config, **trial.settings},
            variant=f"trial-{trial.number}{'-short' if is_short else ''}",
            check=check,
            **of_agent(agent, request),
        )
        by_pair |= {(trace, job.seed): job for job in jobs}
    chosen = [by_pair[pair] for pair in pairs]
    return [shortened(job, found.steps) for job in chosen] if is_short else chosen


def of_agent(agent: Choice, request: Request) -> dict[str, Any]:
    """What a run of the agent is planned with: a rule in the environment's units is not scaled."""
    raw = find_agent(agent.name).raw
    return {**request.shared(), **({"normalise": None} if raw else {})}


def shortened(job: Job, steps: int) -> Job:
    """The first steps of a run: what depends on its length stays as in the whole run."""
    steps -= steps % Setup(job).phases[-1].steps_per_update
    short = dataclasses.replace(
        job, steps=steps, sized_for=job.sized_for or job.steps, trace_digest=None
    )
    digest = job.trace and job.trace.file_digest(Setup(short).trace_rows, job.scale)
    return dataclasses.replace(short, trace_digest=digest)


def constants(request: Request) -> list[str]:
    """The constant actions of the environment, as agents."""
    counts = make_env(request).spec.discrete.counts
    total = 1
    for count in counts:
        total *= count
    if len(counts) == 1 or total > MOST_CONSTANTS:
        return [f"constant:{action}" for action in range(min(counts))]
    found = [()]
    for count in counts:
        found = [(*before, action) for before in found for action in range(count)]
    return [f"constant:{','.join(map(str, actions))}" for actions in found]


def baseline_jobs(request: Request) -> list[Job]:
    """A run of each constant action on the first trace with the first seed."""
    trace, seed = request.pairs[0]
    return plan_agents(
        [(name, {}) for name in constants(request)], request.env, trace=trace, seeds=[seed],
        check=False, **{**request.shared(), "normalise": None},
    )  # fmt: skip


def scores_of(
    jobs: Sequence[Job], results: Mapping[str, Result], warmup: int, endless: bool
) -> Scores:
    """The returns of runs after their warm-up; None for those that failed."""
    found: list[float | None] = []
    for job in jobs:
        result = results[job.name]
        value = math.nan
        if result.status == "finished":
            value = run_return(by_episode(result.record), warmup, endless)
        found.append(None if math.isnan(value) else value)
    return tuple(found)


def by_episode(record: Record) -> Record:
    """The same record with every episode counted alike, for returns that can be compared.

    The paper's lifelong return is a mean over rollouts in which an episode ended. Of long episodes,
    short rollouts see fewer ends than long ones. So it depends on the rollout length, which is
    searched.
    """
    episodes = record["episodes"]
    returns = record["episode_return_sum"] / np.maximum(episodes, 1)
    return {**record, "epochs": episodes, "epoch_return": returns}


def restart_inexact(request: Request, jobs: Sequence[Job], folder: Path) -> None:
    """Let runs of an environment that cannot continue exactly begin again.

    Their checkpoints would make the history depend on when the search was interrupted.
    """
    env = make_env(request)
    if not is_host(env):
        return
    count = env.spec.num_worlds
    worlds = env.open(count, list(range(count)), 1)
    worlds.reset(np.ones(count, bool))  # some have no state before
    exact = worlds.get_state() is not None
    worlds.close()
    for job in () if exact else jobs:
        checkpoint.drop(run_files(folder, job.name))
