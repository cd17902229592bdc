"""What a study is: a value that says which runs to make, and what to make of them.

    @dataclasses.dataclass(frozen=True)
    class MyOptions(Options):
        steps: int = 100_000
        "Interactions of each run."

    def plan_runs(options: MyOptions) -> list[Job]:
        return plan("lcpo", "pendulum", trace="4", steps=options.steps,
                    seeds=options.seeds, published=options.published)

    def report(options: MyOptions, results: Sequence[Result]) -> Report:
        returns = lambda result: {"return": lifelong_return(result.record)}
        return Report(seeds_table(results, returns), tables={"table": my_table(results)})

    study = Study("LCPO on trace 4", MyOptions, plan_runs, report)

A line in `lcpo.study.paper.STUDIES` gives it a name. `lcpo reproduce NAME` then does the rest:
flags from the options, the runs (several at a time, resumable), the files of the report.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study.tables import Table


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of every study. A study adds its own, and may give these other defaults.

    The string under a field is its help.
    """

    seeds: int = 4
    """Seeds of each agent."""
    out: Path | None = None
    """Folder for the runs and the report; default: out/ and the name of the study."""
    published: bool = False
    """With the values and all faults of the published code."""
    resume: bool = False
    """Go on with the runs that the folder holds."""
    workers: int | None = None
    """Processes at a time; default: one per core."""

    def folder(self, study: str) -> Path:
        """For the runs and the report of the study called `study`: one for each setting."""
        default = type(self).published  # a dataclass keeps it there
        setting = "-published" if self.published else "-corrected"
        return self.out or Path("out") / (study + setting * (self.published != default))


def names(text: str) -> list[str]:
    """The names in an option that holds several, separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


class Picture(NamedTuple):
    """A figure as the content of two files: `lcpo.study.figures.to_picture`."""

    png: bytes
    svg: bytes


class Report(NamedTuple):
    """What a study shows. `lcpo.study.output.write_files` writes it down."""

    seeds: Table
    """A row per run, for seeds.csv: see `lcpo.study.seeds.seeds_table`. Without runs: per seed."""
    tables: Mapping[str, Table] = {}
    """By name: the table NAME becomes NAME.txt, .md, .tex and .csv."""
    numbers: Mapping[str, Table] = {}
    """What NAME.csv holds where programs should read more than readers; default: the table."""
    figures: Mapping[str, Picture] = {}
    """By name: the figure NAME becomes NAME.png and NAME.svg."""
    text: Sequence[str] = ()
    """Lines printed below the tables."""
    made: Mapping[str, Any] = {}
    """Entries of made.json that runs would tell, of a study that has none."""


OptionsT = TypeVar("OptionsT", bound=Options)


class Study(NamedTuple, Generic[OptionsT]):
    """An experiment as a value; the docstring of this module shows how to build one.

    `plan` and `report` are pure but for reading: they train nothing and write nothing. `report` is
    called with the runs of the plan that have ended, of which at least one has finished; failed
    ones are among them (`Result.status`). A plan without jobs is a study that trains nothing: its
    report is called without results.
    """

    help: str
    """One line, for `lcpo list`."""
    Options: type[OptionsT]
    plan: Callable[[OptionsT], list[Job]]
    report: Callable[[OptionsT, Sequence[Result]], Report]
