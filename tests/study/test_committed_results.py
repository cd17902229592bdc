"""Beside every committed table stands how it was made, and the runs behind it."""

from __future__ import annotations

import csv
import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from each import for_each

from lcpo.study.controls import rivals
from lcpo.study.report import document, output

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = sorted(path.name for path in RESULTS.iterdir() if path.is_dir())
WITH_SEEDS = [folder for folder in FOLDERS if (RESULTS / folder / "seeds.csv").exists()]
NO_RUNS = {"ood-vs-cpd", "workloads"}
"""Of studies that train nothing: their seeds.csv has other columns."""
MADE_AGAIN = "a07af4d8fa3e"
"""The commit that most of them are of."""


def how_made(folder: str) -> dict[str, Any]:
    return json.loads((RESULTS / folder / "made.json").read_text())


@for_each("folder", FOLDERS)
def test_every_result_says_how_it_was_made(folder: str) -> None:
    made = how_made(folder)
    assert made.keys() >= {"command", "date", "commit", "device", "versions"}
    assert made["command"]
    assert made["commit"]
    assert made["device"]
    assert not any(word.startswith("/") for line in made["command"] for word in line.split())
    page = (RESULTS / "README.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith(f"| `{folder}` |")]
    again, earlier = page.split("## Earlier")
    if made["commit"] == [MADE_AGAIN]:
        assert line in again
        assert all(made["versions"].values())
        assert f"`{made['command'][0]}`" in line
    else:
        assert line in earlier
        assert all(commit in line for commit in made["commit"])


@for_each("folder", sorted(set(WITH_SEEDS) - NO_RUNS))
def test_the_runs_are_those_that_it_says(folder: str) -> None:
    made = how_made(folder)
    assert made.keys() >= output.how_made([]).keys()
    with (RESULTS / folder / "seeds.csv").open() as file:
        rows = list(csv.DictReader(file))
    header = tuple(rows[0])
    assert header[: len(document.FIRST)] == document.FIRST
    assert header[-len(document.LAST) :] == document.LAST
    assert len(rows) == made["finished"] + made["failed"]
    assert {row["agent"] for row in rows} == set(made["agents"])
    assert len({row["seed"] for row in rows}) == made["seeds"]


@for_each("folder", sorted(NO_RUNS))
def test_the_draws_are_those_that_it_says(folder: str) -> None:
    made = how_made(folder)
    with (RESULTS / folder / "seeds.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert (made["finished"], made["failed"]) == (0, 0)
    assert {row["trace"] for row in rows} == set(made["traces"])
    assert len({row["seed"] for row in rows}) == made["seeds"]


@pytest.mark.parametrize("half", [0, 1])
def test_half_of_the_drawn_traces_choose_what_is_recommended(half: int) -> None:
    """docs/results/drawn_traces.md: a choice on the even members is as good on the odd ones, and
    back. LCPO+ was chosen on other traces."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    with (RESULTS / "rivals" / "seeds.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            traces = found.setdefault((row["agent"], row["setting"]), {})
            traces.setdefault(row["trace"], []).append(float(row["whole_run"]))
    means = {
        case: {trace: statistics.fmean(runs) for trace, runs in traces.items()}
        for case, traces in found.items()
        if case[0] != "lcpo-plus"
    }
    traces = means["lcpo", "c_anchor=0.0001-value_steps=1"].keys()
    mine = [trace for trace in traces if int(trace.rpartition(":")[2]) % 2 == half]
    others = [trace for trace in traces if trace not in mine]

    def best_of(cases: list[tuple[str, str]]) -> tuple[str, str]:
        return max(cases, key=lambda case: statistics.fmean(means[case][trace] for trace in mine))

    def wins(a: tuple[str, str], b: tuple[str, str]) -> int:
        return sum(means[a][trace] > means[b][trace] for trace in others)

    cheap = [case for case in means if rivals.costs()[case] <= 1.25 * rivals.costs()[rivals.PAPER]]
    assert (len(cheap), len(means)) == (14, 16)
    chosen, best = best_of(cheap), best_of(list(means))
    assert (chosen, best) == (rivals.UNIFORM, ("sac", "updates_per_rollout=10"))
    assert (wins(chosen, rivals.PAPER), wins(chosen, ("ppo", "value_steps=5"))) == (45, 44)
    assert wins(best, chosen) == (34, 33)[half]
