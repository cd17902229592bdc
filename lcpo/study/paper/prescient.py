"""How well could one do, knowing the future? Agents trained on the whole trace beforehand.

"Best prescient" is the best of four algorithms trained from random starts on the trace and then
frozen. The paper does not say whether it prints the mean over its five seeds or the best of them;
it prints no intervals, which would fit the best one. Both are given here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lcpo.run.plan.agents import plan_agents
from lcpo.run.plan.job import Job
from lcpo.run.store import record as records
from lcpo.run.store.results import Result
from lcpo.study import compare, stats, tables
from lcpo.study.paper_numbers import paper_number
from lcpo.study.seeds import seeds_table
from lcpo.study.stats import Estimate
from lcpo.study.study import Options, Report, Study

NAMES = ("prescient-a2c", "prescient-trpo", "prescient-ddqn", "prescient-sac")
"""The paper's."""
TABLE = "gym-all"


@dataclasses.dataclass(frozen=True)
class PrescientOptions(Options):
    """Options of the study."""

    envs: str = "pendulum"
    """Environment."""
    traces: str = "4"
    """Context: a name or a file."""
    agents: str = ",".join(NAMES)
    """Agents, separated by commas."""

    def folder(self, study: str) -> Path:
        """A folder for each environment and trace, too."""
        name = f"{study}-{self.envs}-{self.traces}"
        return super().folder(name.replace("/", "_").replace(":", "."))


class Row(NamedTuple):
    """A prescient agent over its seeds."""

    label: str
    finished: int
    total: int
    training: Estimate
    """Return over the last tenth of the training."""
    mean: Estimate
    """Return of the evaluation after the warm-up."""
    best: float
    """That of the best seed."""
    seed: int | None
    """The best seed."""


def plan_runs(options: PrescientOptions) -> list[Job]:
    """Every agent with every seed."""
    jobs = plan_agents(
        options.agents,
        options.envs,
        trace=options.traces,
        fraction=options.fraction,
        seeds=options.num_seeds(5),
        published=options.published,
    )
    return jobs


def report(options: PrescientOptions, results: Sequence[Result]) -> Report:
    """The table, beside the paper's."""
    comparison = compare.summarise(results)  # checks that they can be compared

    def numbers(result: Result) -> dict[str, float]:
        late = records.lifelong_return(result.record, comparison.warmup)
        return {"end_of_training": _late_training(result), "return_after_warmup": late}

    table = summary(results)
    return Report(seeds_table(results, numbers), tables={"table": table})


def judge(results: Sequence[Result], warmup: int) -> list[Row]:
    """A row per agent. Failed runs have no return; they are counted."""
    rows = []
    for label, members in compare.group(results).items():
        finished = [r for r in members if r.status == "finished"]
        found = {r.job.seed: records.lifelong_return(r.record, warmup) for r in finished}
        ended = {seed: value for seed, value in found.items() if value == value}
        seed = max(ended, key=lambda s: ended[s]) if ended else None
        training = stats.mean_ci([_late_training(r) for r in finished])
        best = stats.NAN if seed is None else ended[seed]
        mean = stats.mean_ci(list(found.values()))
        rows.append(Row(label, len(finished), len(members), training, mean, best, seed))
    return rows


def _late_training(result: Result) -> float:
    record = result.training
    return records.lifelong_return(record, int(0.9 * record["step"][-1])) if record else stats.NAN


def summary(results: Sequence[Result], warmup: int | None = None) -> tables.Table:
    """The agents, and the best of them, beside what the paper prints."""
    comparison = compare.summarise(results, warmup)  # checks that they can be compared
    rows = judge(results, comparison.warmup)
    env, trace = comparison.env, comparison.trace or ""
    cells = [
        [
            row.label,
            f"{row.finished} of {row.total}" if row.finished < row.total else str(row.total),
            tables.plus_minus(row.training),
            tables.plus_minus(row.mean),
            tables.NONE if row.seed is None else f"{tables.number(row.best)} (seed {row.seed})",
            paper_number(TABLE, row.label, env, trace),
        ]
        for row in rows
    ]
    cells.append(_best(rows, env, trace))
    where = f"{env}, trace {trace}" if trace else env
    late = f"return after {tables.short_count(comparison.warmup)}"
    return tables.Table(
        ["agent", "seeds", "end of training", late, "best seed", "paper"],
        cells,
        "lrrrrr",
        f"{where}, {comparison.steps:,} steps after training; 95 % intervals over seeds",
        [*comparison.notes, "best prescient: by the mean over seeds, and by the best seed; the "
         "paper does not say which it prints"],
    )  # fmt: skip


def _best(rows: Sequence[Row], env: str, trace: str) -> list[str]:
    """The last row: who is best, by the mean over seeds, by the best seed, and in the paper."""

    def with_name(text: str, label: str) -> str:
        return f"{text} ({label.removeprefix('prescient-')})"

    by_mean = max((r for r in rows if r.mean.mean == r.mean.mean), default=None,
                  key=lambda r: r.mean.mean)  # fmt: skip
    by_seed = max((r for r in rows if r.seed is not None), default=None, key=lambda r: r.best)
    printed = {a: paper_number(TABLE, a, env, trace) for a in NAMES}
    known = {a: text for a, text in printed.items() if text != tables.NONE}
    theirs = max(known, key=lambda a: float(known[a].split()[0]), default=None)
    return [
        "best prescient",
        "",
        "",
        with_name(tables.plus_minus(by_mean.mean), by_mean.label) if by_mean else tables.NONE,
        with_name(tables.number(by_seed.best), by_seed.label) if by_seed else tables.NONE,
        with_name(known[theirs], theirs) if theirs else tables.NONE,
    ]


study = Study(
    "Table 'gym_all', prescient columns: agents that were trained on the whole trace before",
    PrescientOptions,
    plan_runs,
    report,
)
