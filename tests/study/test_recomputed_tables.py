"""The tables in results/ are what their seeds.csv says: every cell that the seeds determine.

Tables of drawn traces are made again by the study's own code. In all others a column has a rule
(`RULES`); cells that need more than seeds.csv holds, such as the accepted step, have none.
"""

from __future__ import annotations

import csv
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from each import for_each
from scipy.stats import t as student

from lcpo.core.intervals import Estimate
from lcpo.straggler.report import printed
from lcpo.study.controls import anchors, drawn, plus, rivals
from lcpo.study.measure import stats
from lcpo.study.report.cells import NONE, Column
from lcpo.study.report.paper_numbers import printed as printed_number
from lcpo.study.tune.judged import TUNED

RESULTS = Path(__file__).parents[2] / "results"
NO_RUNS = {"ood-vs-cpd", "workloads"}
DRAWN = ("anchors", "rivals", "rivals-hopper")
GRID_WORLD = "grid-world"
"""Its table has medians and the worst seed (tests/study/test_studies.py)."""
LONG = "plus-long"
OVER_TRACES = ("tune-cartpole", LONG)
"""Their intervals are over traces and their seeds."""
FOLDERS = sorted(path.parent.name for path in RESULTS.glob("*/seeds.csv"))
PLUS, RESEARCH = "plus", "plus-research"
"""The parts of LCPO+, made again below; and tables about choices, which no study makes."""
SUGGEST = "suggest"
"""Its tables are about tasks (tests/study/test_suggest.py)."""
PHYSICS = "same-physics"
"""Its table compares two engines, below."""
APART = {*NO_RUNS, *DRAWN, *OVER_TRACES, GRID_WORLD, PLUS, RESEARCH, SUGGEST, PHYSICS}
OTHERS = [name for name in FOLDERS if name not in APART]

RATES = {"1M": "0.0002", "3M": "7e-05", "10M": "2e-05"}
"""Online EWC's averaging rate by 1/beta, in interactions."""

FAULTS = {
    "none": "corrected", "all but those of options": "all",
    "none, with the option of dual-algebra": "with-dual-algebra",
}  # fmt: skip
"""Settings of `lcpo reproduce faults`, by what its table calls them."""

Run = Mapping[str, str]
Row = Mapping[str, str]


def rows_of(path: Path) -> list[Row]:
    """Of the first table of a Markdown file."""
    lines = [line for line in path.read_text().split("\n") if line.startswith("|")]
    header, _, *rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    return [dict(zip(header, row, strict=True)) for row in rows]


def runs_of(folder: str) -> list[Run]:
    with (RESULTS / folder / "seeds.csv").open(encoding="utf-8") as file:
        return [run for run in csv.DictReader(file) if run["status"] == "finished"]


def runs_behind(row: Row, runs: Sequence[Run]) -> list[Run]:
    """Those of the row's agent, trace and point of a sweep."""
    agent = row["agent"].removesuffix(" (best fixed)")
    point = {
        "updates_per_rollout": row.get("steps per rollout", "-"),
        "penalty_coef": row.get("alpha", "-"),
        "averaging_rate": RATES.get(row.get("1/beta", ""), "-"),
    }
    words = [re.escape(f"{name}={value}") for name, value in point.items() if value != "-"]
    fault = row.get("fault")

    def mine(run: Run) -> bool:
        setting = run["setting"].removesuffix(", as published")
        if fault is not None and setting != FAULTS.get(fault, fault):
            return False
        if f"{run['agent']}-{setting}" == agent:
            return True
        if setting.startswith(TUNED):
            return False
        if "=" in agent:  # settings of its own: agent[field=value]
            return False
        if "=" in setting and not words:
            return False
        variant = run["setting"].rpartition("-")[2]
        named = variant in ("agg", "med", "cons", "fast")
        name = f"{run['agent']}-{variant}" if named else run["agent"]
        trace = row.get("trace", run["trace"]) == run["trace"].split("@")[0]
        there = all(re.search(rf"(^|-){word}(\.0)?(-|,|$)", run["setting"]) for word in words)
        return name == agent and trace and there

    return [run for run in runs if mine(run)]


def values(runs: Sequence[Run], column: str) -> list[float]:
    return [float(run[column]) for run in runs if run[column]]


def by_seed(runs: Sequence[Run], column: str) -> dict[int, float]:
    return {int(run["seed"]): float(run[column]) for run in runs}


