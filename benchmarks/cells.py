"""What of the paper has a number of ours: `python benchmarks/cells.py` writes docs/coverage.md.

Reads the numbers that the paper prints (lcpo/study/data) and the runs behind our tables (seeds.csv
and made.json in results/). A cell of ours is a mean over the seeds of one folder; where several
folders have one, the longest runs count, then the corrected ones, then the most seeds.
"""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from lcpo.contexts import TraceRef
from lcpo.straggler.report import PAPER
from lcpo.study import costs
from lcpo.study.measure import stats
from lcpo.study.paper import ewc, find_study, normalised
from lcpo.study.report import figures
from lcpo.study.report.cells import Column
from lcpo.study.report.cells import columns as sided
from lcpo.study.report.paper_numbers import read_table
from lcpo.study.report.tables import Table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "coverage.md"
PICTURE = ROOT / "docs" / "images" / "figure-3a.png"
COLUMNS = ("return_after_warmup", "return", "p95")
"""Of seeds.csv: the number that the paper prints, by study."""
NONE = "·"
ENOUGH = 5
"""Seeds for an interval that is worth comparing."""
MANY = 5
"""Agents in a row of the main table, for returns that are normalized among them."""
EWC = ewc.cases(ewc.EwcOptions())[-1].points()
"""Values of the paper's search for online EWC's hyper-parameters, by the name of a point."""

Key = tuple[str, str, str, str]
"""(agent, env, trace, variant), as in the paper's tables."""


class Found(NamedTuple):
    """Our number for a cell."""

    folder: str
    values: tuple[float, ...]
    """By seed."""
    scale: str
    """"" at the paper's steps, else a fraction, or the first steps of the trace."""
    published: bool

    @property
    def seeds(self) -> int:
        return len(self.values)

    @property
    def rank(self) -> tuple[bool, float, bool, int]:
        """The larger, the better."""
        share = float(Fraction(self.scale)) if self.scale and self.scale[0].isdigit() else 0.0
        return not self.scale, share, not self.published, self.seeds

    def __str__(self) -> str:
        mark = "p" if self.published else ""
        return f"{self.seeds}{mark}{f' ({self.scale})' if self.scale else ''}"


class Printed(NamedTuple):
    """A table of the paper."""

    name: str
    label: str
    """In the paper."""
    study: str


TABLES = (
    Printed("gym-all", "gym_all: all agents, environments and traces", "windy"),
    Printed("gym-sigma", "gym_sigma_all: LCPO by its OOD threshold", "ood-sensitivity"),
    Printed("gym-buffer", "gym_buffer_all: LCPO by the size of its reservoir", "buffer-size"),
    Printed("ewc-return", "ewc_return: online EWC by hyper-parameters", "ewc"),
    Printed("ideal-mbpo", "imbpo_return: MBPO with the true model", "ideal-mbpo"),
    Printed("lcpo-variants", "windypend_lcpo_vars: LCPO-P", "lcpo-p"),
    Printed("straggler", "lbalance_simple (Table 1): hedging requests", "straggler"),
    Printed("runtime", "windy_time: time per interaction", "runtime"),
    Printed("discretisation", "pend_original: plain Pendulum, 15 torques", "discretisation"),
)
FIGURES = (
    ("1", "grid world with a trap", "grid-world"),
    ("2", "change points and OOD on a smooth context", "ood-vs-cpd"),
    ("3a", "normalized returns of all agents", "windy"),
    ("3b", "normalized returns by OOD threshold", "ood-sensitivity"),
    ("4", "normalized returns by reservoir size", "buffer-size"),
    ("appendix", "online EWC by hyper-parameters", "ewc"),
    ("appendix", "the context traces", "traces"),
    ("appendix", "the workloads of the straggler task", "workloads"),
    ("appendix", "latency of hedging over time", "straggler"),
)
"""(number, what, experiment); the drawings of the method are left out."""


def our_numbers(results: Path) -> dict[Key, list[Found]]:
    """Every mean over seeds in results/, by the cell that it belongs to."""
    found: dict[Key, list[Found]] = {}
    for file in sorted(results.glob("*/seeds.csv")):
        made = json.loads((file.parent / "made.json").read_text())
        if any(command.startswith("lcpo train") for command in made["command"]):
            continue  # with values of its own, which seeds.csv does not tell
        groups: dict[tuple[Key, str, bool], list[float]] = {}
        with file.open() as lines:
            for row in csv.DictReader(lines):
                column = next((name for name in COLUMNS if row.get(name)), None)
                if row.get("status") == "finished" and column:
                    key, published = cell_of(row)
                    group = (key, scale_of(row, made), published)
                    groups.setdefault(group, []).append(float(row[column]))
        for (key, scale, published), values in groups.items():
            mine = Found(file.parent.name, tuple(values), scale, published)
            found.setdefault(key, []).append(mine)
    return found


