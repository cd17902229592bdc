"""Which contributes to LCPO's returns, the constraint or the entropy bonus? Not in the paper.

                    without entropy bonus    with it
    A2C             a2c                      a2c-entropy
    constrained     lcpo-noent               lcpo

All four have the same seeds, so that effects are differences by seed.
"""

from __future__ import annotations

from collections.abc import Sequence

from lcpo.study.cases import agent_cases
from lcpo.study.measure import stats
from lcpo.study.measure.stats import Estimate
from lcpo.study.paper import columns
from lcpo.study.paper.columns import Found, Line, PendulumOptions, column_study
from lcpo.study.report.cells import Column
from lcpo.study.report.tables import Table

AGENTS = "a2c,a2c-entropy,lcpo-noent,lcpo"
EFFECTS = {
    "entropy, of A2C": ("a2c-entropy", "a2c"),
    "entropy, of LCPO": ("lcpo", "lcpo-noent"),
    "constraint, without entropy": ("lcpo-noent", "a2c"),
    "constraint, with entropy": ("lcpo", "a2c-entropy"),
}
"""Which agent minus which other."""


def effects(found: Found) -> tuple[dict[str, Table], dict]:
    """A row per trace and effect, then how much more both do together than each alone."""
    rows = []
    for part in found.parts:
        late, whole = (_effects(part.lines, after) for after in (part.comparison.warmup, 0))
        trace = str(part.comparison.trace)
        rows += [[trace, name, late[name], whole[name]] for name in late]
    header = [
        "trace", "effect",
        Column("return after warm-up", "+", about="mean difference by seed"),
        Column("whole run", "+", about="the same from the first step on"),
    ]  # fmt: skip
    title, heading = "differences by seed; {intervals}", "What each part contributes"
    title = title.format(**found.words())
    return {"effects": Table(header, rows, title=title, heading=heading)}, {}


def _effects(lines: Sequence[Line], after: int) -> dict[str, Estimate]:
    returns = {line.job.agent: line.returns(after) for line in lines}

    def gain(a: str, b: str) -> dict[int, float]:
        first, second = returns.get(a, {}), returns.get(b, {})
        return {seed: first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())}

    gains = {name: gain(a, b) for name, (a, b) in EFFECTS.items()}
    found = {name: stats.mean_ci(list(mine.values())) for name, mine in gains.items()}
    both = stats.paired_difference(gains["entropy, of LCPO"], gains["entropy, of A2C"])
    return {**found, "both, beyond the sum of each": both}


study = column_study(
    "Not in the paper: LCPO's constraint and its entropy bonus, each without the other",
    PendulumOptions,
    lambda options: agent_cases(AGENTS if options.agents is None else options.agents),
    fields=[columns.PLAYED, columns.TITLED, columns.LATE, columns.WHOLE, columns.SEEDS],
    title="pendulum, {steps} steps; {intervals}",
    seeds=8,
    more=effects,
)