def interval(column: str) -> Callable[[Sequence[Run]], str]:
    """Mean and Student's interval over the seeds."""

    def cell(runs: Sequence[Run]) -> str:
        found = values(runs, column)
        return Column("").text(stats.mean_ci(found)) if found else NONE

    return cell


def percent(column: str, form: str) -> Callable[[Sequence[Run]], str]:
    def cell(runs: Sequence[Run]) -> str:
        found = values(runs, column) if column in runs[0] else []
        return f"{100 * statistics.fmean(found):{form}} %" if found else NONE

    return cell


def hours_until(runs: Sequence[Run]) -> str:
    """seeds.csv has no number where it never happened, or where it cannot be said."""
    found = [float(run["hours_until"] or "inf") for run in runs]
    median = statistics.median(found)
    return "never" if median == float("inf") else f"{median:.0f}"


RULES: dict[str, Callable[[Sequence[Run]], str]] = {
    "seeds": lambda runs: str(len(runs)),
    "whole run": interval("whole_run"),
    "return": interval("return"),
    "end of training": interval("end_of_training"),
    "revisits": interval("revisits"),
    "distance": interval("distance"),
    "active": percent("constraint_active", ".1f"),
    "reward unexplained": percent("model_reward_error", ".3g"),
    "obs unexplained": percent("model_obs_error", ".3g"),
    "sample age": percent("sample_age", ".3g"),
    "median": lambda runs: f"{statistics.median(values(runs, 'return')):.0f}",
    "worst seed": lambda runs: f"{min(values(runs, 'return')):.0f}",
    "p95": interval("p95"),
    "p99": interval("p99"),
    "p99.9": interval("p999"),
    "extra load %": interval("extra_load"),
    "worst hour": interval("worst_hour"),
    "worse hours %": interval("worse_hours"),
    "hours until": hours_until,
    "active %": interval("active"),
    "OOD %": interval("ood"),
}
FIRST = {"replay-rate-sac-10": "first_0.5M"}
LAST = {"replay-rate-sac-10": "after_1.5M"}


def rule_of(folder: str, column: str) -> Callable[[Sequence[Run]], str] | None:
    if column.startswith(("return after", "reward after")):
        return interval("return_after_warmup")
    if column.startswith("first ") and column != "first at (million)":
        return interval(FIRST.get(folder, "first_quarter"))
    if column.startswith("last "):
        return interval(LAST.get(folder, "last_quarter"))
    return RULES.get(column)


@for_each("folder", OTHERS)
def test_tables_are_what_their_seeds_say(folder: str) -> None:
    runs, rows = runs_of(folder), rows_of(RESULTS / folder / "table.md")
    assert rows
    checked = 0
    for row in rows:
        if row["agent"].startswith("best prescient"):
            continue
        mine = runs_behind(row, runs)
        finished = row["seeds"].partition(" of ")[0]
        assert len(mine) == int(finished), f"{row['agent']}: {len(mine)} runs"
        for column, shown in {**row, "seeds": finished}.items():
            rule = rule_of(folder, column)
            if rule is not None:
                assert shown == rule(mine), f"{row['agent']}, {column}"
                checked += 1
    assert checked >= 2 * len(rows)


def test_two_engines_are_compared_as_their_seeds_say() -> None:
    runs, rows = runs_of(PHYSICS), rows_of(RESULTS / PHYSICS / "table.md")
    assert len(rows) == 6
    for row in rows:
        column = "whole_run" if row["return"] == "whole run" else "return_after_warmup"
        mujoco, compiled = (
            values([r for r in runs if (r["env"], r["setting"]) == (row["env"], engine)], column)
            for engine in ("mujoco", "compiled")
        )
        assert row["seeds"] == str(len(mujoco)) == str(len(compiled))
        for engine, found in (("MuJoCo", mujoco), ("compiled", compiled)):
            assert row[engine] == Column("").text(stats.mean_ci(found))
        errors = [statistics.variance(found) / len(found) for found in (mujoco, compiled)]
        freedom = sum(errors) ** 2 / sum(e**2 / (len(mujoco) - 1) for e in errors)
        half = student.ppf(0.975, freedom) * sum(errors) ** 0.5
        middle = statistics.fmean(compiled) - statistics.fmean(mujoco)
        difference = Estimate(middle, middle - half, middle + half, len(mujoco))
        assert row["compiled minus MuJoCo"] == Column("", "+").text(difference)


