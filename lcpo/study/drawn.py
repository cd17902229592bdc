"""Agents on many drawn traces: what the studies `anchors` and `rivals` share.

A drawn trace is a member of a family (`lcpo.contexts.families`); 30 of each stand for all of its
kind. Intervals are hierarchical then: over traces, and over the seeds on each.

The runs take gigabytes, a row of numbers for each does not. So a report is made of seeds.csv alone,
and where the runs were made elsewhere

    python -m lcpo.study.drawn OUT FOLDER [FOLDER ...]

writes OUT/seeds.csv and OUT/made.json of the runs in those folders, with NumPy only; the option
`--from-seeds OUT/seeds.csv` makes the report of it.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lcpo.contexts import families, fractions
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import plan
from lcpo.run.store import record as records
from lcpo.run.store.results import Result, load_results
from lcpo.study import stats, tables
from lcpo.study.output import how_made, write_bytes
from lcpo.study.seeds import seeds_table
from lcpo.study.stats import Estimate
from lcpo.study.study import Options, names
from lcpo.study.tables import Table

STEPS = 2_000_000
LATE = 4
"""One part in so many of a run is its warm-up."""


class Case(NamedTuple):
    """An agent: values that it always has here, and values to try, all with all."""

    sweep: Mapping[str, Sequence[Any]]
    values: Mapping[str, Any] = {}

    def settings(self) -> list[str]:
        """What the names of its runs say of each point of the sweep, as `plan` writes them."""
        points = itertools.product(*self.sweep.values())
        return [setting(dict(zip(self.sweep, point, strict=True))) for point in points]


def setting(values: Mapping[str, Any]) -> str:
    """A point of a sweep, as in "c_anchor=0.001-value_steps=5"."""
    return "-".join(f"{name}={value}" for name, value in values.items())


@dataclasses.dataclass(frozen=True)
class DrawnOptions(Options):
    """Options of such a study."""

    envs: str = "pendulum"
    """Environments, separated by commas."""
    traces: str | None = None
    """Contexts, separated by commas; default: drawn ones."""
    families: str = "revisit,drift,burst"
    """Families that traces are drawn from, separated by commas."""
    drawn: int = 30
    """Traces of each family."""
    steps: int | None = None
    """Interactions of each run; default: 2,000,000 on drawn traces, else the length of a trace."""
    from_seeds: Path | None = None
    """Run nothing: make the report of this seeds.csv, which holds a row per run."""

    def contexts(self) -> list[str]:
        """The traces that are meant."""
        if self.traces is not None:
            return names(self.traces)
        chosen = names(self.families)
        for kind in chosen:
            if kind not in families.FAMILIES:
                raise InputError(unknown("trace family", kind, families.FAMILIES))
        return [f"family:{kind}:{seed}" for kind in chosen for seed in range(self.drawn)]

    def folder(self, study: str) -> Path:
        """A folder for each environment, too."""
        mine = self.envs == type(self).envs
        return super().folder(study if mine else f"{study}-{self.envs}")


def plan_runs(options: DrawnOptions, cases: Mapping[str, Case]) -> list[Job]:
    """Every case with every trace and seed; the runs of a trace stand together."""
    if options.from_seeds is not None:
        return []
    chosen = chosen_cases(options, cases)
    return [
        job
        for env in names(options.envs)
        for trace in options.contexts()
        for agent, case in chosen.items()
        for job in plan(
            agent,
            env,
            trace=trace,
            steps=options.steps or (STEPS if options.traces is None else None),
            fraction=options.fraction,
            seeds=range(options.num_seeds(4)),
            overrides=case.values,
            sweep=case.sweep,
            published=options.published,
        )
    ]


def chosen_cases(options: Options, cases: Mapping[str, Case]) -> dict[str, Case]:
    """Those that `--agents` names."""
    chosen = list(cases) if options.agents is None else names(options.agents)
    for agent in chosen:
        if agent not in cases:
            raise InputError(unknown("agent of this study", agent, cases))
    return {agent: cases[agent] for agent in chosen}


def seed_numbers(result: Result) -> dict[str, float | None]:
    """What seeds.csv says of a run."""
    steps, record = result.job.steps, result.record
    return {
        "steps": steps,
        "return_after_warmup": records.lifelong_return(record, steps // LATE),
        "whole_run": records.lifelong_return(record),
        "constraint_active": records.activity(record),
    }


def seeds_of(
    options: DrawnOptions, results: Sequence[Result], cases: Mapping[str, Case]
) -> tuple[Table, dict[str, Any]]:
    """A row per run of these cases, of the results or of the file given, and how that was made."""
    if options.from_seeds is None:
        return seeds_table(results, seed_numbers), {}
    path = options.from_seeds
    try:
        header, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
        made = path.with_name("made.json")
        how = json.loads(made.read_text(encoding="utf-8")) if made.exists() else {}
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if not {"agent", "setting", "trace", "seed", "status", "whole_run"} <= set(header):
        raise InputError(f"{path} is no seeds.csv of this study: its columns are {header}")
    known = {(agent, point) for agent, case in cases.items() for point in case.settings()}
    column = {name: number for number, name in enumerate(header)}
    rows = [row for row in rows if (row[column["agent"]], _point(row[column["setting"]])) in known]
    if not rows:
        raise InputError(f"{path} holds no run of this study")
    distinct = {
        f"{name}s": list(dict.fromkeys(row[column[name]] for row in rows))
        for name in ("agent", "env", "trace")
    }
    finished = sum(row[column["status"]] == "finished" for row in rows)
    counts = {"seeds": len({row[column["seed"]] for row in rows}), "finished": finished,
              "failed": len(rows) - finished}  # fmt: skip
    how = {k: v for k, v in how.items() if k not in ("command", "date")}
    return Table(header, rows, "l" * len(header)), {**how, **distinct, **counts}


def _point(setting: str) -> str:
    return setting.removesuffix(", as published")


class Run(NamedTuple):
    """A run that has ended; returns are None where it failed."""

    agent: str
    setting: str
    env: str
    trace: str
    seed: int
    steps: int
    after: float | None
    whole: float | None

    @property
    def kind(self) -> str:
        """The family of its trace; of a trace that is not drawn: its name."""
        base, _ = fractions.split(self.trace)
        return families.parse(base)[0] if base.startswith("family:") else self.trace


def runs_of(table: Table) -> list[Run]:
    """The runs of a table of seeds."""
    found = []
    for cells in table.rows:
        row = dict(zip(table.header, cells, strict=True))
        after, whole = (
            float(row[name]) if row[name] else None for name in ("return_after_warmup", "whole_run")
        )
        names = (row["agent"], _point(row["setting"]), row["env"], row["trace"])
        found.append(Run(*names, int(row["seed"]), int(row["steps"] or 0), after, whole))
    return found


Returns = dict[str, dict[int, float]]
"""By trace and seed."""


def returns(runs: Sequence[Run], field: str) -> Returns:
    """Of the runs that finished."""
    found: Returns = {}
    for run in runs:
        value = getattr(run, field)
        if value is not None:
            found.setdefault(run.trace, {})[run.seed] = value
    return found


def estimate(found: Returns) -> Estimate:
    """Over traces and seeds; of one trace: over its seeds."""
    if len(found) == 1:
        return stats.mean_ci(list(next(iter(found.values())).values()))
    return stats.hierarchical_ci({trace: list(seeds.values()) for trace, seeds in found.items()})


Key = tuple[str, str]
"""(agent, setting)."""


def parts(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs of each family, or trace that is not drawn; then all, where there are several."""
    several = len({run.env for run in runs}) > 1
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(f"{run.env}, {run.kind}" if several else run.kind, []).append(run)
    return found if several or len(found) == 1 else {**found, "all": list(runs)}


