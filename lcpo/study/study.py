"""What a study is: a value that says which runs to make, and what to make of them.

    @dataclasses.dataclass(frozen=True)
    class MyOptions(Options):
        traces: str = "4"
        "Contexts, separated by commas."
        without: ClassVar[tuple[str, ...]] = ("agents", "envs")

    def plan_runs(options: MyOptions) -> list[Job]:
        return [job for trace in names(options.traces)
                for job in plan("lcpo", "pendulum", trace=trace, fraction=options.fraction,
                                seeds=options.num_seeds(), published=options.published)]

    def report(options: MyOptions, results: Sequence[Result]) -> Report:
        returns = lambda result: {"return": lifelong_return(result.record)}
        return Report(seeds_table(results, returns), tables={"table": my_table(results)})

    study = Study("LCPO on trace 4", MyOptions, plan_runs, report)

`lcpo reproduce package.module:study` then does the rest: flags from the options, the runs (several
at a time, resumable), the files of the report. An entry in `lcpo.study.paper.STUDIES` gives a study
a shorter name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import check_seeds
from lcpo.run.store.results import Result
from lcpo.study.report.tables import Table
from lcpo.study.scale import read_scale
from lcpo.values import file_name, refuse

Setting = Literal["corrected", "published"]


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of every study. A study adds its own, and may give these other defaults.

    The string under a field is its help. Parts that are None are what the study has by default.
    """

    without: ClassVar[tuple[str, ...]] = ()
    """Options that make no sense in a study: the command does not have them."""

    agents: str | None = None
    """Agents, separated by commas; default: those of the experiment."""
    envs: str | None = None
    """Environments, separated by commas; default: those of the experiment."""
    traces: str | None = None
    """Contexts, separated by commas; default: those of the experiment."""
    seeds: int | None = None
    """Seeds of each agent; default: as many as the scale says."""
    setting: Setting = "corrected"
    """corrected, or published: with the values and all faults of the published code."""
    scale: str = "paper"
    """How long runs are: paper, short, smoke, or a fraction of the paper's such as 1/20. Contexts
    are played so much faster, and warm-up, random phases and schedules are shortened with them."""
    out: Path | None = None
    """Folder for the runs and the report; default: out/ and the name of the study."""
    resume: bool = True
    """Go on with the runs that the folder holds; off: refuse a folder that holds some."""
    workers: int | None = None
    """Processes at a time; default: one per core, and on a GPU none beside this one."""
    engine: str = "local"
    """What runs the jobs: local, this machine; ray, a cluster; slurm, a script for one."""
    address: str | None = None
    """Of a cluster: where the engine finds it."""
    plan: Path | None = None
    """Run nothing: write the jobs into this folder, for another machine."""
    collect: Path | None = None
    """Run nothing: make the report of the runs that this folder holds."""
    check: bool = dataclasses.field(default=True, metadata={"option": False})
    """Whether programs are tried out while planning; off: the jobs are only counted."""

    @property
    def published(self) -> bool:
        """Whether values and faults are those of the published code."""
        return self.setting == "published"

    @property
    def fraction(self) -> Fraction:
        """How long runs are, as a share of the paper's."""
        return read_scale(self.scale).fraction

    def num_seeds(self, paper: int = 25) -> int:
        """How many seeds: what was asked for, or what the scale says; `paper`: of the paper."""
        if self.seeds is not None:
            return len(check_seeds(self.seeds))
        few = read_scale(self.scale).seeds
        return paper if few is None else min(few, paper)

    def folder(self, study: str) -> Path:
        """For the runs and the report of the study called `study`: one per setting and scale."""
        default = type(self)  # a dataclass keeps them there
        parts = [study, *([self.setting] if self.setting != default.setting else [])]
        parts += [self.scale] if self.scale != default.scale else []
        return self.out or Path("out") / file_name("-".join(parts))


NO_RUNS = (
    "agents", "envs", "traces", "setting", "scale", "workers", "engine", "address", "plan",
    "collect",
)  # fmt: skip
"""Options that a study has no use for that makes no runs: its `without`."""


def names(text: str) -> list[str]:
    """The names in an option that holds several, separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def listed(what: str, text: str) -> list[str]:
    """The same where there must be one at least; each once."""
    found = names(text)
    if not found or len(set(found)) < len(found):
        refuse(what, text, "names, separated by commas, and each once")
    return found


class Picture(NamedTuple):
    """A figure as the content of two files: `lcpo.study.report.figures.to_picture`."""

    png: bytes
    svg: bytes


class Report(NamedTuple):
    """What a study shows. `lcpo.study.report.output.write_files` writes it down."""

    seeds: Table
    """For seeds.csv, a row per run (`report.document.seeds_table`); without runs: per seed."""
    tables: Mapping[str, Table] = {}
    """By name: the table NAME becomes NAME.txt, .md, .tex and .csv. report.json holds all."""
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
    left_out: Callable[[OptionsT], str] = lambda options: ""
    """What these options leave out of the experiment, and how to have it; told before the runs."""
    complete: Callable[[OptionsT, list[Job]], list[Job]] = lambda options, jobs: jobs
    """Fills in what takes long to work out, once all jobs have been checked: they can be counted
    without it, and not run."""