def by_trace(runs: Sequence[Run], column: str) -> dict[str, dict[int, float]]:
    traces = dict.fromkeys(run["trace"] for run in runs)
    return {t: by_seed([run for run in runs if run["trace"] == t], column) for t in traces}


@for_each("folder", [name for name in FOLDERS if name.startswith("tune-")])
def test_verdicts_of_searches_are_what_their_seeds_say(folder: str) -> None:
    runs, column = runs_of(folder), "return_after_warmup"
    tuned = by_trace([run for run in runs if run["setting"].startswith(TUNED)], column)
    others = [run for run in runs if not run["setting"].startswith(TUNED)]
    rows = rows_of(RESULTS / folder / "verdict.md")
    assert {row["beside"] for row in rows} == {run["agent"] for run in others}
    for row in rows:
        other = by_trace([run for run in others if run["agent"] == row["beside"]], column)
        if folder in OVER_TRACES:
            difference = stats.hierarchical_difference(tuned, other)
        else:
            ((trace, mine),) = tuned.items()
            difference = stats.paired_difference(mine, other[trace])
        assert row["difference"] == Column("", "+").text(difference)
        assert row["found settings are"] == ("better" if difference.low > 0.0 else "worse")


def test_differences_over_traces_are_what_their_seeds_say() -> None:
    first, *rows = rows_of(RESULTS / LONG / "table.md")
    runs = {
        row["agent"]: by_trace(
            [r for r in runs_of(LONG) if f"lcpo-plus-{r['setting']}".strip("-") == row["agent"]],
            "return_after_warmup",
        )
        for row in (first, *rows)
    }
    assert len(rows) == 2
    for row in rows:
        difference = stats.hierarchical_difference(runs[row["agent"]], runs[first["agent"]])
        assert row["minus lcpo-plus"] == Column("", "+").text(difference)


@for_each("folder", [f for f in OTHERS if not f.startswith("straggler")])
def test_differences_to_the_first_row_are_what_their_seeds_say(folder: str) -> None:
    """`minus REF` and P(better), which compare the returns after warm-up."""
    runs, (first, *rows) = runs_of(folder), rows_of(RESULTS / folder / "table.md")
    column = f"minus {first['agent']}"
    reference = by_seed(runs_behind(first, runs), "return_after_warmup") if column in first else {}
    for row in rows if reference else ():
        mine = by_seed(runs_behind(row, runs), "return_after_warmup")
        difference = stats.paired_difference(mine, reference)
        assert row[column] == Column("", "+").text(difference)
        better = stats.probability_of_improvement(mine, reference)
        assert row["P(better)"] == Column("", "bounds").text(better)


@for_each("folder", [f for f in OTHERS if f.startswith("straggler")])
def test_straggler_tables_compare_with_the_best_fixed_timeout(folder: str) -> None:
    runs, rows = runs_of(folder), rows_of(RESULTS / folder / "table.md")
    p95 = {row["agent"]: by_seed(runs_behind(row, runs), "p95") for row in rows}
    means = {agent: statistics.fmean(found.values()) for agent, found in p95.items()}
    assert list(means) == sorted(means, key=lambda agent: means[agent]), "the best first"
    (best,) = [agent for agent in means if agent.endswith(" (best fixed)")]
    start, goal = means[best], means["hedge-hourly"]
    for row in rows:
        agent = row["agent"]
        difference = Column("", "+").text(stats.paired_difference(p95[agent], p95[best]))
        assert row["minus best fixed"] == ("-" if agent == best else difference)
        if row["of the way %"] != NONE:
            way = 100 * (start - means[agent]) / (start - goal)
            assert row["of the way %"] == Column("").text(way)
        theirs = printed(row["workload"], agent)
        assert row.get("paper", NONE) == (theirs.text if theirs else NONE)


@for_each("folder", [f for f in OTHERS if f.startswith(("windy", "pendulum-short"))])
def test_the_paper_s_numbers_are_those_that_it_prints(folder: str) -> None:
    for row in rows_of(RESULTS / folder / "table.md"):
        theirs = printed_number("gym-all", row["agent"], row["env"], row["trace"])
        assert row["paper"] == (theirs.text if theirs else NONE), row


