"""What the paper's tables of lifelong returns share: columns, planned and put beside the paper's.

A column is an agent with some values of its config. Every column is run in every environment with
every trace; a row of ours is one of the paper's cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lcpo.agents import find_agent
from lcpo.contexts import TraceRef
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import check_count, plan
from lcpo.run.store.results import Result
from lcpo.study.measure import compare
from lcpo.study.measure.compare import Comparison, Row
from lcpo.study.measure.paper_numbers import read_table
from lcpo.study.measure.seeds import seeds_table
from lcpo.study.report import report, tables
from lcpo.study.study import Options, listed

ENVS = "pendulum,inverted-pendulum,inverted-double-pendulum,hopper,reacher"
TRACES = "1,2,3,4"
PRESCIENT = "prescient-a2c,prescient-trpo,prescient-ddqn,prescient-sac"
SLOW = ("mbpo", "ideal-mbpo", "mbcd", "lcpo-p", *PRESCIENT.split(","))
"""Agents that have 5 seeds in the paper's tables, not 25."""


class Column(NamedTuple):
    """A column of a table: an agent, and what it has of its own."""

    agent: str
    variant: str = ""
    """As the paper's table calls it, and the names of runs."""
    values: Callable[[str], Mapping[str, Any]] = lambda trace: {}
    """Config values on a trace."""
    title: str = ""
    """As our tables call it; default: the agent."""


class Part(NamedTuple):
    """The runs in one environment with one trace."""

    env: str
    trace: str
    """Its name, without the fraction at which it was played."""
    results: list[Result]
    comparison: Comparison


def agent_columns(text: str) -> list[Column]:
    """A column for each agent, "a,b,c"."""
    return [Column(find_agent(name) and name) for name in listed("agents", text)]


def choose(columns: Sequence[Column], text: str | None) -> list[Column]:
    """The columns whose titles are asked for, "a,b,c"; None: all."""
    if text is None:
        return list(columns)
    known = {column.title: column for column in columns}
    for name in listed("agents", text):
        if name not in known:
            raise InputError(unknown("part", name, known))
    return [known[name] for name in listed("agents", text)]


def plan_columns(
    options: Options, columns: Sequence[Column], envs: str, traces: str, seeds: int | None = None
) -> list[Job]:
    """Every column in every environment with every trace and seed.

    `seeds`: of the paper; None: 25, or 5 of slow agents.
    """
    jobs: list[Job] = []
    for env in listed("envs", envs):
        for trace in listed("traces", traces):
            for column in columns:
                count = seeds or (5 if column.agent in SLOW else 25)
                jobs += plan(
                    column.agent,
                    env,
                    trace=trace,
                    fraction=options.fraction,
                    seeds=range(options.num_seeds(count)),
                    overrides=column.values(trace),
                    published=options.published,
                    variant=column.variant,
                    name_setting=True,
                )
    check_count(len(jobs))
    return jobs


def split_parts(results: Sequence[Result]) -> list[Part]:
    """The runs by environment and trace, those parts in which some have finished."""
    found: dict[tuple[str, TraceRef | None], list[Result]] = {}
    for result in results:
        found.setdefault((result.job.env, result.job.trace), []).append(result)
    return [
        Part(env, _whole(trace), members, compare.summarise(members))
        for (env, trace), members in found.items()
        if compare.finished_runs(members)
    ]


def _whole(trace: TraceRef | None) -> str:
    """The name of a trace, however fast it was played."""
    return "" if trace is None else str(trace.whole)


def rows_of(part: Part) -> dict[tuple[str, str], Row]:
    """The rows of a part by (agent, variant)."""
    groups = compare.group(part.results)
    first = {label: members[0].job for label, members in groups.items()}
    return {(first[row.label].agent, first[row.label].variant): row for row in part.comparison.rows}


def printed(table: str, part: Part) -> dict[tuple[str, str], str]:
    """What a table of the paper has for a part, by (agent, variant)."""
    cells = read_table(table).items()
    return {
        (agent, variant): str(cell)
        for (agent, env, trace, variant), cell in cells
        if (env, trace) == (part.env, part.trace)
    }


def cells_table(parts: Sequence[Part], columns: Sequence[Column], table: str) -> tables.Table:
    """A row per environment, trace and column; then what else the paper has there."""
    titles = {(c.agent, c.variant): c.title or c.agent for c in columns}
    rows = []
    for part in parts:
        theirs = printed(table, part)
        ours = rows_of(part)
        for key, row in ours.items():
            rows.append(
                [
                    part.env,
                    part.trace,
                    titles.get(key, "-".join(key)),
                    report.seeds_cell(row),
                    tables.plus_minus(row.after_warmup),
                    tables.plus_minus(row.whole_run),
                    theirs.get(key, tables.NONE),
                    tables.NONE if row.activity is None else f"{100 * row.activity:.1f} %",
                ]
            )
        for (agent, variant), cell in theirs.items():
            if variant.startswith("best-"):
                title = f"{variant.replace('-', ' ')}: {agent}"
                same = ours.get((agent, ""))
                mine = tables.plus_minus(same.after_warmup) if same else tables.NONE
                rows.append([part.env, part.trace, title, "", mine, "", cell, ""])
    late = " or ".join(dict.fromkeys(tables.short_count(p.comparison.warmup) for p in parts))
    header = ["env", "trace", "agent", "seeds", f"return after {late}", "whole run", "paper"]
    return tables.Table([*header, "active"], rows, "lllrrrrr", title_of(parts))


def title_of(parts: Sequence[Part]) -> str:
    """How long the runs are, and with whose values."""
    jobs = [part.results[0].job for part in parts]
    steps = tables.lengths(part.comparison.steps for part in parts)
    share = jobs[0].trace.fraction if jobs[0].trace else 1
    scale = "" if share == 1 else f" ({share} of the paper's)"
    faults = any(result.job.config.get("faults") for part in parts for result in part.results)
    setting = "as published, with its faults" if faults else "faults corrected"
    return f"{steps} steps{scale}, {setting}; 95 % intervals over seeds"


def part_seeds(
    parts: Sequence[Part],
    results: Sequence[Result],
    more: Callable[[Result], Mapping[str, float | None]] = lambda result: {},
) -> tables.Table:
    """A row per run, for seeds.csv; `more`: numbers that the study has beside the returns."""
    known = {(part.env, part.trace): part.comparison for part in parts}

    def numbers(result: Result) -> Mapping[str, float | None]:
        comparison = known[result.job.env, _whole(result.job.trace)]
        return {**report.seed_numbers(comparison, result), **more(result)}

    return seeds_table(results, numbers)
