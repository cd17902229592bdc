"""Studies of lifelong returns beside a table of the paper: declared by their cases and fields.

Every case is run in every environment with every trace. Its runs there are a line of our table, and
its cell of the paper's stands in that line. Fields say what else of a line is shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeVar

from lcpo.contexts import TraceRef
from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study.cases import Case, plan_cases
from lcpo.study.measure import compare
from lcpo.study.measure.compare import AgentRow, Summary
from lcpo.study.measure.paper_numbers import printed, read_table
from lcpo.study.measure.seeds import seeds_table
from lcpo.study.report import report
from lcpo.study.report.cells import Cell, Column, Printed
from lcpo.study.report.tables import Table, lengths, short_count
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
    """Its name, without the fraction at which it was played."""
    results: list[Result]
    comparison: Summary


class Line(NamedTuple):
    """The runs of a case in one environment with one trace."""

    part: Part
    title: str
    runs: list[Result]
    row: AgentRow
    """Their numbers, over seeds."""

    @property
    def job(self) -> Job:
        """Of one of the runs."""
        return self.runs[0].job

    @property
    def key(self) -> tuple[str, str]:
        """Agent and variant."""
        return self.job.agent, self.job.kind

    def printed(self, table: str) -> Printed | None:
        """What a table of the paper has in its place."""
        agent, variant = self.key
        return printed(table, agent, self.part.env, self.part.trace, variant)

    def returns(self, after: int) -> dict[int, float]:
        """By seed, after so many steps."""
        endless = self.part.comparison.endless
        finished = compare.finished_runs(self.runs)
        return {r.job.seed: compare.run_return(r.record, after, endless) for r in finished}


class Found(NamedTuple):
    """What a report is made of."""

    cases: Sequence[Case]
    results: Sequence[Result]
    parts: list[Part]
    lines: list[Line]
    paper: str
    """The name of the paper's table; empty: it has none."""


Field = tuple[Column, Callable[[Line], Cell]]
"""A column of a table. In its name, {warmup} stands for the length of the warm-up."""


def paper_field(table: str) -> Field:
    """The paper's number."""
    return Column("paper"), lambda line: line.printed(table)


ENV: Field = (Column("env", side="l"), lambda line: line.part.env)
TRACE: Field = (Column("trace", side="l"), lambda line: line.part.trace)
AGENT: Field = (Column("agent", side="l"), lambda line: line.title)
SEEDS: Field = (Column("seeds"), lambda line: report.seeds_cell(line.row))
LATE: Field = (Column("return after {warmup}", key="late"), lambda line: line.row.after_warmup)
WHOLE: Field = (Column("whole run"), lambda line: line.row.whole_run)
ACTIVE: Field = (Column("active", decimals=1, unit="%"), lambda line: line.row.measured["activity"])


def column_study(
    help: str,
    Options: type[OptionsT],
    cases: Callable[[OptionsT], Sequence[Case]],
    *,
    paper: str = "",
    fields: Sequence[Field] | None = None,
    title: Callable[[Sequence[Part]], str] | None = None,
    notes: Callable[[Sequence[Result]], Sequence[str]] = lambda results: (),
    seeds: int | Callable[[Case], int] = 5,
    numbers: Callable[[Summary, Result], Mapping[str, float | None]] = report.seed_numbers,
    more: Callable[[Found], tuple[Mapping[str, Table], Mapping[str, Picture]]] | None = None,
) -> Study[OptionsT]:
    """A study of these cases; `more` makes further tables and figures.

    `fields`: of the table; default: returns beside the paper's, and the paper's best ones below.
    `numbers`: of a run, for seeds.csv.
    """

    def plan_runs(options: OptionsT) -> list[Job]:
        envs, traces = listed("envs", options.envs), listed("traces", options.traces)
        return plan_cases(options, cases(options), envs, traces, seeds=seeds, marked=True)

    def make_report(options: OptionsT, results: Sequence[Result]) -> Report:
        found = find_lines(cases(options), results, paper)
        heading = (title or title_of)(found.parts)
        table = make_table(found, fields, heading, notes(results))
        tables, figures = more(found) if more else ({}, {})
        seeds = part_seeds(found, numbers)
        return Report(seeds, {"table": table, **tables}, figures=figures)

    return Study(help, Options, plan_runs, make_report)