def cell_of(row: dict[str, str]) -> tuple[Key, bool]:
    """The cell that a run belongs to, and whether it has the faults of the published code."""
    name, _, faults = row["setting"].partition(", ")
    if name == "as published":
        name, faults = "", name
    published = bool(faults) or "published" in name.split("-")
    variant = "-".join(part for part in name.split("-") if part != "published")
    trace = str(TraceRef.parse(row["trace"]).whole) if row["trace"] else ""
    env = row["env"]
    if variant in EWC:
        alpha, beta = EWC[variant].values()
        memory = costs.short_count(int(float(f"{200 / beta:.0e}")))
        variant = f"alpha={alpha};beta_inv={memory}"
    elif env == "straggler":
        trace = variant.removeprefix("workload-")[:1] if "workload-" in variant else variant
        kind = variant.removeprefix(f"workload-{trace}").strip("-")
        variant = {"agg": "agg;sigma=5", "med": "med;sigma=6", "cons": "cons;sigma=7"}.get(kind, "")
    elif env == "pendulum-v1":
        env, variant = "pendulum", "discrete-15"
    return (row["agent"], env, trace, variant), published


def scale_of(row: dict[str, str], made: dict[str, Any]) -> str:
    """How long a run was: "" for the paper's steps."""
    if row["env"] == "straggler":
        return "1/20"
    if not row["trace"]:
        return ""
    trace = TraceRef.parse(row["trace"])
    share = trace.fraction
    if str(trace.whole) in ("1", "2", "3", "4"):
        whole = int(trace.whole.shape()[0] * share)
        if not any(0.99 * whole <= steps <= whole for steps in made["steps"]):
            return f"first {costs.short_count(max(made['steps']))}"
    return "" if share == 1 else str(share)


DEFAULTS = {"online-ewc": ("alpha=0.1;beta_inv=3M",), "lcpo": ("sigma2=1", "nb=200K")}
"""Columns of other tables that are an agent as it stands in the main one."""


def same_runs(key: Key) -> list[Key]:
    """The cell, and those whose runs are the same: columns of other tables, winners of the main."""
    agent, env, trace, variant = key
    if variant == "mhd2=12":
        return [key, ("lcpo-mhd", env, trace, "")]
    default = DEFAULTS.get(agent, ())
    if variant.startswith("best-") or variant in ("", *default):
        return [key, *((agent, env, trace, other) for other in ("", *default))]
    return [key]


def cover(table: str, ours: dict[Key, list[Found]]) -> dict[Key, Found | None]:
    """Our best number for each cell of a table; None where there is none."""
    if table == "runtime":
        speed = Found("speed", (0.0,), "", False)
        return {key: speed if key[0] in costs.AGENT_US else None for key in read_table(table)}
    return {
        key: max(
            (found for same in same_runs(key) for found in ours.get(same, ())),
            key=lambda found: found.rank,
            default=None,
        )
        for key in read_table(PAPER if table == "straggler" else table)
    }


def grid(cells: dict[Key, Found | None]) -> str:
    """A row per environment and trace, a column per agent and variant."""
    columns = list(dict.fromkeys(_column(key) for key in cells))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for key, found in cells.items():
        rows.setdefault((key[1], key[2]), {})[_column(key)] = str(found) if found else NONE
    lines = [[env, trace, *(row.get(c, "") for c in columns)] for (env, trace), row in rows.items()]
    header = ["env", "trace", *columns]
    return Table(sided(header, "ll" + "r" * len(columns)), lines).to_markdown()


def _column(key: Key) -> str:
    agent, _, _, variant = key
    return variant.replace("-", " ") if variant.startswith("best-") else variant or agent


class Missing(NamedTuple):
    """A command for cells without a number at the paper's steps."""

    command: str
    cells: int
    cost: costs.Cost


