"""A comparison as tables for readers and for programs, and as learning curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lcpo.errors import InputError
from lcpo.run.store import record as records
from lcpo.run.store.results import Result, load_results
from lcpo.study.measure import compare, stats
from lcpo.study.measure.compare import Comparison, Row
from lcpo.study.measure.memory import memory_numbers
from lcpo.study.measure.seeds import seeds_table
from lcpo.study.measure.stats import Estimate
from lcpo.study.report import curves, tables
from lcpo.study.report.cells import Cell, Count
from lcpo.study.report.figures import to_picture
from lcpo.study.report.output import write_files
from lcpo.study.report.tables import Table
from lcpo.study.study import Report
from lcpo.values import file_name

ESTIMATES = (
    "after_warmup", "whole_run", "revisits", "forgetting", "recovery", "distance", "difference",
    "improvement",
)  # fmt: skip
"""Fields of a row that have an interval."""


def to_table(comparison: Comparison) -> Table:
    """For readers. Columns that no agent has a value for are left out."""
    c = comparison
    seeds = c.rows[0].finished + c.rows[0].failed + c.rows[0].missing
    where = f"{c.env}, trace {c.trace}" if c.trace else c.env
    columns: list[tuple[str, Callable[[Row], Cell]]] = [
        ("agent", lambda r: r.label),
        ("seeds", seeds_cell),
        (
            f"{'reward' if c.endless else 'return'} after {tables.short_count(c.warmup)}",
            lambda r: tables.plus_minus(r.after_warmup),
        ),
        ("whole run", lambda r: tables.plus_minus(r.whole_run)),
        *((m.title, lambda r, m=m: tables.plus_minus(r.own[m.name])) for m in c.measures),
        ("revisits", lambda r: tables.plus_minus(r.revisits)),
        ("forgetting", lambda r: tables.plus_minus(r.forgetting, sign=True)),
        ("recovery", lambda r: tables.plus_minus(r.recovery)),
        ("distance", lambda r: tables.plus_minus(r.distance)),
        (f"minus {c.reference}", lambda r: _difference(r.difference, seeds)),
        ("P(better)", lambda r: tables.with_bounds(r.improvement)),
        ("active", lambda r: tables.NONE if r.activity is None else f"{100 * r.activity:.1f} %"),
        ("accepted step", lambda r: tables.number(r.step_fraction)),
        ("anchor KL", lambda r: tables.NONE if r.anchor_kl is None else f"{r.anchor_kl:.1e}"),
        ("seconds", lambda r: tables.number(r.seconds)),
    ]
    cells = [(header, [cell(row) for row in c.rows]) for header, cell in columns]
    cells = [(header, column) for header, column in cells if set(column) != {tables.NONE}]
    enough = any(row.finished >= stats.FEWEST for row in c.rows)
    return Table(
        columns=[header for header, _ in cells],
        rows=list(zip(*(column for _, column in cells), strict=True)),
        align="l" + "r" * (len(cells) - 1),
        title=f"{where}, {c.steps:,} steps{'; 95 % intervals over seeds' if enough else ''}",
        notes=c.notes,
    )


def seeds_cell(row: Row) -> int | Count:
    """How many seeds finished, and what became of the others."""
    total = row.finished + row.failed + row.missing
    rest = [(row.failed, "failed"), (row.missing, "missing")]
    why = ", ".join(f"{count} {word}" for count, word in rest if count)
    return Count(row.finished, total, why) if why else total


def _difference(estimate: Estimate | None, seeds: int) -> str:
    """Pairs are counted where some seed is missing."""
    cell = tables.plus_minus(estimate, sign=True)
    few = estimate is not None and 0 < estimate.n < seeds
    return f"{cell} (n={estimate.n})" if few and estimate else cell


def to_data(comparison: Comparison) -> Table:
    """For programs: every number in full, an interval as four columns; empty where unknown."""
    rows = row_values(comparison)
    cells = [["" if v is None or v != v else str(v) for v in r.values()] for r in rows]
    return Table(list(rows[0]), cells, "l" * len(rows[0]))


def row_values(comparison: Comparison) -> list[dict[str, Any]]:
    """The numbers of each row by name, an interval as four of them."""
    c = comparison
    fixed = {"env": c.env, "trace": c.trace, "steps": c.steps, "warmup": c.warmup}
    rows = []
    for row in c.rows:
        values: dict[str, Any] = {**fixed, "reference": c.reference, "agent": row.label}
        fields = row._asdict()
        own = fields.pop("own")
        for name, value in list((fields | own).items())[1:]:
            if name in ESTIMATES or name in own:
                estimate = value or Estimate(stats.NAN, stats.NAN, stats.NAN, 0)
                values |= {f"{name}_{k}": v for k, v in estimate._asdict().items()}
            else:
                values[name] = value
        rows.append(values)
    return rows


def seed_numbers(comparison: Comparison, result: Result) -> dict[str, float | None]:
    """What seeds.csv says of a finished run."""
    record, memory = result.record, comparison.memory
    numbers: dict[str, float | None] = {
        "return_after_warmup": compare.run_return(record, comparison.warmup, comparison.endless),
        "whole_run": compare.run_return(record, 0, comparison.endless),
    }
    if not comparison.endless:
        numbers["return_per_episode"] = records.mean_episode_return(record, comparison.warmup)
    own = (m for m in comparison.measures if m.known(record))
    numbers |= {m.key: m.of(record, comparison.warmup) for m in own}
    if memory is not None:
        numbers |= memory_numbers(record, memory)
    if "num_models" in record:  # of an agent that tells contexts apart
        numbers["num_models"] = float(record["num_models"][-1])
    return {**numbers, "constraint_active": records.activity(record)}


def make_report(comparison: Comparison, results: Sequence[Result]) -> Report:
    """The table and the learning curves of a comparison of `results`."""
    readers = to_table(comparison)
    return Report(
        seeds=seeds_table(results, lambda result: seed_numbers(comparison, result)),
        tables={"table": readers},
        numbers={"table": to_data(comparison)},
        figures={"curves": to_picture(plot_curves(comparison, results)[0].figure)},
    )


def plot_curves(comparison: Comparison, results: Sequence[Result]) -> list[Any]:
    """The learning curves of a comparison of `results`: the axes, of the figure `axes[0].figure`.

    The upper one has returns, the lower one, where there are several agents, differences.
    """
    groups = {
        label: {r.job.seed: r.record for r in compare.finished_runs(runs)}
        for label, runs in compare.group(results).items()
    }
    memory = comparison.memory
    lines = [] if memory is None else memory.switches.start[1:].tolist()
    title = to_table(comparison).title
    return curves.plot(groups, comparison.reference, lines, title, comparison.endless)


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
        numbers={k + end: v for end, r in found.items() for k, v in r.numbers.items()},
        figures={k + end: v for end, r in found.items() for k, v in r.figures.items()},
    )
    return write_files(whole, results, out, command, by="lcpo report")


def _plain_numbers(result: Result) -> dict[str, float | None]:
    return {"whole_run": compare.run_return(result.record, 0, not result.record["epochs"].any())}


def write_report(
    comparison: Comparison,
    results: Sequence[Result],
    out: str | Path,
    command: str | None = None,
) -> list[Path]:
    """Write table.txt, .md, .tex (for readers), .csv (numbers), seeds.csv, made.json, curves.*.

    `command`: the command line that made it. Returns the paths.
    """
    report = make_report(comparison, results)
    return write_files(report, results, out, command, by="lcpo compare")
