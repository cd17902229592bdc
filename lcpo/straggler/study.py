"""The paper's table of hedging policies, extended by the rules that engineers use.

Learners, fixed timeouts and rules, in front of ten servers (docs/envs/straggler.md). Runs make
several passes over a workload; the first is the warm-up. A pass of the paper takes about 500 hours.
A shortened one has the same rates and sizes in less time, and everything that an agent counts in
interactions is shortened with it: rollouts, random phases, memories. Agents with replay keep the
rollouts of the paper and take several gradient steps after each. Every agent then has the paper's
number of gradient steps per pass, unless an option limits them; the table shows the share of the
paper's that each has had (`report.budget`).
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from lcpo.agents import AGENTS, find_agent, presets
from lcpo.agents.presets import shorten
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import plan
from lcpo.run.store.results import Result
from lcpo.straggler import report, timeouts, workloads
from lcpo.straggler.task import NEVER, WINDOW_MS, Straggler
from lcpo.study.study import Options, Report, Study, listed, names
from lcpo.values import number, whole

ENV, HOURLY = "straggler", "hedge-hourly"
FIXED = ",".join(report.FIXED)
RULES = "hedge-p95,hedge-sketch,hedge-cap,hedge-table,hedge-hourly"
LEARNERS = (
    "lcpo-agg,lcpo-med,lcpo-cons,lcpo-uniform,lcpo-uniform-fast,a2c,a2c-entropy,trpo,ppo,"
    "ddqn,sac,online-ewc,mbcd,mbpo"
)
PRESCIENT = "prescient-a2c,prescient-trpo,prescient-ddqn,prescient-sac"
SETTINGS = {
    "lcpo-agg": ("lcpo", {"sigma": 10.0**0.5}),
    "lcpo-med": ("lcpo", {"sigma": 12.0**0.5}),
    "lcpo-cons": ("lcpo", {"sigma": 14.0**0.5}),
    "lcpo-uniform-fast": ("lcpo-uniform", {"c_anchor": 1e-3, "value_steps": 5}),
}
"""LCPO's three settings of the squared Mahalanobis distance, over 20, 24 and 28 in two dimensions;
and the setting that the library recommends."""


@dataclasses.dataclass(frozen=True)
class StragglerOptions(Options):
    """Options of the study."""

    without: ClassVar[tuple[str, ...]] = ("envs", "traces")

    workloads: str = "workload-1,workload-2"
    """Workloads: names or files, separated by commas."""
    agents: str = f"{FIXED},{RULES},{LEARNERS},{PRESCIENT}"
    """Agents, separated by commas; lcpo-agg, lcpo-med and lcpo-cons are LCPO's three settings."""
    scale: str = "1/20"
    """Length of a pass: paper, short, smoke, or a fraction of the workload's own time."""
    shorten_agents: float | None = None
    """Divide everything that agents count in interactions by this; default: as the scale.
    A day of your own workload is a pass 20 times shorter than the paper's."""
    passes: int = 6
    """Passes over the workload; the first is the warm-up."""
    rate: float | None = None
    """Mean requests per second; default: the workload's own."""
    size: float | None = None
    """Mean service time in ms of a request that is not slow; default: the workload's own."""
    replay_steps: int = 20
    """Gradient steps per rollout of agents with replay, at most. A pass that is 20 times shorter
    than the paper's needs 20; fewer suit slower machines."""
    model_trainings: int = 1
    """Trainings of MBPO's model per rollout, at most: each takes as long as some 15 gradient steps
    of the policy."""
    training_steps: int = report.TRAINING
    """Interactions that prescient agents are trained on first."""

    @property
    def shorten(self) -> float:
        """How many times faster than the workload's own a pass is."""
        return float(1 / self.fraction)


class StragglerCase(NamedTuple):
    """A workload as the study uses it."""

    name: str  # of the workload, short enough for the name of a folder
    env: dict[str, Any]  # config values of the environment
    windows: int  # of a pass

    @property
    def hours(self) -> int:
        """Hours of a pass, rounded, which determines the length of an entry of the hourly plan."""
        return max(1, round(self.windows / timeouts.HOUR))

    @property
    def hour(self) -> int:
        """Windows of an entry."""
        return round(self.windows / self.hours)


def make_case(workload: str, options: StragglerOptions) -> StragglerCase:
    """The workload with the options applied."""
    given = {"shorten": options.shorten, "rate": options.rate, "size": options.size}
    env: dict[str, Any] = {"workload": workload, **given}
    found = workloads.get(workload, **given)
    return StragglerCase(Path(workload).stem.replace(":", "."), env, int(found.length / WINDOW_MS))