def missing_windy(cells: dict[Key, Found | None]) -> list[Missing]:
    """By environment: agents that lack the same traces share a command."""
    lacking: dict[str, dict[str, list[str]]] = {}
    for (agent, env, trace, _), found in cells.items():
        if found is None or found.scale:
            lacking.setdefault(env, {}).setdefault(agent, []).append(trace)
    commands = []
    for env, agents in lacking.items():
        groups: dict[str, list[str]] = {}
        for agent, traces in agents.items():
            groups.setdefault(",".join(traces), []).append(agent)
        for traces, members in groups.items():
            parts = {"agents": ",".join(members), "envs": env, "traces": traces}
            flags = " ".join(f"--{name} {value}" for name, value in parts.items())
            command = f"lcpo reproduce windy {flags}"
            count = len(members) * len(traces.split(","))
            commands.append(Missing(command, count, study_cost("windy", **parts)))
    return commands


def study_cost(name: str, **options: str) -> costs.Cost:
    """Of an experiment, or a part of it, at the paper's scale."""
    study = find_study(name)
    scale = {} if "scale" in study.Options.without else {"scale": "paper"}
    return costs.cost(study.plan(study.Options(**scale, **options, check=False)))


def page(results: Path) -> str:
    """The text of docs/coverage.md."""
    ours = our_numbers(results)
    covered = {table.name: cover(table.name, ours) for table in TABLES}
    lines = [INTRO, overview(covered), "\n## Figures\n", figure_table(results), MISSING_INTRO]
    lines.append(missing_table(missing_windy(covered["gym-all"])))
    lines.append(agreement(covered["gym-all"]))
    lines.append(FIGURE_INTRO + normalised.summary(*scores(covered["gym-all"])).to_markdown())
    lines.append("## Cell by cell\n" + LEGEND)
    for table in TABLES:
        if table.name != "runtime":
            lines.append(f"### {table.label}\n\n{grid(covered[table.name])}")
    return "\n".join(lines)


def agreement(cells: dict[Key, Found | None]) -> str:
    """Cells of the main table with intervals on both sides, and those that do not overlap."""
    paper, count, rows = read_table("gym-all"), 0, []
    for key, found in cells.items():
        printed = paper[key]
        if found is None or found.scale or found.seeds < ENOUGH or printed.half is None:
            continue
        mine, count = stats.mean_ci(found.values), count + 1
        if mine.low > printed.mean + printed.half or mine.high < printed.mean - printed.half:
            agent, env, trace, _ = key
            ours = Column("").text(mine)
            rows.append([env, trace, agent, ours, printed.text, str(found.seeds)])
    header = ["env", "trace", "agent", "ours", "paper", "seeds"]
    table = Table(sided(header, "lllrrr"), rows).to_markdown() if rows else ""
    return f"""## Agreement with the paper

Of {count} cells of the main table with {ENOUGH} or more seeds at the paper's steps and a printed
interval, the 95 % intervals overlap in {count - len(rows)}.
[Results](results.md#what-was-reproduced) has the causes that are known. The others:

{table}"""


def scores(cells: dict[Key, Found | None]) -> tuple[normalised.Scores, normalised.Scores]:
    """Normalized returns by agent, ours and the paper's, of the cells that have both.

    Environments and traces with fewer than `MANY` such agents are left out.
    """
    paper = read_table("gym-all")
    rows: dict[tuple[str, str], list[Key]] = {}
    for key, found in cells.items():
        if found is not None and not found.scale:
            rows.setdefault(key[1:3], []).append(key)
    mine, theirs = ({key[0]: [] for key in cells} for _ in range(2))
    for keys in rows.values():
        if len(keys) < MANY:
            continue
        known = {key[0]: _point(statistics.fmean(x.values)) for key in keys if (x := cells[key])}
        printed = {key[0]: _point(paper[key].mean) for key in keys}
        for returns, into in ((known, mine), (printed, theirs)):
            for agent, value in normalised.normalise(returns).items():
                into[agent].append(value)
    return mine, theirs


def _point(mean: float) -> normalised.Interval:
    """Without an interval: neither the table nor the figure shows one."""
    return mean, mean, mean


def draw(mine: normalised.Scores, paper: normalised.Scores) -> figures.Picture:
    """A line per agent, the best on top: a dot per environment and trace."""
    agents = sorted(
        (a for a in mine if mine[a]), key=lambda a: sum(x for x, *_ in mine[a]) / len(mine[a])
    )
    shape = figures.new_figure(7.0, 0.3 * len(agents) + 0.8)
    axis = shape.subplots()
    looks = (("ours", mine, 0.14, "C0"), ("the paper's", paper, -0.14, "none"))
    for label, returns, up, face in looks:
        points = [(x, y + up) for y, agent in enumerate(agents) for x, *_ in returns[agent]]
        axis.scatter(*zip(*points, strict=True), s=26, facecolor=face, edgecolor="C0", label=label)
    axis.set(xlabel="normalized return", xlim=(-0.03, 1.03), ylim=(-0.6, len(agents) - 0.4))
    axis.set_yticks(range(len(agents)), agents)
    axis.grid(axis="y", lw=0.4)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    shape.legend(loc="outside upper right", ncols=2, frameon=False)
    return figures.to_picture(shape)


