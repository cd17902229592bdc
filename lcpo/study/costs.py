"""What an experiment costs: interactions, time and disk, estimated from measured speeds.

The microseconds are those of docs/speed.md, on one core of its machine; tests compare them with
`results/speed`. An estimate, then: other machines are faster or slower, and a GPU runs the seeds of
a compiled environment at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lcpo import config as configs
from lcpo import defaults, names
from lcpo.agents import AGENTS
from lcpo.envs import ENVS
from lcpo.envs.base import is_measured
from lcpo.run.plan.job import Job
from lcpo.run.store.record import KEPT_ROWS, block_size
from lcpo.study.measure import gradient_steps

AGENT_US = {
    "a2c": 3.5, "lcpo": 14.2, "trpo": 12.6, "ppo": 8.5, "lcpo-p": 13.5, "clear": 6.6, "ddqn": 4.4,
    "bfdqn": 4.5, "pt-dqn": 7.1, "sac": 9.3, "online-ewc": 13.6, "sliding-ogd": 69.0,
    "mbpo": 205.8, "ideal-mbpo": 11.4, "mbcd": 54.7,
}  # fmt: skip
"""Microseconds per interaction on the Pendulum, which itself takes next to none of them. What an
environment adds is its own (`lcpo.defaults`)."""
OTHER_US = 3.0
"""Of agents that were not measured: tables and rules."""
COMPILE_SECONDS = 10.0
"""To compile one program, on one core: an agent, an environment and a size of buffers."""
POLICY_BYTES, ROW_BYTES = 145_000, 130
"""Of a finished run: its policy, and a row of its record."""


class Cost(NamedTuple):
    """Of a list of jobs."""

    runs: int
    interactions: int
    core_seconds: float
    disk_bytes: int

    def seconds(self, cores: int) -> float:
        """On so many cores."""
        return self.core_seconds / max(1, min(cores, self.runs))


def microseconds(job: Job) -> float:
    """Per interaction of a run."""
    agent = AGENTS.get(job.agent)
    name = agent.root.name if agent else job.agent
    step = defaults.of(job.env, names.imported(job.env, ENVS)).microseconds
    return _learning(job, AGENT_US.get(name, OTHER_US)) + step


def _learning(job: Job, us: float) -> float:
    """Agents with replay take as much longer as they take gradient steps per interaction more.

    What they take on the Pendulum is for a step per 200 interactions. Where there is a model of the
    environment, all but SAC's part of that is the model's.
    """
    if "batch_size" not in job.config:
        return us
    steps = gradient_steps.count(job.config, 200)
    if steps.model is None:
        return us * max(1.0, steps.policy)
    usual = 2.5 if "train_every" in job.config else 25.0  # MBCD's model learns more rarely
    model = max(1.0, steps.model / usual)
    return AGENT_US["sac"] * max(1.0, steps.policy) + (us - AGENT_US["sac"]) * model


def cost(jobs: Sequence[Job]) -> Cost:
    """What jobs cost, each run on a core."""
    programs = {(job.agent, job.env, job.steps, str(sorted(job.config.items()))) for job in jobs}
    running = sum(job.total_steps * microseconds(job) for job in jobs) / 1e6
    disk = len(jobs) * POLICY_BYTES + sum(map(_rows, jobs)) * ROW_BYTES
    interactions = sum(job.total_steps for job in jobs)
    return Cost(len(jobs), interactions, running + COMPILE_SECONDS * len(programs), disk)


def _rows(job: Job) -> int:
    """Of the record of a run (`Setup.is_timed` says which are long)."""
    updates = job.steps // job.config["rollout_length"]
    env = names.imported(job.env, ENVS)
    measured = env is not None and is_measured(configs.make(env, job.env_config))
    timed = measured or (job.trace is not None and job.trace.has_switches)
    return -(-updates // block_size(updates)) if timed else min(KEPT_ROWS, updates)


def in_words(seconds: float) -> str:
    """As in "40 s", "25 min", "3.5 h", "12 days"."""
    for limit, unit in ((172_800.0, "days"), (5400.0, "h"), (90.0, "min"), (0.0, "s")):
        if seconds >= limit:
            value = seconds / {"days": 86_400, "h": 3600, "min": 60, "s": 1}[unit]
            return f"{value:.1f} {unit}" if value < 10 and unit != "s" else f"{value:.0f} {unit}"
    raise AssertionError("no time is negative")


def count(number: float) -> str:
    """As in "560k", "12M", "89G"."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.0f}"


def short_count(steps: int) -> str:
    """6M for 6,000,000."""
    return f"{steps / 1e6:g}M" if steps >= 1_000_000 else f"{steps:,}"
