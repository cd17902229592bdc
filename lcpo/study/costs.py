"""The cost of an experiment: interactions, gradient steps, time and disk.

Times are estimates from docs/speed.md, on one core of its machine; tests compare them with
`results/speed`. Other machines are faster or slower, and a GPU runs the seeds of a compiled
environment at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lcpo import config as configs
from lcpo import defaults, names
from lcpo.agents import AGENTS
from lcpo.envs import ENVS
from lcpo.envs.base import is_measured
from lcpo.run.plan.job import Job
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
COMPILE_SECONDS = 10.0
"""For one program on one core: an agent, an environment and a size of buffers."""
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
    trainings = steps / stages[-1] if stages else updates
    return Steps(policy, trainings * config["model_passes"] * config["model_batches"])


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
    return us + defaults.of(job.env, names.imported(job.env, ENVS)).microseconds


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
