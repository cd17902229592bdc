"""Beside every committed table stands how it was made, and the runs behind it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from lcpo.study import output, seeds

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = sorted(path.name for path in RESULTS.iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_result_says_how_it_was_made(folder: str) -> None:
    made = json.loads((RESULTS / folder / "made.json").read_text())
    assert made.keys() >= output.how_made([]).keys()
    assert made["command"]
    assert made["commit"]
    with (RESULTS / folder / "seeds.csv").open() as file:
        rows = list(csv.DictReader(file))
    header = tuple(rows[0])
    assert header[: len(seeds.FIRST)] == seeds.FIRST
    assert header[-len(seeds.LAST) :] == seeds.LAST
    assert len(rows) == made["finished"] + made["failed"]
    assert {row["agent"] for row in rows} == set(made["agents"])
    assert len({row["seed"] for row in rows}) == made["seeds"]
    assert f"| `{folder}` |" in (RESULTS / "README.md").read_text()