def overview(covered: dict[str, dict[Key, Found | None]]) -> str:
    rows, total = [], [0, 0, 0]
    for table in TABLES:
        cells = covered[table.name].values()
        full = sum(found is not None and not found.scale for found in cells)
        other = sum(found is not None and bool(found.scale) for found in cells)
        cost = study_cost(table.study)
        time = costs.in_words(cost.core_seconds) if cost.runs else "minutes"
        counts = [len(cells), full, other]
        total = [a + b for a, b in zip(total, counts, strict=True)]
        command = f"`lcpo reproduce {table.study}`"
        left = str(len(cells) - full - other)
        rows.append([table.label, *map(str, counts), left, command, time])
    rows.append(["all", *map(str, total), str(total[0] - total[1] - total[2]), "", ""])
    ours = ["ours, paper's steps", "ours, shorter", "none"]
    header = ["table of the paper", "cells", *ours, "command", "one core"]
    return Table(sided(header, "lrrrrlr"), rows).to_markdown()


def figure_table(results: Path) -> str:
    places: dict[str, list[str]] = {}
    for file in sorted(results.glob("*/made.json")):
        for command in json.loads(file.read_text())["command"]:
            words = command.split()
            if words[:2] == ["lcpo", "reproduce"]:
                places.setdefault(words[2], []).append(file.parent.name)
    rows = []
    for number, what, study in FIGURES:
        links = [f"[{name}](../results/{name})" for name in dict.fromkeys(places.get(study, []))]
        rows.append([number, what, f"`lcpo reproduce {study}`", ", ".join(links) or NONE])
    return Table(["figure", "what", "command", "results"], rows).to_markdown()


def missing_table(missing: Sequence[Missing]) -> str:
    rows = [
        [f"`{m.command}`", str(m.cells), f"{m.cost.runs:,}", costs.count(m.cost.interactions),
         costs.in_words(m.cost.core_seconds)]
        for m in missing
    ]  # fmt: skip
    header = ["command", "cells", "runs", "steps", "one core"]
    return Table(sided(header, "lrrrr"), rows).to_markdown()


INTRO = """# Coverage of the paper's numbers

Which of the numbers in the paper's tables have a counterpart in this library, how many seeds they
rest on, and what the rest would cost. The paper prints 746 numbers in nine tables, those of
hyperparameters not counted.

`python benchmarks/cells.py` writes this page from [results/](../results/README.md) and the paper's
numbers; do not edit it by hand. Times are estimates for one core, at the paper's steps and seeds
([speed.md](speed.md)). Divide by N for N cores. [reproduce.md](reproduce.md) describes how to run a
part of a table, or a shorter version of it.
"""
MISSING_INTRO = """
## What is missing in the main table, and what it would cost

We have no number for these cells at the paper's steps. Costs are for 25 seeds (5 for MBPO, MBCD
and prescient agents).
"""
FIGURE_INTRO = f"""
## Figure 3a over what was run

Normalized returns after warm-up, over the environments and traces of the main table with at least
{MANY} agents at the paper's steps. 0 and 1 are the lowest and the highest return among them. The
paper's returns of the same cells are normalized in the same way. Each has a dot in the figure.

![Normalized returns: ours and the paper's](images/figure-3a.png)

"""
LEGEND = f"""
An entry is the number of seeds, at the paper's steps. Suffixes and signs:

- `p`: with the faults of the published code, where there are no corrected runs.
- In parentheses: a fraction of the paper's time, or only the first steps of the trace.
- {NONE}: no number yet.

The columns "best baseline" and "best prescient" repeat cells of the main table. All times per
interaction are measured ([speed.md](speed.md)). `sb3-rl-zoo` are numbers from other code. The
numbers themselves are in [results.md](results.md).
"""


if __name__ == "__main__":
    PAGE.write_text(page(ROOT / "results"), encoding="utf-8")
    found = scores(cover("gym-all", our_numbers(ROOT / "results")))
    PICTURE.write_bytes(draw(*found).png)
