"""A comparison as tables for readers and for programs, and as learning curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lcpo.contexts import in_short
from lcpo.errors import InputError
from lcpo.run.store import record as records
from lcpo.run.store.results import Result, load_results
from lcpo.study.costs import short_count
from lcpo.study.measure import compare, stats
from lcpo.study.measure.compare import AgentRow, Summary
from lcpo.study.measure.memory import memory_numbers
from lcpo.study.measure.stats import Estimate
from lcpo.study.report import figures
from lcpo.study.report.cells import NONE, Cell, Column, Count, Noted
from lcpo.study.report.document import seeds_table
from lcpo.study.report.output import write_files
from lcpo.study.report.tables import Table
from lcpo.study.study import Report
from lcpo.values import file_name

UNKNOWN = Estimate(stats.NAN, stats.NAN, stats.NAN, 0)
SEEDS = Column("seeds", about="finished runs; 7 of 8: one did not finish")
RUNS = SEEDS._replace(name="runs", key="seeds")
WON = Column(
    "traces won", key="won", about="traces on which its mean after the warm-up is the highest"
)
WHOLE_RUN = Column("whole run", about="lifelong return from the first step on")
ACTIVE = Column(
    "active", decimals=1, unit="%", about="share of updates in which the constraint was active"
)
MEASURED = {
    "revisits": Column("revisits", about="return right after a context recurs"),
    "forgetting": Column(
        "forgetting", "+",
        about="how much lower the return is after a context recurs than when it was last left",
    ),
    "recovery": Column(
        "recovery",
        about="steps from a change of context until the return is back at the reference's level",
    ),
    "distance": Column(
        "distance",
        about="1 - probability of a context's right action, while another context holds",
    ),
    "activity": ACTIVE,
    "step_fraction": Column(
        "accepted step", about="share of the full step that the line search accepted, if active"
    ),
    "anchor_kl": Column(
        "anchor KL", "e", decimals=1, about="KL divergence on the anchors after the step, if active"
    ),
}  # fmt: skip
"""Columns of `AgentRow.measured`."""


def late_column(warmup: str, what: str = "return") -> Column:
    """The return, or reward, after a warm-up of so many steps."""
    kind = "mean reward per step" if what == "reward" else "lifelong return"
    about = f"{kind} without the first {warmup} steps"
    return Column(f"{what} after {warmup}", key="after_warmup", about=about)


def to_table(summary: Summary) -> Table:
    """A row per agent; columns without any value are hidden. The most important come first: a
    narrow terminal leaves out the last ones."""
    c = summary
    seeds = c.rows[0].finished + c.rows[0].failed + c.rows[0].missing
    what, parts = "reward" if c.endless else "return", c.parts or [c]
    late = late_column(" or ".join(dict.fromkeys(short_count(p.warmup) for p in parts)), what)
    paired_by = f"from {c.reference} with the same seed"
    better = f"that a run is better than that of {c.reference} with the same seed"
    if c.parts:
        paired_by = f"from {c.reference} on the same trace with the same seed"
        better = f"of a higher mean over seeds than {c.reference} on another such trace"
    difference = Column(
        f"minus {c.reference}",
        "+",
        key="difference",
        about=f"mean difference in {late.name} {paired_by}",
    )
    improvement = Column(
        "P(better)",
        "bounds",
        key="improvement",
        about=f"probability {better}",
    )
    seconds = Column("seconds", about="mean wall time of a run")
    where = {"env": c.env, "trace": c.trace, "steps": c.steps, "warmup": c.warmup,
             "reference": c.reference}  # fmt: skip

    def traces_won(row: AgentRow) -> Cell:
        return None if row.won is None else Count(row.won, len(c.parts))

    def paired(row: AgentRow) -> Cell:
        found = row.difference or UNKNOWN
        return Noted(found, f"n={found.n}") if 0 < found.n < seeds else found

    fields: list[tuple[Column, Callable[[AgentRow], Cell]]] = [
        *((Column(name, hidden=True), lambda row, x=x: x) for name, x in where.items()),
        (Column("agent", side="l"), lambda row: row.label),
        (late, lambda row: row.after_warmup),
        (difference, paired),
        (improvement, lambda row: row.improvement or UNKNOWN),
        (WON, traces_won),
        (RUNS if c.parts else SEEDS, seeds_cell),
        (Column("finished", hidden=True), lambda row: row.finished),
        (Column("failed", hidden=True), lambda row: row.failed),
        (Column("missing", hidden=True), lambda row: row.missing),
        *(_measured(m.name, Column(m.title, about=m.about), UNKNOWN) for m in c.measures),
        (WHOLE_RUN, lambda row: row.whole_run),
        *(_measured(name, MEASURED[name], UNKNOWN) for name in compare.MEMORY),
        *(_measured(name, MEASURED[name]) for name in compare.CONSTRAINT),
        (seconds, lambda row: row.seconds),
    ]
    rows = [[cell(row) for _, cell in fields] for row in c.rows]
    columns = [
        column._replace(hidden=column.hidden or all(column.text(x) == NONE for x in cells))
        for (column, _), cells in zip(fields, zip(*rows, strict=True), strict=True)
    ]
    place = f"{c.env}, trace{'s' * bool(c.parts)} {c.trace}" if c.trace else c.env
    steps = " or ".join(dict.fromkeys(f"{part.steps:,}" for part in parts))
    over = "traces and their seeds" if c.parts else "seeds"
    enough = (len(c.parts) or max(row.finished for row in c.rows)) >= stats.FEWEST
    title = f"{place}, {steps} steps{f'; 95 % intervals over {over}' if enough else ''}"
    return Table(columns, rows, title=title, notes=c.notes, heading=f"{what.title()} of each agent")


def by_trace(summary: Summary) -> Table:
    """A row per trace and agent, of a comparison over several traces."""
    found = [to_table(part) for part in summary.parts]
    columns = [
        Column("trace", side="l")
        if same[0].name == "trace"
        else same[0]._replace(hidden=all(one.hidden for one in same))
        for same in zip(*(table.every for table in found), strict=True)
    ]
    notes: dict[str, list[str]] = {}
    for part in summary.parts:
        for note in part.notes:
            if not note.startswith(compare.MEMORY):  # windows differ by trace
                notes.setdefault(note, []).append(str(part.trace))
    every = len(summary.parts)
    shown = [x if len(at) == every else f"{x} (trace {in_short(at)})" for x, at in notes.items()]
    rows = [row for table in found for row in table.rows]
    enough = any(row.finished >= stats.FEWEST for part in summary.parts for row in part.rows)
    title = f"{summary.env}, by trace{'; 95 % intervals over seeds' if enough else ''}"
    return Table(columns, rows, title=title, notes=shown, heading="Each trace")


def _measured(
    name: str, column: Column, unknown: Estimate | None = None
) -> tuple[Column, Callable[[AgentRow], Cell]]:
    def cell(row: AgentRow) -> Cell:
        value = row.measured.get(name)
        return unknown if value is None else value

    return column._replace(key=name), cell


def seeds_cell(row: AgentRow) -> int | Count:
    """How many seeds finished, and what happened to the others."""
    total = row.finished + row.failed + row.missing
    rest = [(row.failed, "failed"), (row.missing, "missing")]
    why = ", ".join(f"{count} {word}" for count, word in rest if count)
    return Count(row.finished, total, why) if why else total


def seed_numbers(summary: Summary, result: Result) -> dict[str, float | None]:
    """A finished run's numbers in seeds.csv."""
    summary = summary.of(result.job)
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
    if "num_models" in record:  # of an agent that detects contexts
        numbers["num_models"] = float(record["num_models"][-1])
    return {**numbers, "constraint_active": records.activity(record)}


