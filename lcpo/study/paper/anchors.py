"""Which anchors should a policy be held on? Not in the paper: OOD ones, the whole past, or none.

    lcpo            states whose context differs from the recent one
    lcpo-uniform    states drawn from all of the past
    trpo            none: the same kind of step and entropy bonus, the limit on the batch itself

Each with a small and a large step, on drawn traces.
"""

from __future__ import annotations

from collections.abc import Sequence

from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study import drawn, drawn_tables, figures
from lcpo.study.drawn import Case, DrawnOptions
from lcpo.study.drawn_tables import Key, Run
from lcpo.study.study import Report, Study

LIMITS = (1e-4, 1e-3)
"""On the KL of a step: the paper's c_anchor, and one that learns faster."""
CASES = {
    "lcpo": Case({"c_anchor": LIMITS, "value_steps": (1,)}),
    "lcpo-uniform": Case({"c_anchor": LIMITS, "value_steps": (1,)}),
    "trpo": Case(
        {"max_kl": LIMITS, "value_steps": (1,)},
        {"rollout_length": 200, "entropy_coef": 0.03, "entropy_target": 0.1},
    ),
}
WORDS = {"lcpo": "OOD", "lcpo-uniform": "whole past", "trpo": "none"}


def plan_runs(options: DrawnOptions) -> list[Job]:
    """Every kind of anchors with both limits, on every trace."""
    return drawn.plan_runs(options, CASES)


def make_report(options: DrawnOptions, results: Sequence[Result]) -> Report:
    """The table, and both kinds of anchors trace by trace."""
    seeds, made = drawn.seeds_of(options, results, drawn.chosen_cases(options, CASES))
    runs = drawn_tables.runs_of(seeds)
    table = drawn_tables.summary(
        runs, ["anchors", "agent", "limit"], describe, paper_s_anchors, "OOD anchors"
    )
    return Report(seeds, {"table": table}, figures={"traces": draw(runs)}, made=made)


def describe(key: Key) -> list[str]:
    """Anchors, agent, limit."""
    agent, setting = key
    return [WORDS[agent], agent, f"{_limit(setting):g}"]


def _limit(setting: str) -> float:
    return float(setting.split("-value_steps")[0].split("=")[1])


def paper_s_anchors(key: Key) -> Key:
    """OOD anchors with the same limit."""
    points = CASES["lcpo"].settings()
    return "lcpo", next(point for point in points if _limit(point) == _limit(key[1]))


def draw(runs: Sequence[Run]) -> figures.Picture:
    """A point per trace: the return with OOD anchors and with those of the whole past."""
    figure = figures.new_figure(9.0, 4.4)
    for column, limit in enumerate(LIMITS):
        axes = figure.add_subplot(1, len(LIMITS), column + 1)
        for kind in dict.fromkeys(run.kind for run in runs):
            mine = [run for run in runs if run.kind == kind and _limit(run.setting) == limit]
            ood, past = (
                drawn_tables.returns([run for run in mine if run.agent == agent], "whole")
                for agent in ("lcpo", "lcpo-uniform")
            )
            shared = [trace for trace in ood if trace in past]
            x, y = (
                [sum(found[t].values()) / len(found[t]) for t in shared] for found in (ood, past)
            )
            axes.plot(x, y, "o", markersize=4, label=kind)
        low, high = axes.get_xlim()
        axes.plot([low, high], [low, high], color="0.6", linewidth=1, zorder=0)
        axes.set(title=f"limit {limit:g}", xlabel="return, OOD anchors")
        if column == 0:
            axes.set_ylabel("return, anchors of the whole past")
            axes.legend(frameon=False)
    return figures.to_picture(figure)


study = Study(
    "Not in the paper: anchors that are OOD, from the whole past, or none, on drawn traces",
    DrawnOptions,
    plan_runs,
    make_report,
)
