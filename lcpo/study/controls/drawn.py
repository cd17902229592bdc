"""Agents on many drawn traces: the basis of the studies `anchors` and `rivals`.

A drawn trace is a member of a family (`lcpo.contexts.families`); 30 of them represent each family.
Intervals are hierarchical: over traces, and over the seeds on each.

The runs take gigabytes, but a report needs only seeds.csv. Where the runs were made elsewhere,

    python -m lcpo.study.controls.drawn OUT FOLDER [FOLDER ...]

writes OUT/seeds.csv and OUT/made.json for the runs in those folders, and the option
`--from-seeds OUT/seeds.csv` makes the report of it, or of several such files.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lcpo.contexts import TraceRef, families, several
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.run.plan.job import Job
from lcpo.run.store import record as records
from lcpo.run.store.outputs import check_own_folder
from lcpo.run.store.results import Result, load_results
from lcpo.study.cases import Case, agent_case, plan_cases
from lcpo.study.report.cells import Cell
from lcpo.study.report.document import data_table, seeds_table
from lcpo.study.report.output import (
    SEEDS,
    check_report,
    how_made,
    is_report,
    read_made,
    write_made,
)
from lcpo.study.report.tables import Table
from lcpo.study.study import Options, Picture, Report, Study, listed
from lcpo.values import whole

COMMAND = "lcpo.study.controls.drawn"
STEPS = 2_000_000
LATE = 4
"""The first 1 / LATE of a run is its warm-up."""
KEY = ("agent", "setting", "env", "trace", "seed")
"""Columns of seeds.csv that identify a run."""
NUMBERS = {"seed": int, "steps": int, "return_after_warmup": float, "whole_run": float,
           "constraint_active": float, "seconds": float}  # fmt: skip
COLUMNS = {*KEY, "steps", "return_after_warmup", "whole_run", "status"}
"""Columns that a report needs."""
PUBLISHED = ", as published"
"""Follows the point of a sweep in the column `setting` of runs with the published faults."""

Key = tuple[str, str]
"""Agent, and its point of a sweep as in `Case.points`."""


class DrawnRun(NamedTuple):
    """A run that has ended; returns are None if it failed."""

    key: Key
    env: str
    trace: str
    seed: int
    steps: int
    after: float | None
    whole: float | None

    @property
    def kind(self) -> str:
        """The family of its trace, or the name of a trace that is not drawn."""
        return TraceRef.parse(self.trace).family or self.trace


@dataclasses.dataclass(frozen=True)
class DrawnOptions(Options):
    """Options of such a study."""

    agents: str | None = None
    """Agents, separated by commas: those of the study, or others, as in lcpo,my_module:agent."""
    envs: str = "pendulum"
    """Environments, separated by commas."""
    traces: str | None = None
    """Contexts, separated by commas, as in 3,4 or family:drift:0..9; default: drawn ones."""
    families: str = "revisit,drift,burst"
    """Families that traces are drawn from, separated by commas."""
    drawn: int = 30
    """Traces of each family."""
    steps: int | None = None
    """Interactions of each run; default: 2,000,000 on drawn traces, else the length of a trace."""
    from_seeds: str | None = None
    """Run nothing: make the report of seeds.csv, a row per run; several are separated by commas."""

    def contexts(self) -> list[str]:
        """The traces."""
        if self.traces is not None:
            return [str(trace) for trace in several(self.traces)]
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
    report: Callable[[list[DrawnRun]], tuple[Mapping[str, Table], Mapping[str, Picture]]],
) -> Study[DrawnOptions]:
    """A study of these cases; `report` makes tables and figures of the runs."""

    def chosen(options: DrawnOptions) -> list[Case]:
        known = {case.title: case for case in cases}
        wanted = list(known) if options.agents is None else listed("agents", options.agents)
        return [known.get(name) or agent_case(name) for name in wanted]

    def plan_runs(options: DrawnOptions) -> list[Job]:
        if options.from_seeds is not None:
            return []
        steps = STEPS if options.steps is None and options.traces is None else options.steps
        where = listed("envs", options.envs), options.contexts()
        return plan_cases(options, chosen(options), *where, steps=steps, seeds=4)

    def make_report(options: DrawnOptions, results: Sequence[Result]) -> Report:
        seeds, made = seeds_table(results, seed_numbers), {}
        if options.from_seeds is not None:
            files = listed("from-seeds", options.from_seeds)
            seeds, made = read_seeds([Path(name) for name in files], chosen(options))
        tables, figures = report(runs_of(seeds))
        return Report(seeds, tables, figures=figures, made=made)

    return Study(help, DrawnOptions, plan_runs, make_report)


def points_of(cases: Sequence[Case]) -> dict[Key, dict[str, Any]]:
    """The values of every point of the cases' sweeps, by agent, variant and point."""
    return {
        (case.agent, "-".join(part for part in (case.variant, at) if part)): values
        for case in cases
        for at, values in case.points().items()
    }