def make_report(summary: Summary, results: Sequence[Result]) -> Report:
    """The tables and the learning curves of a comparison of `results`."""
    tables = {"table": to_table(summary)}
    return Report(
        seeds=seeds_table(results, lambda result: seed_numbers(summary, result)),
        tables={**tables, "by_trace": by_trace(summary)} if summary.parts else tables,
        figures={"curves": curves(summary, results)},
    )


def curves(summary: Summary, results: Sequence[Result]) -> figures.Picture:
    """The learning curves of a comparison."""
    axes = plot_curves(summary, results)
    what = "Mean reward per step" if summary.endless else "Episode return while learning"
    over, same = ("traces", "trace") if summary.parts else ("seeds", "seed")
    caption = f"{what}, smoothed over 1 % of the run. Bands are 95 % intervals over {over}, if "
    caption += f"there are at least {stats.FEWEST}."
    if len(axes) > 1:
        caption += f" Below: the difference from {summary.reference} with the same {same}."
    if summary.memory is not None and len(summary.memory.switches.start) > 1:
        caption += " Vertical lines mark changes of context."
    return figures.to_picture(axes[0].figure, "Learning curves", caption)


def plot_curves(summary: Summary, results: Sequence[Result]) -> list[Any]:
    """The axes of learning curves, in the figure `axes[0].figure`.

    The upper panel has returns; the lower one, with several agents, their differences. Bands are
    over seeds, or over the means of several traces.
    """
    groups: dict[str, dict[Any, list[records.Record]]] = {}
    for label, runs in compare.group(results).items():
        units = groups.setdefault(label, {})
        for r in compare.finished_runs(runs):
            unit = r.job.trace_name if summary.parts else r.job.seed
            units.setdefault(unit, []).append(r.record)
    memory = summary.memory
    lines = [] if memory is None else memory.switches.start[1:].tolist()
    title = to_table(summary).title
    unit = "trace" if summary.parts else "seed"
    return figures.plot_curves(groups, summary.reference, lines, title, unit, summary.endless)


def write_tables(out: str | Path, command: str | None = None) -> list[Path]:
    """Write a report on all runs of a folder without one, such as that of `lcpo train`; its paths.

    A table and curves for each environment and trace, which name the files if there are several.
    """
    results = load_results(out)
    parts: dict[tuple[str, str | None], list[Result]] = {}
    for result in results:
        parts.setdefault((result.job.env, result.job.trace_name), []).append(result)
    parts = {where: runs for where, runs in parts.items() if compare.finished_runs(runs)}
    if not parts:
        raise InputError(f"{out} holds no finished run: nothing to report yet")

    def whole_run(result: Result) -> dict[str, float | None]:
        endless = not result.record["epochs"].any()
        return {"whole_run": compare.run_return(result.record, 0, endless)}

    found = {}
    for (env, trace), runs in parts.items():
        end = f"-{env}-{trace or 'none'}" if len(parts) > 1 else ""
        found[file_name(end)] = make_report(compare.summarise(runs), runs)
    whole = Report(
        seeds=seeds_table(results, whole_run),
        tables={k + end: v for end, r in found.items() for k, v in r.tables.items()},
        figures={k + end: v for end, r in found.items() for k, v in r.figures.items()},
    )
    return write_files(whole, results, out, command, by="lcpo report")


def write_report(
    summary: Summary,
    results: Sequence[Result],
    out: str | Path,
    command: str | None = None,
    warnings: Sequence[str] = (),
) -> list[Path]:
    """Write the files of a comparison; returns their paths. `command`: the command line."""
    report = make_report(summary, results)
    return write_files(report, results, out, command, by="lcpo compare", warnings=warnings)
