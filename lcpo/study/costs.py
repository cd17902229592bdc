"""The cost of an experiment: interactions, gradient steps, time and disk.

Times are estimates from docs/speed.md, on one core of its machine; tests compare them with
`results/speed`. A program is counted as not compiled yet. Other machines are faster or slower, and
a GPU runs the seeds of a compiled environment at once.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from lcpo import config as configs
from lcpo import defaults, names
from lcpo.agents import AGENTS
from lcpo.envs import ENVS
from lcpo.envs.base import is_host, is_measured
from lcpo.gym import from_gym
from lcpo.run.drive.compiled import QUICK_STEPS
from lcpo.run.plan.job import Job, make_env
from lcpo.run.store.record import KEPT_ROWS, block_size

AGENT_US = {
    "a2c": 3.5, "lcpo": 14.2, "trpo": 12.6, "ppo": 8.5, "lcpo-p": 13.5, "lcpo-plus": 16.6,
    "clear": 6.6, "ddqn": 4.4, "bfdqn": 4.5, "pt-dqn": 7.1, "sac": 9.3, "online-ewc": 13.6,
    "sliding-ogd": 69.0, "mbpo": 205.8, "ideal-mbpo": 11.4, "mbcd": 54.7,
}  # fmt: skip
"""Microseconds per interaction on the Pendulum, whose own share is negligible. `lcpo.defaults` has
what other environments add."""
OTHER_US = 3.0
"""Of agents that were not measured: tables and rules."""
FIXED_US = 2.0
"""The part of `AGENT_US` that does not depend on the size of the networks, of 64-64 units."""
HOST_US, HOST_RUNS = 200.0, 13
"""What a step outside the compiler adds, divided by the runs that step together; as many did when
environments were measured."""
COMPILE_SECONDS, QUICK_SECONDS, QUICK_SLOWER = 13.0, 4.0, 2.0
"""For one program on one core: an agent, an environment and a size of buffers. That of a short run
compiles sooner, and runs so many times slower (`QUICK_STEPS`)."""
START_SECONDS, RUN_SECONDS = 5.0, 0.3
"""Of a command: imports, the plan, worker processes, the report; of a run: its start and files."""
POLICY_BYTES, ROW_BYTES = 145_000, 130
"""Of a finished run: its policy, and a row of its record."""


class Steps(NamedTuple):
    """How often gradients are applied."""

    policy: float
    model: float | None
    """Of a learned model of the environment; None: there is none."""


def gradient_steps(config: Mapping[str, Any], steps: int) -> Steps:
    """In a run of so many interactions: updates times the gradient steps in each.

    MBPO trains its model after each rollout, MBCD every so many interactions of a context: those of
    its last stage, in which it spends nearly all of a run.
    """
    updates = steps / config["rollout_length"]
    parts = config.get("minibatches", 1) * config.get("passes", 1)
    policy = updates * config.get("updates_per_rollout", 1) * parts
    if "model_batches" not in config:
        return Steps(policy, None)
    stages = config.get("train_every")
    most = updates * config.get("max_trainings", 1)
    trainings = min(steps / stages[-1], most) if stages else updates
    return Steps(policy, trainings * config["model_passes"] * config["model_batches"])


class Cost(NamedTuple):
    """Of a list of jobs."""

    runs: int
    interactions: int
    core_seconds: float
    """Of all runs on one core."""
    seconds: float
    """Of a command that runs them in several processes."""
    disk_bytes: int


def microseconds(job: Job) -> float:
    """Per interaction of a run.

    The time of agents with replay grows with their gradient steps per interaction; `AGENT_US` is
    for one step per 200 interactions. With a model of the environment, all but SAC's part of it is
    the model's.
    """
    agent = AGENTS.get(job.agent)
    us = AGENT_US.get(agent.root.name if agent else job.agent, OTHER_US)
    if "batch_size" in job.config:
        steps, sac = gradient_steps(job.config, 200), AGENT_US["sac"]
        if steps.model is None:
            us *= max(1.0, steps.policy)
        else:
            usual = 2.5 if "train_every" in job.config else 25.0  # MBCD's model learns more rarely
            us = sac * max(1.0, steps.policy) + (us - sac) * max(1.0, steps.model / usual)
    elif len(hidden := job.config.get("hidden", ())) > 1:
        weights = sum(a * b for a, b in itertools.pairwise(hidden))
        us = FIXED_US + (us - FIXED_US) * weights / 64**2
    usual = defaults.of(job.env, names.imported(job.env, ENVS))
    compiled = None if _is_host(job) else usual.compiled_microseconds
    return us + (usual.microseconds if compiled is None else compiled)


def cost(jobs: Sequence[Job], processes: int = 1) -> Cost:
    """What jobs cost, and how long they take in so many processes, one on each core."""
    programs: dict[Hashable, list[Job]] = {}
    for job in jobs:
        programs.setdefault(_program(job), []).append(job)
    processes = max(1, min(processes, len(jobs)))
    running = compiling = longest = 0.0
    for members in programs.values():
        first, hosted = members[0], _is_host(members[0])
        us, compiles, together = microseconds(first), COMPILE_SECONDS, 1
        if hosted:  # the seeds of a trace step together
            seeds = len(members) / len({job.trace_name for job in members})
            together = math.ceil(seeds / processes)
            us += max(0.0, HOST_US / together - HOST_US / HOST_RUNS)
        elif first.total_steps < QUICK_STEPS:
            us, compiles = QUICK_SLOWER * us, QUICK_SECONDS
        compiles *= 2 if first.training else 1  # the phases of a run are separate programs
        each = [RUN_SECONDS + job.total_steps * us / 1e6 for job in members]
        running, compiling = running + sum(each), compiling + compiles
        longest = max(longest, compiles + together * max(each))
    # Processes that start with the same program all compile it.
    repeated = compiling * max(1.0, processes / max(1, len(programs)))
    seconds = START_SECONDS + max((running + repeated) / processes, longest)
    disk = len(jobs) * POLICY_BYTES + sum(map(_rows, jobs)) * ROW_BYTES
    interactions = sum(job.total_steps for job in jobs)
    return Cost(len(jobs), interactions, running + compiling, seconds, disk)


def _program(job: Job) -> Hashable:
    """What runs that share a compiled program have in common."""
    agent = AGENTS.get(job.agent)
    traced = configs.traced_fields(agent.Config) if agent else ()
    static = tuple((k, str(v)) for k, v in sorted(job.config.items()) if k not in traced)
    name = agent.root.name if agent else job.agent
    return name, job.env, str(job.env_config), job.total_steps, static


def _is_host(job: Job) -> bool:
    env: Any = names.imported(job.env, ENVS)
    if isinstance(env, type) and dataclasses.is_dataclass(env):
        return is_host(make_env(env, job.env_config))
    return from_gym.is_maker(env) or job.env.startswith(from_gym.ID)


def _rows(job: Job) -> int:
    """Of the record of a run (`Setup.is_timed` says which are long)."""
    updates = max(job.steps // job.config["rollout_length"], 1)
    env: Any = names.imported(job.env, ENVS)
    is_config = bool(dataclasses.is_dataclass(env))  # a user's Gymnasium class is none
    measured = is_config and is_measured(make_env(env, job.env_config))
    timed = measured or (job.trace is not None and job.trace.has_switches)
    return -(-updates // block_size(updates)) if timed else min(KEPT_ROWS, updates)


def in_full(jobs: Sequence[Job], processes: int) -> str:
    """As in "4 runs, 800,000 steps, about 40 s on 2 CPU cores"."""
    found, cores = cost(jobs, processes), f"{processes} CPU core{'s' * (processes > 1)}"
    runs = f"{found.runs:,} run{'s' * (found.runs > 1)}"
    return f"{runs}, {found.interactions:,} steps, about {in_words(found.seconds)} on {cores}"


def in_words(seconds: float) -> str:
    """As in "40 s", "25 min", "3.5 h", "12 days"."""
    for limit, unit, length in ((172_800, "days", 86_400), (5400, "h", 3600), (90, "min", 60)):
        if seconds >= limit:
            value = seconds / length
            return f"{value:.{1 if value < 10 else 0}f} {unit}"
    return f"{seconds:.0f} s"


def count(number: float) -> str:
    """As in "560k", "12M", "89G"."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.0f}"


def short_count(steps: int) -> str:
    """6M for 6,000,000."""
    return f"{steps / 1e6:g}M" if steps >= 1_000_000 else f"{steps:,}"
