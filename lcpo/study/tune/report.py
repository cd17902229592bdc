"""What a search shows: tables of the verdict, the trials and the settings, and a figure."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lcpo.run.store.results import Result
from lcpo.study.commands import changes
from lcpo.study.measure.compare import Summary
from lcpo.study.report import figures
from lcpo.study.report.cells import Cell, Column
from lcpo.study.report.report import make_report
from lcpo.study.report.tables import Table
from lcpo.study.study import Picture, Report
from lcpo.study.tune import judged, ladder
from lcpo.study.tune.history import History, Trial, mean
from lcpo.study.tune.judged import Against, Found
from lcpo.study.tune.search import Request
from lcpo.study.tune.space import shown

TABLES = ("table", "verdict", "settings", "trials", "by_trace")
FIGURES = ("curves", "search")
"""Names of the files of a report."""
TOP = 10
"""Trials in the table."""
BY_EPISODE = "returns are means over episodes: these do not depend on the rollout length"
BETTER, BELOW = "found settings are better than", "found settings are worse than"
FEWEST = 8
"""A rank correlation over fewer trials is not shown."""


def make(
    request: Request,
    history: History,
    found: Found,
    summary: Summary,
    beside: Sequence[Against],
    results: Sequence[Result],
) -> Report:
    """The report of a search: that of a comparison, and what the search did."""
    compared = make_report(summary, results)
    tables = {
        "table": compared.tables["table"],
        "verdict": verdict_table(request, found, beside),
        "settings": settings_table(request, history, found.best),
        "trials": trials_table(request, history),
        **{name: table for name, table in compared.tables.items() if name != "table"},
    }
    drawn = {**compared.figures, "search": picture(request, history)}
    return Report(seeds=compared.seeds, tables=tables, figures=drawn)


def verdict_table(request: Request, found: Found, beside: Sequence[Against]) -> Table:
    """The found settings beside every other agent."""
    what = judged.label_of(request, found.best)
    columns = [
        Column("beside", side="l"),
        Column("difference", "+", about="return of the found settings minus that of this agent"),
        Column("P(better)", "bounds", key="improvement"),
        Column("found settings are", side="l", key="verdict"),
    ]
    rows: list[list[Cell]] = [
        [one.other, one.difference, one.improvement, one.verdict] for one in beside
    ]
    title = f"{what} on {judged_on(request)}; 95 % intervals of the difference"
    return Table(columns, rows, title=title, heading="Found settings beside the others")


def judged_on(request: Request) -> str:
    """The judging data in words."""
    traces, count = len(request.judge_traces), len(request.judge_seeds)
    seeds = f"{count} seed{'s' * (count > 1)}"
    return seeds if traces == 1 else f"{traces} traces with {seeds} each"


def settings_table(request: Request, history: History, best: Trial) -> Table:
    """What was searched of the best trial's agent: where, what was found, and what mattered."""
    chosen, found = request.agents[best.agent], request.spaces[best.agent]
    defaults, rows = request.defaults(best.agent), []
    for name, dimension in found.items():
        value = best.settings.get(name, defaults[name])
        matters = correlation(request, history, best.agent, name)
        rows.append([name, str(dimension), shown(defaults[name]), shown(value), matters])
    columns = [
        Column("setting", side="l"),
        Column("searched", side="l"),
        Column("default", side="l"),
        Column("found", side="l"),
        Column("rank correlation", "+", 2, about="Spearman's, of the setting with the return"),
    ]
    title = f"{judged.agent_label(request, chosen)}: settings of trial {best.number}"
    note = "rank correlation: of a setting with the return on the first level, over all trials"
    return Table(columns, rows, title=title, notes=[note], heading="Settings")


def correlation(request: Request, history: History, agent: int, name: str) -> float | None:
    """Spearman's rank correlation of a number with the return on the first level."""
    values = history.values(0)
    pairs = [
        (float(trial.settings[name]), value)
        for trial in history.trials
        if trial.agent == agent and isinstance(trial.settings.get(name), (int, float))
        if (value := values.get(trial.number)) is not None
    ]
    if len(pairs) < FEWEST or len({x for x, _ in pairs}) < 2 or len({y for _, y in pairs}) < 2:
        return None
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(np.array(pairs), axis=0).T)[0, 1])


def trials_table(request: Request, history: History) -> Table:
    """The best trials, and the defaults."""
    order = ladder.ranking(history, len(request.levels))
    trials = {trial.number: trial for trial in history.trials}
    listed = [n for i, n in enumerate(order) if i < TOP or not trials[n].settings]
    rows: list[list[Cell]] = []
    for number in listed:
        trial, level = trials[number], history.reached(number)
        at = request.levels[level]
        settings = ",".join(f"{k}={shown(v)}" for k, v in trial.settings.items())
        agent = judged.agent_label(request, request.agents[trial.agent])
        value = history.values(level)[number]
        rows.append([number, agent, value, at.steps, at.pairs, settings or "defaults"])
    columns = [
        Column("trial"),
        Column("agent", side="l"),
        Column("return", about="mean over the search data, on the highest level it reached"),
        Column("steps", ","),
        Column("runs"),
        Column("settings", side="l"),
    ]
    count = len(history.trials)
    title = f"the best of {count} trials on the search data: chosen there, so too optimistic"
    return Table(columns, rows, title=title, heading="Best trials of the search")


