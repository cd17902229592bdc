"""A comparison as tables for readers and for programs, and as learning curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lcpo.errors import InputError
from lcpo.run.store import record as records
from lcpo.run.store.results import Result, load_results
from lcpo.study.measure import compare, stats
from lcpo.study.measure.compare import AgentRow, Summary
from lcpo.study.measure.memory import memory_numbers
from lcpo.study.measure.seeds import seeds_table
from lcpo.study.measure.stats import Estimate
from lcpo.study.report import curves, tables
from lcpo.study.report.cells import NONE, Cell, Column, Count, Noted
from lcpo.study.report.figures import to_picture
from lcpo.study.report.output import write_files
from lcpo.study.report.tables import Table
from lcpo.study.study import Report
from lcpo.values import file_name

UNKNOWN = Estimate(stats.NAN, stats.NAN, stats.NAN, 0)
MEASURED = {
    "revisits": Column("revisits"),
    "forgetting": Column("forgetting", "+"),
    "recovery": Column("recovery"),
    "distance": Column("distance"),
    "activity": Column("active", decimals=1, unit="%"),
    "step_fraction": Column("accepted step"),
    "anchor_kl": Column("anchor KL", "e", decimals=1),
}
"""How `AgentRow.measured` is shown."""


def to_table(summary: Summary) -> Table:
    """For readers; columns that no agent has a value for are for programs alone."""
    c = summary
    seeds = c.rows[0].finished + c.rows[0].failed + c.rows[0].missing
    what = "reward" if c.endless else "return"
    late = f"{what} after {tables.short_count(c.warmup)}"
    where = {"env": c.env, "trace": c.trace, "steps": c.steps, "warmup": c.warmup,
             "reference": c.reference}  # fmt: skip
    fields: list[tuple[Column, Callable[[AgentRow], Cell]]] = [
        *((Column(name, hidden=True), lambda row, x=x: x) for name, x in where.items()),
        (Column("agent", side="l"), lambda row: row.label),
        (Column("seeds"), seeds_cell),
        (Column("finished", hidden=True), lambda row: row.finished),
        (Column("failed", hidden=True), lambda row: row.failed),
        (Column("missing", hidden=True), lambda row: row.missing),
        (Column(late, key="after_warmup"), lambda row: row.after_warmup),
        (Column("whole run"), lambda row: row.whole_run),
        *(_measured(m.name, Column(m.title), UNKNOWN) for m in c.measures),
        *(_measured(name, MEASURED[name], UNKNOWN) for name in compare.MEMORY),
        (Column(f"minus {c.reference}", "+", key="difference"), lambda row: _paired(row, seeds)),
        (Column("P(better)", "bounds", key="improvement"), lambda row: row.improvement or UNKNOWN),
        *(_measured(name, MEASURED[name]) for name in compare.CONSTRAINT),
        (Column("seconds"), lambda row: row.seconds),
    ]
    rows = [[cell(row) for _, cell in fields] for row in c.rows]
    columns = [
        column._replace(hidden=column.hidden or all(column.text(x) == NONE for x in cells))
        for (column, _), cells in zip(fields, zip(*rows, strict=True), strict=True)
    ]
    place = f"{c.env}, trace {c.trace}" if c.trace else c.env
    enough = any(row.finished >= stats.FEWEST for row in c.rows)
    title = f"{place}, {c.steps:,} steps{'; 95 % intervals over seeds' if enough else ''}"
    return Table(columns, rows, title=title, notes=c.notes)


def _measured(
    name: str, column: Column, unknown: Estimate | None = None
) -> tuple[Column, Callable[[AgentRow], Cell]]:
    def cell(row: AgentRow) -> Cell:
        value = row.measured.get(name)
        return unknown if value is None else value

    return column._replace(key=name), cell


def seeds_cell(row: AgentRow) -> int | Count:
    """How many seeds finished, and what became of the others."""
    total = row.finished + row.failed + row.missing
    rest = [(row.failed, "failed"), (row.missing, "missing")]
    why = ", ".join(f"{count} {word}" for count, word in rest if count)
    return Count(row.finished, total, why) if why else total


def _paired(row: AgentRow, seeds: int) -> Cell:
    """Pairs are counted where some seed is missing."""
    found = row.difference or UNKNOWN
    return Noted(found, f"n={found.n}") if 0 < found.n < seeds else found


def seed_numbers(summary: Summary, result: Result) -> dict[str, float | None]:
    """What seeds.csv says of a finished run."""
    record, memory = result.record, summary.memory
    numbers: dict[str, float | None] = {
        "return_after_warmup": compare.run_return(record, summary.warmup, summary.endless),
        "whole_run": compare.run_return(record, 0, summary.endless),
    }
    if not summary.endless:
        numbers["return_per_episode"] = records.mean_episode_return(record, summary.warmup)
    own = (m for m in summary.measures if m.known(record))
    numbers |= {m.key: m.of(record, summary.warmup) for m in own}
    if memory is not None:
        numbers |= memory_numbers(record, memory)
    if "num_models" in record:  # of an agent that tells contexts apart
        numbers["num_models"] = float(record["num_models"][-1])
    return {**numbers, "constraint_active": records.activity(record)}


def make_report(summary: Summary, results: Sequence[Result]) -> Report:
    """The table and the learning curves of a comparison of `results`."""
    return Report(
        seeds=seeds_table(results, lambda result: seed_numbers(summary, result)),
        tables={"table": to_table(summary)},
        figures={"curves": to_picture(plot_curves(summary, results)[0].figure)},
    )


def plot_curves(summary: Summary, results: Sequence[Result]) -> list[Any]:
    """The learning curves of a comparison of `results`: the axes, of the figure `axes[0].figure`.

    The upper one has returns, the lower one, where there are several agents, differences.
    """
    groups = {
        label: {r.job.seed: r.record for r in compare.finished_runs(runs)}
        for label, runs in compare.group(results).items()
    }
    memory = summary.memory
    lines = [] if memory is None else memory.switches.start[1:].tolist()
    title = to_table(summary).title
    return curves.plot(groups, summary.reference, lines, title, summary.endless)


def write_tables(out: str | Path, command: str | None = None) -> list[Path]:
    """A report on all runs in a folder that has none, as that of `lcpo train`; the paths.

    A table and curves for each environment and trace; where there are several, with their names.
    """
    results = load_results(out)
    parts: dict[tuple[str, str | None], list[Result]] = {}
    for result in results:
        parts.setdefault((result.job.env, result.job.trace_name), []).append(result)
    parts = {where: runs for where, runs in parts.items() if compare.finished_runs(runs)}
    if not parts:
        raise InputError(f"{out} holds no finished run: nothing to report yet")
    found = {}
    for (env, trace), runs in parts.items():
        end = f"-{env}-{trace or 'none'}" if len(parts) > 1 else ""
        found[file_name(end)] = make_report(compare.summarise(runs), runs)
    whole = Report(
        seeds=seeds_table(results, _plain_numbers),
        tables={k + end: v for end, r in found.items() for k, v in r.tables.items()},
        figures={k + end: v for end, r in found.items() for k, v in r.figures.items()},
    )
    return write_files(whole, results, out, command, by="lcpo report")


def _plain_numbers(result: Result) -> dict[str, float | None]:
    return {"whole_run": compare.run_return(result.record, 0, not result.record["epochs"].any())}


def write_report(
    summary: Summary,
    results: Sequence[Result],
    out: str | Path,
    command: str | None = None,
) -> list[Path]:
    """Write table.txt, .md, .tex (for readers), .csv (numbers), seeds.csv, made.json, curves.*.

    `command`: the command line that made it. Returns the paths.
    """
    report = make_report(summary, results)
    return write_files(report, results, out, command, by="lcpo compare")
