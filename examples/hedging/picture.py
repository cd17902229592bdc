"""The figure: p95 over time by controller, the timeouts of the agent, regimes, phases, the kill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from examples.hedging import measure
from examples.hedging.live import Phase, Tick
from examples.hedging.measure import Answers
from examples.hedging.workload import Regimes
from lcpo.straggler.task import NEVER, TIMEOUTS_MS

LABELS = [*(f"{ms:g}" for ms in TIMEOUTS_MS[:NEVER]), "never"]


def draw(
    path: Path, answers: Mapping[str, Answers], ticks: Sequence[Tick], phases: Sequence[Phase],
    regimes: Regimes, agent: str, kills: Sequence[tuple[float, float]],
) -> None:  # fmt: skip
    """Write a PNG file. `kills`: when the server was killed, and when it decided again."""
    from matplotlib.figure import Figure

    begin, end = phases[0].begin, phases[-1].end
    figure = Figure(figsize=(11.0, 6.5), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    for axes in (top, bottom):
        _shade(axes, begin, end, regimes)
        for phase in phases[1:]:
            axes.axvline(phase.begin - begin, color="black", linewidth=0.8)
        for killed, again in kills:
            axes.axvspan(killed - begin, again - begin, color="tab:red", alpha=0.35, linewidth=0)
    bounds = measure.edges(Phase("all", begin, end), regimes)
    middle = 0.5 * (bounds[1:] + bounds[:-1]) - begin
    for name, found in answers.items():
        width = 2.5 if name == agent else 1.0
        p95 = measure.percentiles(found, bounds, 95)
        top.plot(middle, p95, label=name, linewidth=width, zorder=3 if name == agent else 2)
    for phase in phases:
        where = 0.5 * (phase.begin + phase.end) - begin
        top.annotate(
            phase.name, (where, 1.01), xycoords=("data", "axes fraction"), ha="center", va="bottom"
        )
    for killed, _ in kills:
        top.annotate(
            "kill -9", (killed - begin, 0.97), xycoords=("data", "axes fraction"), ha="right",
            va="top", color="tab:red",
        )  # fmt: skip
    top.set(yscale="log", ylabel=f"p95 over {bounds[1] - bounds[0]:g} s, ms")
    top.legend(loc="upper left", fontsize="small", ncols=2)
    _actions(bottom, [tick for tick in ticks if tick.lane == agent], begin)
    bottom.set(xlim=(0.0, end - begin), xlabel="seconds (shaded: the higher rate)")
    figure.savefig(path, dpi=110)


def _shade(axes, begin: float, end: float, regimes: Regimes) -> None:
    for at in np.arange(begin, end, regimes.seconds):
        if regimes.number(at + 0.5 * regimes.seconds):
            axes.axvspan(at - begin, at - begin + regimes.seconds, color="0.9", linewidth=0)


def _actions(axes, ticks: Sequence[Tick], begin: float) -> None:
    """Timeouts over time, colored by who chose them."""
    for source in dict.fromkeys(tick.source for tick in ticks):
        mine = [tick for tick in ticks if tick.source == source]
        axes.plot(
            [tick.time - begin for tick in mine], [tick.action for tick in mine],
            linestyle="", marker=".", markersize=5, label=source,
        )  # fmt: skip
    axes.set_yticks(range(len(LABELS)), LABELS)
    axes.set(ylabel="the agent's timeout, ms", ylim=(-0.5, NEVER + 0.5))
    axes.legend(loc="center left", fontsize="small")
