"""Studies of lifelong returns next to a table of the paper, declared by their cases and fields.

Every case is run in every environment with every trace. Its runs there are a line of our table,
next to the paper's number. Fields are the columns of the table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeVar

from lcpo.contexts import TraceRef, in_short, several
from lcpo.errors import InputError
from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study.cases import Case, plan_cases
from lcpo.study.costs import short_count
from lcpo.study.measure import compare, stats
from lcpo.study.measure.compare import AgentRow, Summary
from lcpo.study.report import report
from lcpo.study.report.cells import Cell, Column, Printed, count_of
from lcpo.study.report.document import seeds_table
from lcpo.study.report.paper_numbers import printed, read_table
from lcpo.study.report.tables import Table
from lcpo.study.study import Options, Picture, Report, Study, listed

ENVS = "pendulum,inverted-pendulum,inverted-double-pendulum,hopper,reacher"
TRACES = "1,2,3,4"


@dataclasses.dataclass(frozen=True)
class ColumnOptions(Options):
    """Options of such a study."""

    envs: str = ENVS
    """Environments, separated by commas."""
    traces: str = TRACES
    """Contexts, separated by commas."""


@dataclasses.dataclass(frozen=True)
class PendulumOptions(ColumnOptions):
    """Options of such a study on the windy Pendulum alone."""

    without: ClassVar[tuple[str, ...]] = ("envs",)

    envs: str = "pendulum"


class Part(NamedTuple):
    """The runs in one environment with one trace."""

    env: str
    trace: str
    """Its name, without the fraction at which it is played."""
    results: list[Result]
    comparison: Summary
    lines: list[Line]


class Line(NamedTuple):
    """The runs of a case in one environment with one trace, and their numbers over seeds."""

    part: Part
    runs: list[Result]
    row: AgentRow

    @property
    def job(self) -> Job:
        return self.runs[0].job

    @property
    def finished(self) -> list[Result]:
        return compare.finished_runs(self.runs)

    @property
    def title(self) -> str:
        """The variant, or the agent and its point of a sweep."""
        return self.job.variant or dataclasses.replace(self.job, setting="").label

    def printed(self, table: str) -> Printed | None:
        """The paper's number."""
        return printed(table, self.job.agent, self.part.env, self.part.trace, self.job.kind)

    def returns(self, after: int) -> dict[int, float]:
        """Returns by seed, after this many steps."""
        return compare.returns(self.runs, after, self.part.comparison.endless)


