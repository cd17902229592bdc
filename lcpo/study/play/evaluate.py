"""Evaluates the frozen policies of finished runs: `lcpo evaluate`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lcpo import values
from lcpo.errors import InputError
from lcpo.policy import find_runs
from lcpo.run.drive import frozen
from lcpo.run.plan.job import check_trust
from lcpo.run.plan.plan import check_seeds
from lcpo.run.store import record as records
from lcpo.run.store.outputs import check_own_folder
from lcpo.run.store.results import Result
from lcpo.study.measure import compare, stats
from lcpo.study.measure.stats import Estimate
from lcpo.study.report.cells import Column
from lcpo.study.report.document import data_table
from lcpo.study.report.output import check_report, is_report, write_files
from lcpo.study.report.tables import Table
from lcpo.study.study import Report


class Frozen(NamedTuple):
    """A finished run, and what its frozen policy earned with each seed."""

    result: Result
    earned: dict[int, float]
    """Return by seed, as tables of comparisons have it; reward per step if no episode ended."""


class Evaluation(NamedTuple):
    """Frozen policies side by side. It prints as its table."""

    table: Table
    policies: tuple[Frozen, ...]

    def __str__(self) -> str:
        return self.table.to_text()

    def write(self, out: str | Path, command: str | None = None) -> list[Path]:
        """Write the table in all formats, and every number; returns the paths.

        The folder must be new, empty, or hold an earlier evaluation.
        """
        check_out(values.path("out", out))
        rows = [
            (p.result.job.name, p.result.job.agent, p.result.job.seed, seed, value)
            for p in self.policies
            for seed, value in p.earned.items()
        ]
        seeds = data_table(("run", "agent", "seed_of_run", "seed", "earned"), rows)
        results = [policy.result for policy in self.policies]
        return write_files(Report(seeds, {"table": self.table}), results, out, command, by=COMMAND)


COMMAND = "lcpo evaluate"


def check_out(out: Path) -> None:
    """Raise InputError unless the tables of an evaluation may be written into a folder."""
    check_own_folder(out, COMMAND, lambda out: is_report(out, COMMAND))
    check_report(out, COMMAND)


def evaluate(
    source: str | Path,
    run: str | None = None,
    *,
    seeds: int | Iterable[int] = 4,
    trace: str | os.PathLike[str] | None = None,
    scale: float | None = None,
    steps: int | None = None,
    trust: bool = False,
    report: Callable[[int], Any] = lambda steps: None,
) -> Evaluation:
    """Let the frozen policies of finished runs act.

    Args:
      source: a run's own folder, or an output folder, of which all runs are evaluated.
      run: the name of one run of an output folder.
      seeds: of the evaluation: how many (0, 1, ...), or which. All policies get the same seeds.
      trace, scale, steps: default: those of the runs.
      trust: import agents and environments that are not part of this library.
      report: called repeatedly, with the number of steps since the last call.
    """
    results = find_runs(values.path("source", source), run)
    check_trust([result.job for result in results], values.flag("trust", trust), str(source))
    tasks = {(result.job.env, result.job.trace) for result in results}
    if len(tasks) > 1:
        names = ", ".join(sorted(f"{env} with trace {on}" for env, on in tasks))
        raise InputError(f"{source} holds runs of several tasks ({names}): choose one run (--run)")
    found = check_seeds(seeds)
    steps = None if steps is None else values.whole("steps", steps)
    loaded = [(result, *frozen.load_agent(result)) for result in results]
    placed = [frozen.elsewhere(setup, trace, scale, steps) for _, setup, _ in loaded]
    runs = [
        (result, frozen.act_only(there, agent, found, setup.phases[-1].end, report))
        for (result, setup, agent), there in zip(loaded, placed, strict=True)
    ]
    endless = not any(r["episodes"].sum() for _, mine in runs for r in mine)
    earned = records.mean_reward if endless else records.lifelong_return
    policies = tuple(
        Frozen(result, {s: earned(r) for s, r in zip(found, mine, strict=True)})
        for result, mine in runs
    )
    job = placed[0].job
    where = f"{job.env}, trace {job.trace}" if job.trace else job.env
    return Evaluation(_table(policies, f"{where}, {job.steps:,} steps", endless), policies)


def _table(policies: Sequence[Frozen], where: str, endless: bool) -> Table:
    earned = records.mean_reward if endless else records.lifelong_return
    by_run = {id(policy.result): policy for policy in policies}
    rows = []
    for label, results in compare.group([policy.result for policy in policies]).items():
        members = [by_run[id(result)] for result in results]
        learning = stats.mean_ci([earned(result.record) for result in results])
        counts = len(members), len(members[0].earned)
        rows.append((label, _estimate(members), learning, *counts))
    what = "reward" if endless else "return"
    about = {
        f"{what} when frozen": "of the policies, which no longer learn",
        "while learning": f"{what} of the runs that trained them",
        "policies": "trained policies, one per run",
        "seeds": "with which each policy was evaluated",
    }
    return Table(
        ["agent", *(Column(name, about=words) for name, words in about.items())],
        rows,
        heading=f"{what.title()} of frozen policies",
        title=f"{where}; frozen policies",
        notes=("95 % intervals over policies where there are several, else over seeds",),
    )


def _estimate(members: Sequence[Frozen]) -> Estimate:
    """Over policies, each by its mean; over the seeds of a single one."""
    each = [list(member.earned.values()) for member in members]
    return stats.mean_ci([float(np.mean(x)) for x in each] if len(each) > 1 else each[0])
