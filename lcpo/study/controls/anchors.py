"""Which states to anchor a policy on: OOD ones, the whole past, or none? Not in the paper.

    lcpo            states whose context differs from the recent one
    lcpo-uniform    states drawn from all of the past
    trpo            none: the same kind of step and entropy bonus, the limit on the batch itself

Each with a small and a large step, on drawn traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lcpo.study.cases import Case
from lcpo.study.controls import drawn_tables
from lcpo.study.controls.drawn import DrawnRun, Key, drawn_study, points_of
from lcpo.study.report import figures
from lcpo.study.report.cells import NONE
from lcpo.study.report.tables import Table

LIMITS = (1e-4, 1e-3)
"""On the KL of a step: the paper's c_anchor, and one that learns faster."""
CASES = [
    Case("lcpo", sweep={"c_anchor": LIMITS, "value_steps": (1,)}),
    Case("lcpo-uniform", sweep={"c_anchor": LIMITS, "value_steps": (1,)}),
    Case(
        "trpo",
        values={"rollout_length": 200, "entropy_coef": 0.03, "entropy_target": 0.1},
        sweep={"max_kl": LIMITS, "value_steps": (1,)},
    ),
]
WORDS = {"lcpo": "OOD", "lcpo-uniform": "whole past", "trpo": "none"}
LIMIT: dict[Key, float] = {key: next(iter(at.values())) for key, at in points_of(CASES).items()}
"""The KL limit of each case, whichever field holds it."""


def summary(runs: Sequence[DrawnRun]) -> Table:
    """A row per family, kind of anchors and limit."""
    columns = ["anchors", "agent", "limit"]
    return drawn_tables.summary(runs, columns, describe, paper_s_anchors, "OOD anchors")


def describe(key: Key) -> list[str]:
    """Anchors, agent, limit."""
    limit = f"{LIMIT[key]:g}" if key in LIMIT else key[1]
    return [WORDS.get(key[0], NONE), key[0], limit]


def paper_s_anchors(key: Key) -> Key:
    """OOD anchors with the same limit; for an agent that the study does not list, the paper's."""
    wanted = LIMIT.get(key, LIMITS[0])
    return next(k for k, limit in LIMIT.items() if k[0] == "lcpo" and limit == wanted)


def draw(runs: Sequence[DrawnRun]) -> dict[str, figures.Picture]:
    """A point per trace: the return with OOD anchors, and with another kind or none, a row each."""
    there = {run.key[0] for run in runs}
    others = [agent for agent in WORDS if agent != "lcpo" and agent in there]
    if not others or "lcpo" not in there:
        return {}
    figure = figures.new_figure(9.0, 4.2 * len(others) + 0.2)
    for row, other in enumerate(others):
        for column, limit in enumerate(LIMITS):
            axes = figure.add_subplot(len(others), len(LIMITS), row * len(LIMITS) + column + 1)
            _draw_traces(axes, [run for run in runs if LIMIT.get(run.key) == limit], other)
            axes.set(title=f"limit {limit:g}", xlabel="return, OOD anchors")
            if column == 0:
                axes.set_ylabel(f"return, anchors: {WORDS[other]}")
                axes.legend(frameon=False)
    picture = figures.to_picture(
        figure,
        "Return on each trace: OOD anchors against others",
        "A point per trace, mean over seeds. Above the grey line, OOD anchors are worse.",
    )
    return {"traces": picture}


def _draw_traces(axes: Any, runs: Sequence[DrawnRun], other: str) -> None:
    for kind in dict.fromkeys(run.kind for run in runs):
        ood, mine = (
            drawn_tables.returns([r for r in runs if (r.kind, r.key[0]) == (kind, agent)], "whole")
            for agent in ("lcpo", other)
        )
        shared = [trace for trace in ood if trace in mine]
        x, y = ([sum(found[t].values()) / len(found[t]) for t in shared] for found in (ood, mine))
        axes.plot(x, y, "o", markersize=4, label=kind)
    low, high = axes.get_xlim()
    axes.plot([low, high], [low, high], color="0.6", linewidth=1, zorder=0)


HELP = "Not in the paper: anchors that are OOD, from the whole past, or none, on drawn traces"
study = drawn_study(HELP, CASES, lambda runs: ({"table": summary(runs)}, draw(runs)))