class Found(NamedTuple):
    """The data of a report."""

    results: Sequence[Result]
    parts: list[Part]
    paper: str
    """The name of the paper's table; empty: it has none."""

    def words(self) -> dict[str, str]:
        """Placeholders of titles, notes and column names, such as "{steps} steps"."""
        jobs = [result.job for result in self.results]
        comparisons = [part.comparison for part in self.parts]
        longest = max(one.steps for one in comparisons)
        share = jobs[0].trace.fraction if jobs[0].trace else 1
        enough = any(row.finished >= stats.FEWEST for one in comparisons for row in one.rows)
        faults = any(job.config.get("faults") for job in jobs)
        return {
            "steps": " or ".join(dict.fromkeys(f"{one.steps:,}" for one in comparisons)),
            "longest": f"{longest:,}",
            "quarter": short_count(longest // 4),
            "warmup": " or ".join(dict.fromkeys(short_count(one.warmup) for one in comparisons)),
            "random_steps": f"{max(job.config.get('random_steps', 0) for job in jobs):,}",
            "trace": str(jobs[0].trace),
            "scale": "" if share == 1 else f" ({share} of the paper's)",
            "setting": "as published, with its faults" if faults else "faults corrected",
            "intervals": "95 % intervals over seeds" if enough else "too few seeds for intervals",
        }


TITLE = "{steps} steps{scale}, {setting}; {intervals}"
PENDULUM_TITLE = "pendulum, {steps} steps, {setting}; {intervals}"
Field = tuple[Column, Callable[[Line], Cell]]
"""A column, whose name may have placeholders of `Found.words`, and its cells."""
Numbers = Callable[[Summary, Result], Mapping[str, float | None]]
"""Numbers of a finished run."""


PAPER = Column("paper", about="what the paper prints")


def paper_field(table: str) -> Field:
    """The paper's number."""
    return PAPER, lambda line: line.printed(table)


def text_field(name: str, cell: Callable[[Line], Cell]) -> Field:
    """A column of names."""
    return Column(name, side="l"), cell


ENV = text_field("env", lambda line: line.part.env)
TRACE = text_field("trace", lambda line: line.part.trace)
PLAYED = text_field("trace", lambda line: line.job.trace_name)
"""With the fraction at which it is played."""
TITLED = text_field("agent", lambda line: line.title)
AGENT = text_field("agent", lambda line: line.job.agent)
ENDED: Field = (report.SEEDS, lambda line: count_of(len(line.finished), len(line.runs)))
SEEDS: Field = (report.SEEDS, lambda line: report.seeds_cell(line.row))
LATE: Field = (report.late_column("{warmup}"), lambda line: line.row.after_warmup)
WHOLE: Field = (report.WHOLE_RUN, lambda line: line.row.whole_run)
ACTIVE: Field = (report.ACTIVE, lambda line: line.row.measured["activity"])


OptionsT = TypeVar("OptionsT", bound=Options)


def named(options: Options) -> tuple[list[str], list[str]]:
    """The environments and traces of the options."""
    traces = [str(trace) for trace in several(options.traces or "")]
    return listed("envs", options.envs or ""), traces


def column_study(
    help: str,
    Options: type[OptionsT],
    cases: Callable[[OptionsT], Sequence[Case]],
    *,
    where: Callable[[OptionsT], tuple[Sequence[str], Sequence[str | None]]] = named,
    steps: Callable[[OptionsT], int | None] = lambda options: None,
    seeds: int | Callable[[Case], int] = 5,
    marked: bool = True,
    paper: str = "",
    fields: Sequence[Field] = (),
    title: str = TITLE,
    heading: str = "Return of each agent",
    notes: Sequence[str] = (),
    numbers: Numbers = report.seed_numbers,
    more: Callable[[Found], tuple[Mapping[str, Table], Mapping[str, Picture]]] | None = None,
    left_out: Callable[[OptionsT], str] = lambda options: "",
) -> Study[OptionsT]:
    """A study of these cases, planned by `plan_cases`; `more` makes further tables and figures.

    `where`: environments and traces; default: those of the options. `fields`: the columns of the
    table; default: returns next to the paper's, and below them the paper's best ones. Title and
    notes may have placeholders of `Found.words`. `numbers`: of a run, for seeds.csv.
    """

    def plan_runs(options: OptionsT) -> list[Job]:
        envs, traces = where(options)
        shared = {"steps": steps(options), "seeds": seeds, "marked": marked}
        if shared["steps"] is None:
            check_ends(traces)
        return plan_cases(options, cases(options), envs, traces, **shared)

    def make_report(options: OptionsT, results: Sequence[Result]) -> Report:
        found = find_parts(results, paper)
        known = {(p.env, p.results[0].job.trace): p.comparison for p in found.parts}
        every = (ENV, TRACE, TITLED, LATE, paper_field(paper), WHOLE, SEEDS, ACTIVE)
        below = None if fields else best_rows
        words = heading if fields else f"{heading}, beside the paper's"
        table = make_table(found, fields or every, title, notes, below, words)
        tables, figures = more(found) if more else ({}, {})
        return Report(
            seeds_table(results, lambda r: numbers(known[r.job.env, r.job.trace], r)),
            {"table": table, **tables},
            figures=figures,
            text=list(filter(None, [left_out(options)])),
        )

    return Study(help, Options, plan_runs, make_report, left_out)


def check_ends(traces: Sequence[str | None]) -> None:
    """Raise InputError for a trace without an end, where runs last as long as their trace."""
    for trace in traces:
        if trace is not None and TraceRef.parse(trace).any_length:
            raise InputError(
                f"trace {trace!r} has no end, and this study runs each trace to its end, beside "
                "the paper's numbers: compare agents on it with `lcpo compare --env ENV --agents "
                f"lcpo,a2c --traces {in_short(filter(None, traces))} --steps 2000000`"
            )


def find_parts(results: Sequence[Result], paper: str = "") -> Found:
    """The runs by environment, trace and case, in parts with at least one finished run."""
    groups: dict[tuple[str, TraceRef | None], list[Result]] = {}
    for result in results:
        groups.setdefault((result.job.env, result.job.trace), []).append(result)
    parts = []
    for (env, trace), members in groups.items():
        if compare.finished_runs(members):
            comparison = compare.summarise(members)
            part = Part(env, str(trace.whole) if trace else "", members, comparison, [])
            runs = compare.group(members)
            part.lines.extend(Line(part, runs[row.label], row) for row in comparison.rows)
            parts.append(part)
    return Found(results, parts, paper)


def make_table(
    found: Found,
    fields: Sequence[Field],
    title: str,
    notes: Sequence[str] = (),
    below: Callable[[Found, Part], list[list[Cell]]] | None = None,
    heading: str = "",
) -> Table:
    """A row per line; `below`: further rows of a part."""
    rows, words = [], found.words()
    for part in found.parts:
        rows += [[cell(line) for _, cell in fields] for line in part.lines]
        rows += below(found, part) if below else []
    columns = [
        column._replace(name=column.name.format(**words), about=column.about.format(**words))
        for column, _ in fields
    ]
    names = [column.name for column in columns]
    ours = next((name for name in names if name.startswith("return")), None)
    return Table(
        columns,
        rows,
        title=title.format(**words),
        notes=[note.format(**words) for note in notes],
        compared=(ours, "paper") if ours and "paper" in names else None,
        heading=heading,
    )


def best_rows(found: Found, part: Part) -> list[list[Cell]]:
    """The paper's best agents."""
    ours = {line.title: line.row.after_warmup for line in part.lines}
    rows: list[list[Cell]] = []
    for (agent, env, trace, variant), cell in read_table(found.paper).items():
        if (env, trace) == (part.env, part.trace) and variant.startswith("best-"):
            title = f"{variant.replace('-', ' ')}: {agent}"
            rows.append([env, trace, title, ours.get(agent), cell, "", "", ""])
    return rows