def groups(runs: Sequence[Run]) -> dict[Key, list[Run]]:
    """The runs of each case."""
    found: dict[Key, list[Run]] = {}
    for run in runs:
        found.setdefault((run.agent, run.setting), []).append(run)
    return found


def summary(
    runs: Sequence[Run],
    header: Sequence[str],
    cells: Callable[[Key], Sequence[str]],
    reference: Callable[[Key], Key],
    against: str,
) -> Table:
    """A row per family and case: `cells` under `header`, the returns, the difference of whole runs.

    `reference`: what a case is compared with, which the column calls `against`.
    """
    rows = []
    for part, here in parts(runs).items():
        cases = groups(here)
        for key, members in cases.items():
            whole, late = returns(members, "whole"), returns(members, "after")
            ended = sum(run.whole is not None for run in members)
            total = f"{ended}" if ended == len(members) else f"{ended} of {len(members)}"
            gain = [tables.NONE, tables.NONE]
            if reference(key) != key:
                gain = gain_cells(whole, returns(cases.get(reference(key), []), "whole"))
            estimates = (tables.plus_minus(estimate(found)) for found in (late, whole))
            rows.append([part, *cells(key), total, *estimates, *gain])
    late = f"return after {tables.short_count(max(run.steps for run in runs) // LATE)}"
    last = ("runs", late, "whole run", f"minus {against}, whole run", "better on")
    return Table(["trace", *header, *last], rows, "l" * (len(header) + 1) + "rrrrr", title(runs))


def gain_cells(a: Returns, b: Returns) -> list[str]:
    """a - b with its interval, and on how many traces a is better."""
    shared = [trace for trace in a if trace in b and a[trace].keys() & b[trace].keys()]
    if not shared:
        return [tables.NONE, tables.NONE]
    each = [stats.paired_difference(a[trace], b[trace]) for trace in shared]
    found = each[0] if len(shared) == 1 else stats.hierarchical_difference(a, b)
    better = sum(one.mean > 0.0 for one in each)
    return [tables.plus_minus(found, sign=True), f"{better} of {len(shared)}"]


def title(runs: Sequence[Run]) -> str:
    """Of a table of them."""
    envs = dict.fromkeys(run.env for run in runs)
    traces = dict.fromkeys(run.trace for run in runs)
    drawn_ones = any(run.kind != run.trace for run in runs)
    what = f"{len(traces)} drawn traces" if drawn_ones else f"trace {', '.join(traces)}"
    over = "traces and their seeds" if drawn_ones else "seeds"
    steps = max(run.steps for run in runs)
    return f"{', '.join(envs)}, {what}, {steps:,} steps; 95 % intervals over {over}"


def main() -> None:
    """See the docstring of this module."""
    parser = argparse.ArgumentParser(prog="python -m lcpo.study.drawn", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    options = parser.parse_args()
    results = [result for folder in options.folders for result in load_results(folder)]
    write_bytes(options.out / "seeds.csv", seeds_table(results, seed_numbers).to_csv().encode())
    write_bytes(options.out / "made.json", json.dumps(how_made(results)).encode())


if __name__ == "__main__":
    main()