def seed_numbers(result: Result) -> dict[str, float | None]:
    """A run's numbers in seeds.csv."""
    steps, record = result.job.steps, result.record
    return {
        "steps": steps,
        "return_after_warmup": records.lifelong_return(record, steps // LATE),
        "whole_run": records.lifelong_return(record),
        "constraint_active": records.activity(record),
    }


def runs_of(table: Table) -> list[DrawnRun]:
    """The runs of a table of seeds."""
    found = []
    for cells in table.rows:
        row: dict[str, Any] = dict(zip(table.header, cells, strict=True))
        returns = (row["return_after_warmup"], row["whole_run"])
        known = (x if x == x else None for x in returns)
        where = row["env"], row["trace"], row["seed"], row["steps"] or 0
        found.append(DrawnRun(_key(row), *where, *known))
    return found


def _key(row: Mapping[str, Any]) -> Key:
    return row["agent"], row["setting"].removesuffix(PUBLISHED)


def read_seeds(paths: Sequence[Path], cases: Sequence[Case]) -> tuple[Table, dict[str, Any]]:
    """The runs of these cases in several seeds.csv, in the order of the cases; how they were made.

    `made.json` in the folder of each file says how its runs were made.
    """
    found: list[dict[str, Any]] = []
    makers: list[dict[str, Any]] = []
    places: dict[tuple[Cell, ...], Path] = {}
    for path in paths:
        try:
            header, *lines = csv.reader(path.read_text(encoding="utf-8").splitlines())
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {path}: {error}") from error
        makers.append(read_made(path.parent))
        if not set(header) >= COLUMNS:
            raise InputError(f"{path} is not a seeds.csv of this study: its columns are {header}")
        numbers = {name: kind for name, kind in NUMBERS.items() if name in header}
        for number, cells in enumerate(lines, start=2):
            try:
                row: dict[str, Any] = dict(zip(header, cells, strict=True))
                row |= {k: kind(row[k]) if row[k] else None for k, kind in numbers.items()}
            except ValueError as error:
                raise InputError(f"{path}, line {number}, is damaged: {error}") from error
            run = tuple(row[name] for name in KEY)
            if run in places:
                raise InputError(f"{path} has the run {' '.join(map(str, run))}, as {places[run]} "
                                 "has: leave one of them out")  # fmt: skip
            places[run] = path
            found.append(row)
    columns = dict.fromkeys(name for row in found for name in row)
    order = {point: number for number, point in enumerate(points_of(cases))}
    found = sorted((row for row in found if _key(row) in order), key=lambda row: order[_key(row)])
    if not found:
        raise InputError(f"{', '.join(map(str, paths))}: no run of this study in it")
    table = data_table(list(columns), [[row.get(name) for name in columns] for row in found])
    finished = sum(row["status"] == "finished" for row in found)
    counts = {"seeds": len({row["seed"] for row in found}), "finished": finished,
              "failed": len(found) - finished}  # fmt: skip
    names = {f"{name}s": _joined([row[name]] for row in found) for name in KEY[:1] + KEY[2:4]}
    return table, {**_how(makers), **names, **counts}


def _how(makers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Several made.json as one."""
    if not any(makers):
        return {}

    def joined(entries: Sequence[dict[str, Any]], names: Iterable[str]) -> dict[str, list[Any]]:
        return {name: _joined(entry.get(name, []) for entry in entries) for name in names}

    versions = [made.get("versions", {}) for made in makers]
    how = joined(makers, ("commit", "device", "steps"))
    return {**how, "versions": joined(versions, _joined(versions))}


def _joined(lists: Iterable[Iterable[Any]]) -> list[Any]:
    return list(dict.fromkeys(value for values in lists for value in values))


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
