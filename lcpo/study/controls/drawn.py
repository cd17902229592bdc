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
import csv
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lcpo.contexts import families
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import plan
from lcpo.run.store import record as records
from lcpo.run.store.outputs import check_own_folder
from lcpo.run.store.results import Result, load_results
from lcpo.study.measure.seeds import seeds_table
from lcpo.study.report.output import SEEDS, check_report, how_made, is_report, read_made, write_made
from lcpo.study.report.tables import Table
from lcpo.study.study import Options, listed
from lcpo.values import whole

COMMAND = "lcpo.study.controls.drawn"
STEPS = 2_000_000
LATE = 4
"""One part in so many of a run is its warm-up."""
COLUMNS = {
    "agent", "setting", "env", "trace", "seed", "status", "steps", "return_after_warmup",
    "whole_run",
}  # fmt: skip
"""Of a seeds.csv that a report can be made of."""


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


def plan_runs(options: DrawnOptions, cases: Mapping[str, Case]) -> list[Job]:
    """Every case with every trace and seed; the runs of a trace stand together."""
    if options.from_seeds is not None:
        return []
    chosen, steps = chosen_cases(options, cases), options.steps
    if steps is None and options.traces is None:
        steps = STEPS
    return [
        job
        for env in listed("envs", options.envs)
        for trace in options.contexts()
        for agent, case in chosen.items()
        for job in plan(
            agent,
            env,
            trace=trace,
            steps=steps,
            fraction=options.fraction,
            seeds=range(options.num_seeds(4)),
            overrides=case.values,
            sweep=case.sweep,
            published=options.published,
        )
    ]


def chosen_cases(options: Options, cases: Mapping[str, Case]) -> dict[str, Case]:
    """Those that `--agents` names."""
    chosen = list(cases) if options.agents is None else listed("agents", options.agents)
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
    header, rows, how = read_seeds(
        [Path(name) for name in listed("from-seeds", options.from_seeds)]
    )
    points = [(agent, point) for agent, case in cases.items() for point in case.settings()]
    known = {point: number for number, point in enumerate(points)}
    column = {name: number for number, name in enumerate(header)}

    def place(row: Sequence[str]) -> int | None:
        return known.get((row[column["agent"]], point_of(row[column["setting"]])))

    mine = [(number, row) for row in rows if (number := place(row)) is not None]
    rows = [row for _, row in sorted(mine, key=lambda pair: pair[0])]
    if not rows:
        raise InputError(f"{options.from_seeds}: no run of this study in it")
    distinct = {
        f"{name}s": list(dict.fromkeys(row[column[name]] for row in rows))
        for name in ("agent", "env", "trace")
    }
    finished = sum(row[column["status"]] == "finished" for row in rows)
    counts = {"seeds": len({row[column["seed"]] for row in rows}), "finished": finished,
              "failed": len(rows) - finished}  # fmt: skip
    return Table(header, rows, "l" * len(header)), {**how, **distinct, **counts}


def read_seeds(paths: Sequence[Path]) -> tuple[list[str], list[list[str]], dict[str, Any]]:
    """Header and rows of several seeds.csv as one, and what the files made.json beside them say."""
    columns: list[str] = []
    found: list[dict[str, str]] = []
    makers: list[dict[str, Any]] = []
    places: dict[tuple[str, ...], Path] = {}
    for path in paths:
        try:
            header, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
            made = read_made(path.parent)
            makers += [made] if made else []
        except InputError:
            raise
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {path}: {error}") from error
        if not set(header) >= COLUMNS:
            raise InputError(f"{path} is no seeds.csv of this study: its columns are {header}")
        _check_rows(path, header, rows)
        columns += [name for name in header if name not in columns]
        for cells in rows:
            row = dict(zip(header, cells, strict=True))
            run = tuple(row[name] for name in ("agent", "setting", "env", "trace", "seed"))
            if run in places:
                raise InputError(f"{path} has the run {' '.join(run)}, as {places[run]} has: "
                                 "leave one of them out")  # fmt: skip
            places[run] = path
            found.append(row)
    how = {
        name: list(dict.fromkeys(value for made in makers for value in made.get(name, [])))
        for name in ("commit", "device", "steps")
    }
    packages = dict.fromkeys(name for made in makers for name in made.get("versions", {}))
    versions = {
        name: list(dict.fromkeys(v for made in makers for v in made["versions"].get(name, [])))
        for name in packages
    }
    rows = [[row.get(name, "") for name in columns] for row in found]
    return columns, rows, {**how, "versions": versions} if makers else {}


def _check_rows(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Raise InputError for a line that was cut, or has words where numbers should be."""
    for line, cells in enumerate(rows, start=2):
        row = dict(zip(header, cells, strict=False))
        try:
            if len(cells) != len(header):
                raise ValueError(f"{len(cells)} cells, the header has {len(header)}")
            _ = [int(row[name] or 0) for name in ("seed", "steps")]
            _ = [float(row[name] or 0) for name in ("return_after_warmup", "whole_run")]
        except ValueError as error:
            raise InputError(f"{path}, line {line}, is damaged: {error}") from error


def point_of(setting: str) -> str:
    """The point of a sweep in the column `setting` of seeds.csv."""
    return setting.removesuffix(", as published")


def main() -> None:
    """See the docstring of this module."""
    parser = argparse.ArgumentParser(
        prog="python -m lcpo.study.controls.drawn", description=__doc__
    )
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
