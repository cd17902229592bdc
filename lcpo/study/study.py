"""A study as a value: which runs to make, and what to report of them.

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

`lcpo reproduce package.module:study` does the rest: flags from the options, parallel and resumable
runs, the files of the report. An entry in `lcpo.study.paper.STUDIES` gives it a shorter name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from lcpo.contexts import fractions
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import check_seeds
from lcpo.run.store.results import Result
from lcpo.study.report.tables import Table
from lcpo.values import file_name, refuse, split

Setting = Literal["corrected", "published"]
SCALES = {
    "paper": (Fraction(1), None),
    "short": (Fraction(1, 20), 5),
    "smoke": (Fraction(1, 400), 1),
}
"""The share of the paper's steps, and the largest number of seeds (None: the paper's), by name."""
SMOKE = Fraction(1, 100)
"""In runs of at most this share of the paper's steps, agents have hardly learned anything."""


def read_scale(text: str) -> tuple[Fraction, int | None]:
    """The steps and seeds of a scale, given by name or as a fraction."""
    if text in SCALES:
        return SCALES[text]
    if not any(character.isdigit() for character in text):
        raise InputError(unknown("scale", text, SCALES) + " (or a fraction such as 1/20)")
    return fractions.read("scale", text), None


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of every study, which may add its own and change these defaults.

    The string under a field is its help. None: the study's default.
    """

    without: ClassVar[tuple[str, ...]] = ()
    """Options that the study's command does not have."""

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
    play faster by the same factor, and warm-up, random phases and schedules shrink with them."""
    out: Path | None = None
    """Folder for the runs and the report; default: a folder in out/ named after the study."""
    resume: bool = True
    """Resume the runs in the folder; off: report an error if it holds runs."""
    workers: int | None = None
    """Worker processes; default: one per core, on a GPU none (0: run in this process)."""
    engine: str = "local"
    """Where to run: local, ray (a cluster), slurm (writes a script to submit)."""
    address: str | None = None
    """HOST:PORT of a Ray cluster; default: the cluster that this machine is part of."""
    plan: Path | None = None
    """Do not run: write the jobs into this folder, for another machine."""
    collect: Path | None = None
    """Do not run: make the report from the runs in this folder."""
    check: bool = dataclasses.field(default=True, metadata={"option": False})
    """Whether planning checks every program; off: jobs can only be counted."""

    @property
    def published(self) -> bool:
        return self.setting == "published"

    @property
    def fraction(self) -> Fraction:
        """The length of runs as a share of the paper's."""
        return read_scale(self.scale)[0]

    @property
    def warnings(self) -> list[str]:
        """What a reader of a shortened study must know first."""
        words = f"runs have {self.fraction} of the paper's steps"
        if self.fraction <= SMOKE:
            return [f"Smoke test: {words}. It shows that the experiment runs. Its numbers say "
                    "nothing about the agents."]  # fmt: skip
        return [f"Shortened: {words}."] if self.fraction < 1 else []

    def num_seeds(self, paper: int = 25) -> int:
        """The number of seeds: the option, or that of the scale; `paper`: the paper's."""
        if self.seeds is not None:
            return len(check_seeds(self.seeds))
        few = read_scale(self.scale)[1]
        return paper if few is None else min(few, paper)

    def folder(self, study: str) -> Path:
        """Folder of the runs and the report of a study: one per setting and scale."""
        default = type(self)  # a dataclass keeps them there
        parts = [study, *([self.setting] if self.setting != default.setting else [])]
        parts += [self.scale] if self.scale != default.scale else []
        return self.out or Path("out") / file_name("-".join(parts))


NO_RUNS = (
    "agents", "envs", "traces", "setting", "scale", "workers", "engine", "address", "plan",
    "collect",
)  # fmt: skip
"""`without` of a study that makes no runs."""


def names(text: str) -> list[str]:
    """The names in an option that holds several, separated by commas."""
    return [name for name in split("names", text) if name]


def listed(what: str, text: str) -> list[str]:
    """The same; InputError unless there is at least one, without duplicates."""
    found = names(text)
    if not found or len(set(found)) < len(found):
        refuse(what, text, "names separated by commas, without duplicates")
    return found


def listed_numbers(what: str, text: str, kind: Callable[[str], Any] = float) -> list[Any]:
    """The numbers in an option that holds several, separated by commas."""
    try:
        return [kind(word) for word in text.split(",")]
    except ValueError:
        raise InputError(f"{what} = {text!r}: needs numbers, as in 1,10") from None


class Picture(NamedTuple):
    """A figure as the content of two files: `lcpo.study.report.figures.to_picture`."""

    png: bytes
    svg: bytes
    heading: str = ""
    """What it shows; on the page."""
    caption: str = ""
    """How to read it: axes, lines, bands."""


class Report(NamedTuple):
    """The output of a study, which `lcpo.study.report.output.write_files` writes."""

    seeds: Table
    """For seeds.csv, a row per run (`report.document.seeds_table`); without runs: per seed."""
    tables: Mapping[str, Table] = {}
    """By name: the table NAME becomes NAME.txt, .md, .tex and .csv. report.json holds all."""
    figures: Mapping[str, Picture] = {}
    """By name: the figure NAME becomes NAME.png and NAME.svg."""
    text: Sequence[str] = ()
    """Lines printed below the tables."""
    made: Mapping[str, Any] = {}
    """Entries of made.json, for a study without runs."""


OptionsT = TypeVar("OptionsT", bound=Options)


class Study(NamedTuple, Generic[OptionsT]):
    """An experiment as a value; the docstring of this module shows how to build one.

    `plan` and `report` train and write nothing. `report` gets the runs of the plan that have ended,
    failed ones included (`Result.status`), of which at least one has finished; none if the plan has
    no jobs.
    """

    help: str
    """One line, for `lcpo list`."""
    Options: type[OptionsT]
    plan: Callable[[OptionsT], list[Job]]
    report: Callable[[OptionsT, Sequence[Result]], Report]
    left_out: Callable[[OptionsT], str] = lambda options: ""
    """What these options omit from the experiment, and how to run it; printed before the runs."""
    complete: Callable[[OptionsT, list[Job]], list[Job]] = lambda options, jobs: jobs
    """Fills in values of checked jobs that take long to compute; counting jobs needs none."""
