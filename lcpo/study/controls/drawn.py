"""Agents on many drawn traces: what the studies `anchors` and `rivals` share.

A drawn trace is a member of a family (`lcpo.contexts.families`); 30 of each stand for all of its
kind. Intervals are hierarchical then: over traces, and over the seeds on each.

The runs take gigabytes, a row of numbers for each does not. So a report is made of seeds.csv alone,
and where the runs were made elsewhere

    python -m lcpo.study.controls.drawn OUT FOLDER [FOLDER ...]

writes OUT/seeds.csv and OUT/made.json of the runs in those folders, with NumPy only; the option
`--from-seeds OUT/seeds.csv` makes the report of it, or of several such files.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lcpo.contexts import families
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.run.plan.job import Job
from lcpo.run.store import record as records
from lcpo.run.store.outputs import check_own_folder
from lcpo.run.store.results import Result, load_results
from lcpo.study.cases import Case, choose, plan_cases
from lcpo.study.controls.drawn_runs import LATE, Run, point_of, read_seeds, runs_of
from lcpo.study.report.document import data_table, seeds_table
from lcpo.study.report.output import SEEDS, check_report, how_made, is_report, write_made
from lcpo.study.report.tables import Table
from lcpo.study.study import Options, Picture, Report, Study, listed
from lcpo.values import whole

COMMAND = "lcpo.study.controls.drawn"
STEPS = 2_000_000


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
    from_seeds: str | None = None
    """Run nothing: make the report of seeds.csv, a row per run; several are separated by commas."""

    def contexts(self) -> list[str]:
        """The traces that are meant."""
        if self.traces is not None:
            return listed("traces", self.traces)
        whole("drawn", self.drawn)
        chosen = listed("families", self.families)
        for kind in chosen:
            if kind not in families.FAMILIES:
                raise InputError(unknown("trace family", kind, families.FAMILIES))
        return [f"family:{kind}:{seed}" for kind in chosen for seed in range(self.drawn)]

    def folder(self, study: str) -> Path:
        """A folder for each environment, too."""
        mine = self.envs == type(self).envs
        return super().folder(study if mine else f"{study}-{self.envs}")


def drawn_study(
    help: str,
    cases: Sequence[Case],
    report: Callable[[list[Run]], tuple[Mapping[str, Table], Mapping[str, Picture]]],
) -> Study[DrawnOptions]:
    """A study of these cases; `report` makes tables and figures of the runs."""

    def plan_runs(options: DrawnOptions) -> list[Job]:
        if options.from_seeds is not None:
            return []
        steps = STEPS if options.steps is None and options.traces is None else options.steps
        where = listed("envs", options.envs), options.contexts()
        return plan_cases(options, chosen(options, cases), *where, steps=steps, seeds=4)

    def make_report(options: DrawnOptions, results: Sequence[Result]) -> Report:
        seeds, made = seeds_of(options, results, chosen(options, cases))
        tables, figures = report(runs_of(seeds))
        return Report(seeds, tables, figures=figures, made=made)

    return Study(help, DrawnOptions, plan_runs, make_report)


def chosen(options: DrawnOptions, cases: Sequence[Case]) -> list[Case]:
    """Those that `--agents` names."""
    return choose(cases, options.agents, "agent of this study")


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
    options: DrawnOptions, results: Sequence[Result], cases: Sequence[Case]
) -> tuple[Table, dict[str, Any]]:
    """A row per run of these cases, of the results or of the files given, and how that was made."""
    if options.from_seeds is None:
        return seeds_table(results, seed_numbers), {}
    paths = [Path(name) for name in listed("from-seeds", options.from_seeds)]
    rows, how = read_seeds(paths)
    points = [(case.agent, point) for case in cases for point in case.settings()]
    places = {point: number for number, point in enumerate(points)}
    keys = [(str(row["agent"]), point_of(str(row["setting"]))) for row in rows]
    mine = [(places[key], row) for key, row in zip(keys, rows, strict=True) if key in places]
    rows = [row for _, row in sorted(mine, key=lambda pair: pair[0])]
    if not rows:
        raise InputError(f"{options.from_seeds}: no run of this study in it")
    distinct = {
        f"{name}s": list(dict.fromkeys(row[name] for row in rows))
        for name in ("agent", "env", "trace")
    }
    finished = sum(row["status"] == "finished" for row in rows)
    counts = {"seeds": len({row["seed"] for row in rows}), "finished": finished,
              "failed": len(rows) - finished}  # fmt: skip
    table = data_table(list(rows[0]), [list(row.values()) for row in rows])
    return table, {**how, **distinct, **counts}


def main() -> None:
    """See the docstring of this module."""
    parser = argparse.ArgumentParser(prog=f"python -m {COMMAND}", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    options = parser.parse_args()
    check_own_folder(options.out, COMMAND, lambda out: is_report(out, COMMAND))
    check_report(options.out, COMMAND, [SEEDS])
    results = [result for folder in options.folders for result in load_results(folder)]
    rows = seeds_table(results, seed_numbers).to_csv().encode()
    write_made(options.out, {SEEDS: rows}, how_made(results), COMMAND)


if __name__ == "__main__":
    main()
