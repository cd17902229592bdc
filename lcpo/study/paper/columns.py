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
from lcpo.study.costs import short_count
from lcpo.study.measure import compare
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
    """Its name, without the fraction at which it was played."""
    results: list[Result]
    comparison: Summary
    lines: list[Line]


class Line(NamedTuple):
    """The runs of a case in one environment with one trace."""

    part: Part
    runs: list[Result]
    row: AgentRow
    """Their numbers, over seeds."""

    @property
    def job(self) -> Job:
        """Of one of the runs."""
        return self.runs[0].job

    @property
    def finished(self) -> list[Result]:
        """The runs that did not fail."""
        return compare.finished_runs(self.runs)

    @property
    def title(self) -> str:
        """The variant, or the agent and its point of a sweep."""
        return self.job.variant or dataclasses.replace(self.job, setting="").label

    def printed(self, table: str) -> Printed | None:
        """What a table of the paper has in its place."""
        return printed(table, self.job.agent, self.part.env, self.part.trace, self.job.kind)

    def returns(self, after: int) -> dict[int, float]:
        """By seed, after so many steps."""
        endless = self.part.comparison.endless
        return {r.job.seed: compare.run_return(r.record, after, endless) for r in self.finished}


class Found(NamedTuple):
    """What a report is made of."""

    results: Sequence[Result]
    parts: list[Part]
    paper: str
    """The name of the paper's table; empty: it has none."""

    def words(self) -> dict[str, str]:
        """What titles, notes and names of columns may say of the runs, as in "{steps} steps"."""
        jobs = [result.job for result in self.results]
        comparisons = [part.comparison for part in self.parts]
        longest = max(one.steps for one in comparisons)
        share = jobs[0].trace.fraction if jobs[0].trace else 1
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
        }


TITLE = "{steps} steps{scale}, {setting}; 95 % intervals over seeds"
PENDULUM_TITLE = "pendulum, {steps} steps, {setting}; 95 % intervals over seeds"
Field = tuple[Column, Callable[[Line], Cell]]
"""A column of a table; its name may have words of `Found.words`."""
Numbers = Callable[[Summary, Result], Mapping[str, float | None]]
"""Of a run that finished."""


def paper_field(table: str) -> Field:
    """The paper's number."""
    return Column("paper"), lambda line: line.printed(table)


ENV: Field = (Column("env", side="l"), lambda line: line.part.env)
TRACE: Field = (Column("trace", side="l"), lambda line: line.part.trace)
PLAYED: Field = (Column("trace", side="l"), lambda line: line.job.trace_name)
"""With the fraction at which it was played."""
TITLED: Field = (Column("agent", side="l"), lambda line: line.title)
AGENT: Field = (Column("agent", side="l"), lambda line: line.job.agent)
ENDED: Field = (Column("seeds"), lambda line: count_of(len(line.finished), len(line.runs)))
SEEDS: Field = (Column("seeds"), lambda line: report.seeds_cell(line.row))
LATE: Field = (
    Column("return after {warmup}", key="after_warmup"),
    lambda line: line.row.after_warmup,
)
WHOLE: Field = (Column("whole run"), lambda line: line.row.whole_run)
RETURNS = (SEEDS, LATE, WHOLE)
ACTIVE: Field = (Column("active", decimals=1, unit="%"), lambda line: line.row.measured["activity"])


def column_study(
    help: str,
    Options: type[OptionsT],
    cases: Callable[[OptionsT], Sequence[Case]],
    *,
    where: Callable[[OptionsT], tuple[Sequence[str], Sequence[str | None]]] | None = None,
    steps: Callable[[OptionsT], int | None] = lambda options: None,
    seeds: int | Callable[[Case], int] = 5,
    marked: bool = True,
    paper: str = "",
    fields: Sequence[Field] = (),
    title: str = TITLE,
    notes: Sequence[str] = (),
    numbers: Numbers = report.seed_numbers,
    more: Callable[[Found], tuple[Mapping[str, Table], Mapping[str, Picture]]] | None = None,
    left_out: Callable[[OptionsT], str] = lambda options: "",
) -> Study[OptionsT]:
    """A study of these cases, planned by `plan_cases`; `more` makes further tables and figures.

    `where`: environments and traces; default: those that the options name. `fields`: of the table;
    default: returns beside the paper's, and the paper's best ones below. Title and notes may have
    words of `Found.words`. `numbers`: of a run, for seeds.csv.
    """

    def plan_runs(options: OptionsT) -> list[Job]:
        envs, traces = (where or _named)(options)
        shared = {"steps": steps(options), "seeds": seeds, "marked": marked}
        return plan_cases(options, cases(options), envs, traces, **shared)

    def make_report(options: OptionsT, results: Sequence[Result]) -> Report:
        found = find_parts(results, paper)
        tables, figures = more(found) if more else ({}, {})
        return Report(
            part_seeds(found, numbers),
            {"table": make_table(found, fields, title, notes), **tables},
            figures=figures,
            text=list(filter(None, [left_out(options)])),
        )

    return Study(help, Options, plan_runs, make_report, left_out)


OptionsT = TypeVar("OptionsT", bound=Options)


def _named(options: Options) -> tuple[list[str], list[str]]:
    return listed("envs", options.envs or ""), listed("traces", options.traces or "")


def find_parts(results: Sequence[Result], paper: str = "") -> Found:
    """The runs by environment, trace and case: those parts in which some have finished."""
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
    found: Found, fields: Sequence[Field], title: str, notes: Sequence[str] = ()
) -> Table:
    """A row per line; without fields, below those of a part, the best ones that the paper has."""
    chosen = fields or (ENV, TRACE, TITLED, *RETURNS, paper_field(found.paper), ACTIVE)
    rows, words = [], found.words()
    for part in found.parts:
        rows += [[cell(line) for _, cell in chosen] for line in part.lines]
        rows += [] if fields else best_rows(found.paper, part)
    columns = [column._replace(name=column.name.format(**words)) for column, _ in chosen]
    names = [column.name for column in columns]
    ours = next((name for name in names if name.startswith("return")), None)
    return Table(
        columns,
        rows,
        title=title.format(**words),
        notes=[note.format(**words) for note in notes],
        compared=(ours, "paper") if ours and "paper" in names else None,
    )


def best_rows(paper: str, part: Part) -> list[list[Cell]]:
    """What else the paper prints for a part: its best agents."""
    ours = {line.title: line.row.after_warmup for line in part.lines}
    rows: list[list[Cell]] = []
    for (agent, env, trace, variant), cell in read_table(paper).items():
        if (env, trace) == (part.env, part.trace) and variant.startswith("best-"):
            title = f"{variant.replace('-', ' ')}: {agent}"
            rows.append([env, trace, title, "", ours.get(agent), "", cell, ""])
    return rows


def part_seeds(found: Found, numbers: Numbers) -> Table:
    """A row per run, for seeds.csv."""
    known = {(p.env, p.results[0].job.trace): p.comparison for p in found.parts}
    return seeds_table(found.results, lambda r: numbers(known[r.job.env, r.job.trace], r))
