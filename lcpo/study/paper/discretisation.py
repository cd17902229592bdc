"""The paper's table on discretised actions: how well do baselines learn plain Pendulum-v1?

15 torques, no wind, 2 million steps (10,000 epochs of 200). Reported is the mean return in training
over epochs 8001 to 8999, a tenth of the run, as the published code does. (The paper's text
says 1000 test episodes after 8000 epochs.)
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from lcpo.run.plan.plan import plan_agents
from lcpo.run.store import record as records
from lcpo.run.store.results import Result, load_results
from lcpo.study import printed as paper
from lcpo.study import report, stats, tables

ENV = "pendulum-v1"
FROM, UNTIL = 0.8, 0.9
"""The part of a run that counts."""


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the experiment."""

    agents: str = "a2c,trpo,ddqn,sac"
    """Agents, separated by commas."""
    seeds: int = 10
    """Seeds of each agent."""
    steps: int = 2_000_000
    """Interactions of each run."""
    out: Path = Path("out/discretisation")
    """Folder for the runs and the table."""
    published: bool = True
    """Repeat the faults of the published code, as the paper's numbers do."""
    resume: bool = False
    """Go on with the runs that the folder holds."""
    workers: int | None = None
    """Processes at a time; default: one per core."""


def run(options: Options) -> int:
    """Train the agents, write and print the table."""
    from lcpo import api

    jobs = plan_agents(
        options.agents,
        ENV,
        trace=None,
        steps=options.steps,
        seeds=range(options.seeds),
        published=options.published,
    )
    problems = api.run(jobs, options.out, options.resume, options.workers)
    return report.conclude(summary(load_results(options.out, jobs)), options.out, problems)


def late_return(result: Result) -> float:
    """Mean over the epochs that count of the mean return of the episodes that ended in each."""
    first, last = (round(share * result.job.steps) for share in (FROM, UNTIL))
    return records.lifelong_return(result.record, first, last)


def summary(results: list[Result]) -> tables.Table:
    """A row per agent: ours with its interval over seeds, and what the paper prints."""
    rows = []
    for agent in dict.fromkeys(r.job.agent for r in results):
        mine = [r for r in results if r.job.agent == agent]
        finished = [r for r in mine if r.status == "finished"]
        ours = stats.mean_ci([late_return(r) for r in finished])
        printed = [
            paper.printed("discretisation", agent, "pendulum", variant=variant)
            for variant in ("discrete-15", "sb3-rl-zoo")
        ]
        faults = ", ".join(mine[0].job.config.get("faults", ())) or "none"
        seeds = f"{len(finished)} of {len(mine)}" if len(finished) < len(mine) else f"{len(mine)}"
        rows.append([agent, seeds, tables.plus_minus(ours), *printed, faults])
    steps = max((r.job.steps for r in results), default=0)
    return tables.Table(
        ["agent", "seeds", "return", "paper", "paper: SB3, continuous", "faults repeated"],
        rows,
        "lrrrrl",
        f"Pendulum-v1, 15 torques, {steps:,} steps: mean return in training from 80 % to 90 % of "
        "the run; 95 % intervals over seeds",
    )