def plan_runs(options: StragglerOptions) -> list[Job]:
    """Every agent on every workload with every seed."""
    if options.shorten_agents is not None:
        number("shorten_agents", options.shorten_agents, 1.0, 1e6)
    whole("passes", options.passes, 2)
    whole("replay_steps", options.replay_steps, 1)
    whole("model_trainings", options.model_trainings, 1)
    agents, known = listed("agents", options.agents), {**AGENTS, **SETTINGS}
    for name in agents:
        if name not in known and ":" not in name:  # an agent of the user's own has a colon
            raise InputError(unknown("agent", name, known))
    jobs: list[Job] = []
    for workload in listed("workloads", options.workloads):
        case = make_case(workload, options)
        for name in agents:
            agent, setting = SETTINGS.get(name, (name, {}))
            overrides = {**shortened(agent, options), **setting}
            if agent == HOURLY:
                overrides |= {"schedule": (NEVER,) * case.hours, "num_windows": case.hour}
            prescient = find_agent(agent).training is not None
            jobs += plan(
                agent,
                ENV,
                trace=None,
                steps=options.passes * case.windows,
                seeds=options.num_seeds(10),
                env_overrides=case.env,
                overrides=overrides,
                training_steps=options.training_steps if prescient else None,
                published=options.published,
                variant=f"{case.name}{name.removeprefix(agent)}",
                name_setting=True,
                check=options.check,
            )
    return [_with_schedule(job, ()) if job.agent == HOURLY else job for job in jobs]


def complete(options: StragglerOptions, jobs: list[Job]) -> list[Job]:
    """With the plan of `hedge-hourly`: the best timeout of each hour, by simulation."""
    found: dict[str, tuple[int, ...]] = {}
    for workload in {j.env_config["workload"]: None for j in jobs if j.agent == HOURLY}:
        case = make_case(workload, options)

        def note(text: str, name: str = case.name) -> None:
            print(f"{name}: {text}", file=sys.stderr, flush=True)

        found[workload] = timeouts.hourly_schedule(
            Straggler(**case.env), case.hours, note=note, num_windows=case.hour
        )
    return [
        _with_schedule(job, found[job.env_config["workload"]]) if job.agent == HOURLY else job
        for job in jobs
    ]


def _with_schedule(job: Job, schedule: Sequence[int]) -> Job:
    return dataclasses.replace(job, config={**job.config, "schedule": [*schedule]})


def shortened(agent: str, options: StragglerOptions) -> dict[str, Any]:
    """Config values of an agent for shorter passes; the presets are for the paper's."""
    chosen = find_agent(agent)
    config = chosen.config(**presets.settings(chosen, ENV, Straggler))
    values = vars(config)

    def shorter(fraction: Fraction) -> dict[str, Any]:
        return {k: v for k, v in vars(shorten(config, fraction)).items() if v != values[k]}

    if chosen.training is not None:
        return shorter(Fraction(options.training_steps, report.TRAINING))
    factor = options.shorten_agents or options.shorten
    found = shorter(1 / Fraction(str(factor)))
    if "batch_size" in values:
        return found | replayed(config, found, options, factor)
    if "gamma" in values:
        parts = values.get("minibatches", 1)
        found["rollout_length"] = max(1, round(values["rollout_length"] / factor / parts)) * parts
    return found


def replayed(
    config: Any, found: dict[str, Any], options: StragglerOptions, factor: float
) -> dict[str, Any]:
    """More gradient steps after rollouts of the same length, and what depends on their number."""
    wanted = max(1, round(factor))
    steps = min(wanted, options.replay_steps)
    values: dict[str, Any] = {"updates_per_rollout": steps * config.updates_per_rollout}
    if hasattr(config, "averaging_rate"):  # is per gradient step, which there are more of
        rate = found.get("averaging_rate", config.averaging_rate)
        values["averaging_rate"] = rate / steps
    if hasattr(config, "model_samples"):  # MBPO, whose model learns after each rollout
        trainings = min(wanted, options.model_trainings)
        values["model_batches"] = trainings * config.model_batches
    return values


def make_report(options: StragglerOptions, results: Sequence[Result]) -> Report:
    """The table, next to the paper's, and latencies over time."""
    cases: Mapping[str, StragglerCase] = {
        w: make_case(w, options) for w in names(options.workloads)
    }
    groups: dict[str, dict[str, list[Result]]] = {workload: {} for workload in cases}
    for result in results:
        workload = result.job.env_config["workload"]
        name = result.job.agent + result.job.variant.removeprefix(cases[workload].name)
        groups[workload].setdefault(name, []).append(result)
    parts = [
        report.WorkloadRuns(cases[w].name, cases[w].windows, options.passes, found)
        for w, found in groups.items()
        if found
    ]
    return report.make_report(parts, results, options.published)


study = Study(
    "Table 1, hedging requests: LCPO, learners, fixed timeouts and engineers' rules",
    StragglerOptions,
    plan_runs,
    make_report,
    complete=complete,
)