def mean_returns(folder: str, column: str) -> dict[tuple[str, str], dict[str, float]]:
    """Over seeds, by (agent, setting) and trace."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for run in runs_of(folder):
        traces = found.setdefault((run["agent"], run["setting"]), {})
        traces.setdefault(run["trace"], []).append(float(run[column]))
    return {
        case: {trace: statistics.fmean(seeds) for trace, seeds in traces.items()}
        for case, traces in found.items()
    }


def words_of(study: ModuleType, case: tuple[str, str]) -> tuple[str, ...]:
    """What a table calls a case; its cost is a number."""
    return tuple(
        word if isinstance(word, str) else Column("").text(word) for word in study.describe(case)
    )


def is_mean(cell: str, mean: float) -> bool:
    """Is "-380 ± 25" an interval around it, to the digits that are shown?"""
    shown = cell.split(" ")[0]
    return abs(float(shown) - mean) <= 0.501 * 10.0 ** -len(shown.partition(".")[2])


@pytest.mark.parametrize("folder", DRAWN)
def test_means_and_counts_on_drawn_traces_are_what_their_seeds_say(folder: str) -> None:
    """By other arithmetic than the study's, without the intervals: for those, the test below."""
    study = anchors if folder == "anchors" else rivals
    late, whole = (mean_returns(folder, name) for name in ("return_after_warmup", "whole_run"))
    cases = {words_of(study, case): case for case in whole}
    for row in rows_of(RESULTS / folder / "table.md"):
        kind, *words = list(row.values())[:4]
        case = cases[tuple(words)]
        traces = [t for t in whole[case] if kind in ("all", t.split("@")[0], *t.split(":")[1:2], t)]
        assert traces
        (after,) = [row[name] for name in row if name.startswith("return after")]
        assert is_mean(after, statistics.fmean(late[case][t] for t in traces)), row
        assert is_mean(row["whole run"], statistics.fmean(whole[case][t] for t in traces)), row
        other = anchors.paper_s_anchors(case) if study is anchors else rivals.PAPER
        if case != other:
            gains = [whole[case][t] - whole[other][t] for t in traces]
            (shown,) = [row[name] for name in row if name.startswith("minus")]
            assert shown[0] in "+-"
            assert is_mean(shown, statistics.fmean(gains)), row
            assert row["better on"] == f"{sum(x > 0 for x in gains)} of {len(traces)}", row


@pytest.mark.parametrize("folder", ["rivals", "rivals-hopper"])
@pytest.mark.parametrize("name", ["best", "uniform"])
def test_what_is_recommended_is_compared_as_the_seeds_say(folder: str, name: str) -> None:
    late, whole = (mean_returns(folder, name) for name in ("return_after_warmup", "whole_run"))
    best = max(whole, key=lambda case: statistics.fmean(whole[case].values()))
    chosen = best if name == "best" else rivals.UNIFORM
    cases = {words_of(rivals, case): case for case in whole}
    for row in rows_of(RESULTS / folder / f"{name}.md"):
        kind, *words = list(row.values())[:4]
        other = cases[tuple(words)]
        traces = [
            t for t in whole[other] if kind in ("all", t.split("@")[0], *t.split(":")[1:2], t)
        ]
        for found, gain, better in (
            (whole, "whole run", "better on"),
            (late, "after warm-up", "better then on"),
        ):
            gains = [found[chosen][t] - found[other][t] for t in traces]
            assert is_mean(row[gain], statistics.fmean(gains)), row
            assert row[better] == f"{sum(x > 0 for x in gains)} of {len(traces)}", row


@pytest.mark.learn
@pytest.mark.parametrize("folder", [*DRAWN, PLUS])
def test_tables_of_drawn_traces_are_made_again(folder: str) -> None:
    """All of `rivals`, `anchors` and `plus`: returns, gains and counts, from seeds.csv alone."""
    study = {"anchors": anchors, PLUS: plus}.get(folder, rivals)
    seeds, _ = drawn.read_seeds([RESULTS / folder / "seeds.csv"], study.CASES)
    runs = drawn.runs_of(seeds)
    made = {"table": study.summary(runs)}
    if study is rivals:
        made["work"] = rivals.more_work(runs)
        made["best"] = rivals.beside(runs, rivals.best_of(runs), "")
        made["uniform"] = rivals.beside(runs, rivals.UNIFORM, "")
    for name, table in made.items():
        shown = rows_of(RESULTS / folder / f"{name}.md")
        made_again = [dict(zip(table.header, row, strict=True)) for row in table.texts()]
        assert shown == made_again, name