OptionsT = TypeVar("OptionsT", bound=ColumnOptions)


def find_lines(cases: Sequence[Case], results: Sequence[Result], paper: str = "") -> Found:
    """The runs by environment, trace and case: those parts in which some have finished."""
    parts: dict[tuple[str, TraceRef | None], list[Result]] = {}
    for result in results:
        parts.setdefault((result.job.env, result.job.trace), []).append(result)
    found = [
        Part(env, str(trace.whole) if trace else "", members, compare.summarise(members))
        for (env, trace), members in parts.items()
        if compare.finished_runs(members)
    ]
    titles = {(case.agent, case.variant): case.title for case in cases}
    lines = []
    for part in found:
        groups = compare.group(part.results)
        for row in part.comparison.rows:
            line = Line(part, "", groups[row.label], row)
            plain = dataclasses.replace(line.job, setting="").label
            lines.append(line._replace(title=titles.get(line.key, plain)))
    return Found(cases, results, found, lines, paper)


def make_table(
    found: Found, fields: Sequence[Field] | None, title: str, notes: Sequence[str] = ()
) -> Table:
    """A row per line; without fields, below those of a part, the best ones that the paper has."""
    chosen = fields or (ENV, TRACE, AGENT, SEEDS, LATE, WHOLE, paper_field(found.paper), ACTIVE)
    rows = []
    for part in found.parts:
        lines = [line for line in found.lines if line.part is part]
        rows += [[cell(line) for _, cell in chosen] for line in lines]
        rows += best_rows(found.paper, part, lines) if fields is None else []
    warmup = warmups(found.parts)
    columns = [column._replace(name=column.name.format(warmup=warmup)) for column, _ in chosen]
    compared = (f"return after {warmup}", "paper")
    known = {column.name for column in columns} >= set(compared)
    return Table(columns, rows, title=title, notes=notes, compared=compared if known else None)


def best_rows(paper: str, part: Part, lines: Sequence[Line]) -> list[list[Cell]]:
    """What else the paper prints for a part: its best agents."""
    ours = {line.key: line.row.after_warmup for line in lines}
    return [
        [
            env,
            trace,
            f"{variant.replace('-', ' ')}: {agent}",
            "",
            ours.get((agent, "")),
            "",
            cell,
            "",
        ]
        for (agent, env, trace, variant), cell in read_table(paper).items()
        if (env, trace) == (part.env, part.trace) and variant.startswith("best-")
    ]


def warmups(parts: Sequence[Part]) -> str:
    """How long they are: "6M", or "6M or 300,000"."""
    return " or ".join(dict.fromkeys(short_count(part.comparison.warmup) for part in parts))


def title_of(parts: Sequence[Part]) -> str:
    """How long the runs are, and with whose values."""
    trace = parts[0].results[0].job.trace
    share = trace.fraction if trace else 1
    scale = "" if share == 1 else f" ({share} of the paper's)"
    return f"{_length(parts)}{scale}, {_setting(parts)}; 95 % intervals over seeds"


def pendulum_title(parts: Sequence[Part]) -> str:
    """The same of a study on the Pendulum alone."""
    return f"pendulum, {_length(parts)}, {_setting(parts)}; 95 % intervals over seeds"


def _length(parts: Sequence[Part]) -> str:
    return f"{lengths(part.comparison.steps for part in parts)} steps"


def _setting(parts: Sequence[Part]) -> str:
    faults = any(result.job.config.get("faults") for part in parts for result in part.results)
    return "as published, with its faults" if faults else "faults corrected"


def part_seeds(
    found: Found, numbers: Callable[[Summary, Result], Mapping[str, float | None]]
) -> Table:
    """A row per run, for seeds.csv."""
    known = {(p.env, p.results[0].job.trace): p.comparison for p in found.parts}
    return seeds_table(found.results, lambda r: numbers(known[r.job.env, r.job.trace], r))