def picture(request: Request, history: History) -> Picture:
    """The return of each trial by number, on each level, and the best of the highest so far."""
    figure = figures.new_figure(7.0, 3.5)
    axis = figure.add_subplot()
    top = len(request.levels) - 1
    for level, at in enumerate(request.levels):
        known = {n: v for n, v in history.values(level).items() if v is not None}
        name = f"{at.steps:,} steps, {at.pairs} run{'s' * (at.pairs > 1)}"
        axis.plot(list(known), list(known.values()), "o", ms=3 + 2 * level, alpha=0.7, label=name)
    best = _best_so_far(history, top)
    if best:
        axis.step(list(best), list(best.values()), where="post", color="black", lw=1, label="best")
    for trial in history.trials:
        value = history.values(history.reached(trial.number)).get(trial.number)
        if not trial.settings and value is not None:
            name = f"{judged.agent_label(request, request.agents[trial.agent])}, defaults"
            axis.axhline(value, ls="--", lw=1, color="gray", label=name)
    axis.set_xlabel("trial")
    axis.set_ylabel("mean reward per step" if history.endless else "return")
    axis.legend(fontsize=7)
    caption = (
        "Each trial on the levels that it reached. The best third of each level goes up. Short "
        "runs have other returns than whole ones. Failed trials are not shown."
    )
    return figures.to_picture(figure, "The search", caption)


def _best_so_far(history: History, level: int) -> dict[int, float]:
    """By the number of trials when a value was known."""
    found: dict[int, float] = {}
    count, best = 0, -math.inf
    for one in history.ended:
        count += len(one.new)
        for entry, scores in zip(one.entries, one.scores, strict=True):
            value = mean(scores)
            if entry.level == level and value is not None:
                best = max(best, value)
        if np.isfinite(best):
            found[count - 1] = best
    return found


def sentences(request: Request, found: Found, beside: Sequence[Against]) -> list[str]:
    """What the judging shows: first about the agent's defaults, then about the others."""
    agent = request.agents[found.best.agent]
    default = judged.default_label(agent)
    others = {
        one.other: f"{one.other} ({one.difference.mean:+.3g})"
        for one in beside
        if one.verdict == "worse" and one.other != default
    }
    below = [f"{BELOW} {', '.join(others.values())}: run more steps, or search another agent"]
    return [*_beside_defaults(agent.name, default, found, beside), *(below if others else [])]


def _beside_defaults(name: str, default: str, found: Found, beside: Sequence[Against]) -> list[str]:
    if not found.best.settings:
        return [f"no settings were better than the defaults of {name} on the search data"]
    own = next((one for one in beside if one.other == default), None)
    if own is None:
        return [f"the defaults of {name} have no finished run to compare with"]
    low, high = own.difference.low, own.difference.high
    interval = f"{own.difference.mean:+.4g}, 95 % interval {low:.4g} to {high:.4g}"
    if own.verdict == "better":
        return [f"{BETTER} the defaults of {name}: {interval}"]
    if math.isnan(low):
        return [
            f"{own.verdict}: the difference from the defaults is {own.difference.mean:+.4g}",
            "judge on more seeds or traces (--judge-seeds, --judge-traces), in a new folder",
        ]
    first = f"found settings are not significantly better than the defaults of {name}: {interval}"
    if own.verdict == "worse":
        first = f"{BELOW} the defaults of {name}: {interval}"
    return [first, "keep the defaults, or search longer (--resume with more --trials or --budget)"]


def commands(request: Request, best: Trial) -> dict[str, str]:
    """How to use the found settings: commands, and the config in Python."""
    agent, given = request.agents[best.agent], judged.config_of(request, best)
    pair = ",".join(_bracketed(agent.name, config) for config in (agent.config, given))
    task = ["--env", request.env, *changes("env.", request.env_config, {})]
    task += ["--steps", str(request.steps), *_normalise(request.normalise)]
    task += [] if request.scale is None else ["--scale", repr(request.scale)]
    one = ["--trace", str(request.traces[0])] if request.traces[0] else []
    traces = [str(trace) for trace in request.judge_traces if trace is not None]
    several = ["--traces", ",".join(traces)] if traces else []
    train = ["lcpo", "train", "--agent", agent.name, *task, *one, *changes("", given, {})]
    compare = ["lcpo", "compare", "--agents", pair, *task, *several]
    compare += ["--warmup", str(request.warmup), "--seeds", _listed(request.judge_seeds)]
    return {
        "train": shlex.join(train),
        "compare": shlex.join(compare),
        "config": repr(dict(given)),
    }


def _listed(seeds: Sequence[int]) -> str:
    """As an option; a number without a comma would be how many."""
    return ",".join(map(str, seeds)) + "," * (len(seeds) == 1)


def _normalise(rule: Any) -> list[str]:
    text = rule if isinstance(rule, str) else ",".join(map(str, rule or ()))
    return ["--normalise", text] if text else []


def _bracketed(name: str, config: Mapping[str, Any]) -> str:
    settings = ",".join(f"{field}={json.dumps(value)}" for field, value in config.items())
    return f"{name}[{settings}]" if settings else name
