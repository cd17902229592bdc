"""Agents trained on the whole trace beforehand, and the regret of the others.

"Best prescient" is the best of four algorithms trained from random starts on the trace and then
frozen. The paper does not say whether it prints the mean over its five seeds or the best of them;
it prints no intervals, which would fit the best one. Both are given here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lcpo.agents import find_agent
from lcpo.run.store import record as records
from lcpo.run.store.results import Result
from lcpo.study.measure import stats
from lcpo.study.measure.regret import cumulative_regret
from lcpo.study.paper import columns
from lcpo.study.paper.columns import TITLE, Found, Line, Part, make_table, text_field
from lcpo.study.report.cells import Cell, Column, Noted
from lcpo.study.report.paper_numbers import printed
from lcpo.study.report.tables import Table

AGENTS = ("prescient-a2c", "prescient-trpo", "prescient-ddqn", "prescient-sac")
REGRET = "reward per step of the best prescient agent, less an agent's own"
LABEL = text_field("agent", lambda line: line.row.label)
BEST = (
    "best prescient: by the mean over seeds, and by the best seed; the paper does not say which it "
    "prints"
)


def tables(found: Found) -> dict[str, Table]:
    """What the prescient agents learned, and the regret of the others, if any."""
    before = [r for r in found.results if find_agent(r.job.agent).training is not None]
    shown = {"prescient": summary(before, found.paper)} if before else {}
    regret = regret_table(found)
    return shown if regret is None else {**shown, "regret": regret}


def end_of_training(result: Result) -> float:
    """Return over the last tenth of the training."""
    record = result.training
    return records.lifelong_return(record, int(0.9 * record["step"][-1])) if record else stats.NAN


def best_seed(line: Line) -> tuple[int | None, float]:
    """The best seed, and its return after warm-up."""
    returns = {s: x for s, x in line.returns(line.part.comparison.warmup).items() if x == x}
    seed = max(returns, key=lambda s: returns[s], default=None)
    return seed, stats.NAN if seed is None else returns[seed]


def summary(results: Sequence[Result], paper: str) -> Table:
    """The agents, and the best of them, by environment and trace, next to the paper's numbers."""

    def best(line: Line) -> Cell:
        seed, value = best_seed(line)
        return None if seed is None else Noted(value, f"seed {seed}")

    def training(line: Line) -> Cell:
        return stats.mean_ci([end_of_training(run) for run in line.finished])

    found = columns.find_parts(results, paper)
    fields = (
        columns.ENV, columns.TRACE, LABEL,
        (columns.LATE[0]._replace(key=""), columns.LATE[1]),
        (Column("best seed", about="the same of the best seed"), best),
        columns.paper_field(paper),
        (Column("end of training", about="return over the last tenth of the training"), training),
        columns.ENDED,
    )  # fmt: skip
    notes = dict.fromkeys(note for part in found.parts for note in part.comparison.notes)
    title, heading = f"{TITLE}, after training", "Agents trained on the whole trace beforehand"
    return make_table(found, fields, title, [*notes, BEST], _best, heading)


def _best(found: Found, part: Part) -> list[list[Cell]]:
    """The best agent by the mean over seeds, by the best seed, and in the paper."""
    by_mean = {line.row.label: line.row.after_warmup for line in part.lines}
    by_seed = {line.row.label: best_seed(line)[1] for line in part.lines}
    cells = {agent: printed(found.paper, agent, part.env, part.trace) for agent in AGENTS}
    theirs = {agent: cell for agent, cell in cells.items() if cell is not None}
    best: list[Cell] = []
    for values, mean in (
        (by_mean, lambda label: by_mean[label].mean),
        (by_seed, lambda label: by_seed[label]),
        (theirs, lambda label: theirs[label].mean),
    ):
        known = [label for label in values if mean(label) == mean(label)]
        label = max(known, key=mean, default=None)
        best.append(label and Noted(values[label], label.removeprefix("prescient-")))
    return [[part.env, part.trace, "best prescient", *best, "", ""]]


def regret_table(found: Found) -> Table | None:
    """What not knowing the future cost each agent per step; None if no part has both kinds.

    Against the best prescient agent by the mean over seeds, averaged over all pairs of a run and
    one of its runs.
    """
    parts, best = [], {}
    for part in found.parts:
        trained = [line for line in part.lines if line.job.training]
        known = [line for line in trained if not np.isnan(line.row.after_warmup.mean)]
        online = [line for line in part.lines if not line.job.training and line.finished]
        if known and online:
            best[part.env, part.trace] = max(known, key=lambda line: line.row.after_warmup.mean)
            parts.append(part._replace(lines=online))
    if not parts:
        return None

    def against(line: Line) -> Line:
        return best[line.part.env, line.part.trace]

    def regret(line: Line, after: int) -> Cell:
        return stats.mean_ci([_regret(run, against(line), after) for run in line.finished])

    fields = (
        columns.ENV, columns.TRACE, LABEL,
        (Column("regret per step", about=f"{REGRET}, over the whole run"),
         lambda line: regret(line, 0)),
        (Column("after warm-up", about="the same without the first {warmup} steps"),
         lambda line: regret(line, line.part.comparison.warmup)),
        text_field("against", lambda line: against(line).row.label),
        (columns.SEEDS[0], lambda line: len(line.finished)),
    )  # fmt: skip
    title = f"{TITLE}: {REGRET}".format(**found.words())
    heading = "Regret: what not knowing the future cost"
    return make_table(found._replace(parts=parts), fields, title, heading=heading)


def _regret(run: Result, best: Line, after: int) -> float:
    """Reward per step of a run, after this many steps."""
    step, others = run.record["step"], best.finished
    found = np.mean([cumulative_regret(run.record, other.record) for other in others], axis=0)
    early = np.interp(after, step, found) if after else 0.0
    return (found[-1] - early) / (step[-1] - after)
