"""How well could one do, knowing the future? Agents trained on the whole trace beforehand.

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
from lcpo.study.paper.columns import TITLE, Found, Line, Part, find_parts
from lcpo.study.report.cells import Cell, Column, Noted, count_of
from lcpo.study.report.paper_numbers import printed
from lcpo.study.report.tables import Table

AGENTS = ("prescient-a2c", "prescient-trpo", "prescient-ddqn", "prescient-sac")


def tables(found: Found) -> dict[str, Table]:
    """What the prescient agents learnt, and the regret of the others, where there are any."""
    shown = {}
    before = [r for r in found.results if find_agent(r.job.agent).training is not None]
    if before:
        shown["prescient"] = summary(before, found.paper)
    regret = regret_table(found)
    return shown if regret is None else {**shown, "regret": regret}


def end_of_training(result: Result) -> float:
    """Return over the last tenth of the training."""
    record = result.training
    return records.lifelong_return(record, int(0.9 * record["step"][-1])) if record else stats.NAN


def training_numbers(result: Result) -> dict[str, float]:
    """What seeds.csv says of the training of a run; nothing of one that has none."""
    return {"end_of_training": end_of_training(result)} if result.job.training else {}


def best_seed(line: Line) -> tuple[int | None, float]:
    """The best seed, and its return after warm-up."""
    returns = {s: x for s, x in line.returns(line.part.comparison.warmup).items() if x == x}
    seed = max(returns, key=lambda s: returns[s], default=None)
    return seed, stats.NAN if seed is None else returns[seed]


def summary(results: Sequence[Result], paper: str) -> Table:
    """The agents, and the best of them, by environment and trace, beside what the paper prints."""
    found = find_parts(results)
    rows: list[list[Cell]] = []
    for part in found.parts:
        where = [part.env, part.trace]
        rows += [[*where, *_cells(line, paper)] for line in part.lines]
        rows.append([*where, "best prescient", "", "", *_best(part, paper)])
    notes = [note for part in found.parts for note in part.comparison.notes]
    words = found.words()
    late = f"return after {words['warmup']}"
    numbers = ("seeds", "end of training", late, "best seed", "paper")
    return Table(
        ["env", "trace", "agent", *map(Column, numbers)],
        rows,
        title=f"{TITLE.format(**words)}, after training",
        notes=[*dict.fromkeys(notes), "best prescient: by the mean over seeds, and by the best "
               "seed; the paper does not say which it prints"],
        compared=(late, "paper"),
    )  # fmt: skip


def _cells(line: Line, paper: str) -> list[Cell]:
    training = stats.mean_ci([end_of_training(run) for run in line.finished])
    seed, best = best_seed(line)
    return [
        line.row.label,
        count_of(len(line.finished), len(line.runs)),
        training,
        line.row.after_warmup,
        None if seed is None else Noted(best, f"seed {seed}"),
        line.printed(paper),
    ]


def _best(part: Part, paper: str) -> list[Cell]:
    """Who is best, by the mean over seeds, by the best seed, and in the paper."""
    by_mean = {line.row.label: line.row.after_warmup for line in part.lines}
    by_seed = {line.row.label: best_seed(line)[1] for line in part.lines}
    cells = {agent: printed(paper, agent, part.env, part.trace) for agent in AGENTS}
    theirs = {agent: cell for agent, cell in cells.items() if cell is not None}
    best: list[Cell] = []
    for found, mean in (
        (by_mean, lambda label: by_mean[label].mean),
        (by_seed, lambda label: by_seed[label]),
        (theirs, lambda label: theirs[label].mean),
    ):
        known = [label for label in found if mean(label) == mean(label)]
        label = max(known, key=mean, default=None)
        name = label and label.removeprefix("prescient-")
        best.append(None if label is None else Noted(found[label], str(name)))
    return best


def regret_table(found: Found) -> Table | None:
    """What not knowing the future cost each agent per step; None where no part has both kinds.

    Against the best prescient agent by the mean over seeds: the mean over all pairs of a run and
    one of its runs.
    """
    rows: list[list[Cell]] = []
    for part in found.parts:
        trained = [line for line in part.lines if line.job.training]
        known = [line for line in trained if not np.isnan(line.row.after_warmup.mean)]
        if known:
            best = max(known, key=lambda line: line.row.after_warmup.mean)
            online = [line for line in part.lines if not line.job.training and line.finished]
            where = [part.env, part.trace]
            rows += [[*where, line.row.label, *_regrets(line, best)] for line in online]
    if not rows:
        return None
    numbers = (Column("seeds"), "against", Column("regret per step"), Column("after warm-up"))
    title = f"{TITLE}: reward per step of the best prescient agent, less an agent's own"
    title = title.format(**found.words())
    return Table(["env", "trace", "agent", *numbers], rows, title=title)


def _regrets(line: Line, best: Line) -> list[Cell]:
    warmup = line.part.comparison.warmup
    found = [_regret(run, best.finished, warmup) for run in line.finished]
    whole, late = (stats.mean_ci(list(values)) for values in zip(*found, strict=True))
    return [len(found), best.row.label, whole, late]


def _regret(run: Result, others: Sequence[Result], warmup: int) -> tuple[float, float]:
    """Per step of a run: over all of it, and after the warm-up."""
    step = run.record["step"]
    found = np.mean([cumulative_regret(run.record, other.record) for other in others], axis=0)
    early = np.interp(warmup, step, found)
    return found[-1] / step[-1], (found[-1] - early) / (step[-1] - warmup)
