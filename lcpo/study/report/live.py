"""The report on a live agent: `lcpo live-report`."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lcpo.core.intervals import NAN
from lcpo.live.desk import SOURCES
from lcpo.live.ledger import Ledger, load
from lcpo.study.report import figures, html
from lcpo.study.report.cells import Cell, Column
from lcpo.study.report.output import write_files
from lcpo.study.report.tables import Table
from lcpo.study.study import Picture, Report

PERIODS = 24
"""Rows of the table over time."""
ACTIVE = "constraint_active"
"""The metric of agents with a constraint."""
ABOUT = {
    "policy": "the agent's policy decided",
    "incumbent": "your own rule decided",
    "guard": "the guard replaced the action",
    "fallback": "the policy had no valid answer, or did not exist yet",
}


def make_report(ledger: Ledger) -> Report:
    """Tables and figures of a live agent."""
    tables = {"table": by_source(ledger)}
    if ledger.experiments:
        tables["switchback"] = switchback(ledger)
    tables |= {"over_time": over_time(ledger), "context": drift(ledger), "events": events(ledger)}
    made = {"agent": ledger.agent, "events": [ledger.first, ledger.last]}
    pictures = {"over_time": picture(ledger)} if len(ledger.times) else {}
    return Report(Table([], []), tables, pictures, made=made)


def by_source(ledger: Ledger) -> Table:
    """Who decided, and with which reward."""
    total, rows = len(ledger.times), []
    for number, source in enumerate(SOURCES):
        mine = ledger.sources == number
        rows.append([source, int(mine.sum()), mine.sum() / max(total, 1), _mean(ledger, mine),
                     int(np.isnan(ledger.rewards[mine]).sum()), ABOUT[source]])  # fmt: skip
    columns = [
        "source",
        Column("decisions", ","),
        Column("share", decimals=1, unit="%"),
        Column("mean reward", about="of decisions whose reward is known"),
        Column("without reward", ","),
        "meaning",
    ]
    note = "means of different periods do not compare policies: use a switchback experiment"
    title = f"{ledger.agent}, {total:,} decisions, events {ledger.first:,} to {ledger.last:,}"
    return Table(columns, rows, title, [note], heading="Who decided")


def switchback(ledger: Ledger) -> Table:
    """The difference that the experiments have measured."""
    rows: list[list[Cell]] = []
    for design, result in ledger.experiments:
        rows.append(
            [f"{design.length:g} s", design.share, f"{design.burn_in:g} s", result.policy,
             result.incumbent, result.difference, result.difference.n, result.num_left_out]
        )  # fmt: skip
    columns = [
        "block",
        Column("policy's share", decimals=0, unit="%"),
        "burn-in",
        Column("policy", about="mean reward in the policy's blocks"),
        Column("incumbent", about="mean reward in the incumbent's blocks"),
        Column("policy minus incumbent", "+", key="difference", about="within groups of blocks"),
        Column("groups", about="groups of blocks behind the interval"),
        Column("left out", about="blocks of groups that are incomplete"),
    ]
    notes = ["95 % intervals over groups of blocks, which allow for correlated rewards"]
    return Table(columns, rows, notes=notes, heading="Switchback experiments")


def over_time(ledger: Ledger) -> Table:
    """Rewards, guard, constraint and context in consecutive periods of equal length."""
    rows = []
    for start, end, mine in _periods(ledger):
        share = [float(np.mean(ledger.sources[mine] == n)) if mine.any() else NAN for n in (2, 3)]
        rows.append(
            [_date(start), int(mine.sum()), _mean(ledger, mine & (ledger.sources == 0)),
             _mean(ledger, mine & (ledger.sources == 1)), *share,
             _activity(ledger, start, end), *_context(ledger, mine)]
        )  # fmt: skip
    columns = [
        "from",
        Column("decisions", ","),
        Column("policy", about="mean reward of the policy's decisions"),
        Column("incumbent", about="mean reward of the incumbent's decisions"),
        Column("guard", decimals=1, unit="%", about="share of decisions that it replaced"),
        Column("fallback", decimals=1, unit="%", about="share of decisions"),
        Column("active", decimals=1, unit="%", about="updates in which the constraint was active"),
        *(Column(f"context {c + 1}", "g", decimals=4, about="mean") for c in _channels(ledger)),
    ]
    return Table(columns, rows, heading="Over time")


def drift(ledger: Ledger) -> Table:
    """How the context has moved."""
    half, rows = len(ledger.contexts) // 2, []
    for c in _channels(ledger):
        values = ledger.contexts[:, c]
        old, new = values[:half], values[half:]
        spread = float(values.std()) if len(values) else NAN
        means = [float(x.mean()) if len(x) else NAN for x in (old, new)]
        shift = 0.0 if spread == 0.0 else (means[1] - means[0]) / spread
        rows.append([f"context {c + 1}", *means, spread, shift])
    columns = [
        "channel",
        *(Column(f"mean, {which} half", "g", decimals=4) for which in ("first", "second")),
        Column("standard deviation", "g", decimals=4),
        Column("shift", "+", decimals=2, about="difference of the means, in standard deviations"),
    ]
    return Table(columns, rows, heading="Drift of the context")


def events(ledger: Ledger) -> Table:
    """Changes of mode, rollbacks and dropped updates, in order."""
    found = [(mode.time, "mode", mode.mode, mode.why) for mode in ledger.modes]
    found += [(x.time, "rollback", f"version {x.version}", x.why) for x in ledger.rollbacks]
    found += [(u.time, "dropped update", f"{u.number}", u.problem) for u in ledger.updates
              if u.problem]  # fmt: skip
    rows = [[_date(time), *rest] for time, *rest in sorted(found)]
    return Table(["time", "event", "what", "why"], rows, heading="Events")


def picture(ledger: Ledger) -> Picture:
    """Rewards of both, the context and the constraint over time."""
    periods = list(_periods(ledger, 120))
    times = [_moment(0.5 * (start + end)) for start, end, _ in periods]
    figure = figures.new_figure(9, 6)
    axes: Any = figure.subplots(3, 1, sharex=True)
    for number, name in ((0, "policy"), (1, "incumbent")):
        line = [_mean(ledger, mine & (ledger.sources == number)) for *_, mine in periods]
        axes[0].plot(times, line, ".-", color=figures.COLOURS[number], label=name)
    axes[0].legend()
    axes[0].set_ylabel("reward")
    for c in _channels(ledger):
        line = [_context(ledger, mine)[c] for *_, mine in periods]
        axes[1].plot(times, line, label=f"context {c + 1}")
    axes[1].set_ylabel("context")
    for number, name in ((2, "guard"), (3, "fallback")):
        line = [np.mean(ledger.sources[m] == number) if m.any() else NAN for *_, m in periods]
        axes[2].plot(times, line, color=figures.COLOURS[number], label=name)
    axes[2].plot(times, [_activity(ledger, a, b) for a, b, _ in periods], "k:", label="active")
    axes[2].set_ylabel("share")
    axes[2].legend()
    figure.autofmt_xdate()
    caption = (
        "Top: mean reward of the decisions of policy and incumbent. Middle: the context. Bottom: "
        "shares of decisions by guard and fallback, and of updates with an active constraint."
    )
    return figures.to_picture(figure, "Rewards and context over time", caption)


def write(folder: Path, out: Path, command: str) -> tuple[Report, list[Path]]:
    """Write the report on a folder and its page; returns the report and the files."""
    report = make_report(load(folder))
    paths = write_files(report, [], out, command, by="lcpo live-report")
    return report, [*paths, html.write_page(out, by="lcpo live-report")]


def _periods(ledger: Ledger, count: int = PERIODS) -> Sequence[tuple[float, float, np.ndarray]]:
    """(start, end, which decisions) of periods of equal length."""
    if not len(ledger.times):
        return []
    low, high = float(ledger.times.min()), float(ledger.times.max())
    edges = np.linspace(low, high, count + 1 if high > low else 2)
    place = np.clip(np.searchsorted(edges, ledger.times, "right") - 1, 0, len(edges) - 2)
    return [(edges[i], edges[i + 1], place == i) for i in range(len(edges) - 1)]


def _mean(ledger: Ledger, which: np.ndarray) -> float:
    known = ledger.rewards[which]
    known = known[~np.isnan(known)]
    return float(known.mean()) if len(known) else NAN


def _context(ledger: Ledger, which: np.ndarray) -> list[float]:
    found = ledger.contexts[which]
    return [float(found[:, c].mean()) if len(found) else NAN for c in _channels(ledger)]


def _channels(ledger: Ledger) -> range:
    return range(ledger.contexts.shape[1])


def _activity(ledger: Ledger, start: float, end: float) -> float:
    found = [u.metrics.get(ACTIVE) for u in ledger.updates if start <= u.time <= end]
    known = [x for x in found if x is not None]
    return float(np.mean(known)) if known else NAN


def _moment(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def _date(seconds: float) -> str:
    return _moment(seconds).strftime("%Y-%m-%d %H:%M:%S")
