"""The study of change points: what it counts, and how a study without runs is reproduced."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from commands import run

from lcpo.contexts import paper
from lcpo.study.paper import ood_vs_cpd

ROWS = 200_000


def test_draws_share_the_digitised_points_and_nothing_else() -> None:
    first, second = paper.trace_2(ROWS), paper.trace_2(ROWS, draw=1)
    np.testing.assert_array_equal(first, paper.trace_2(ROWS, draw=0))
    knots = paper.points(2)[0]
    knots = knots[knots < ROWS]
    np.testing.assert_allclose(first[knots], second[knots], atol=1e-6)
    assert np.mean(first == second) < 0.01


def test_jumps_are_counted_and_distances_compared() -> None:
    """A wind along y with two jumps, of 2 and back; the wind along x is left alone."""
    level = np.repeat([0.0, 2.0, 0.0], 10_000)
    noise = 0.1 * np.random.default_rng(0).standard_normal((30_000, 2))
    trace = (noise + np.stack([0.0 * level, level], axis=1)).astype(np.float32)
    found = ood_vs_cpd.measure(trace, "mine")
    for places in found.changes.values():
        assert len(places) == 2
        np.testing.assert_allclose(places, [10_000, 20_000], atol=10)
    third = np.array_split(found.ood, 3)
    # OOD: none of the past; all of it; and at the end a third of it.
    np.testing.assert_allclose(
        [third[0].max(), third[1][0], third[2][-1]], [0.0, 1.0, 1 / 3], atol=0.01
    )


@pytest.mark.learn
def test_a_study_without_runs_is_reproduced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out = tmp_path / "o"
    command = ["reproduce", "ood-vs-cpd", "--seeds", "2", "--rows", str(ROWS), "--out", str(out)]
    assert run(*command) == 0
    assert "change points, sigmas = 3.0" in capsys.readouterr().out
    made = json.loads((out / "made.json").read_text())
    assert made["versions"]["jax"]
    assert (made["traces"], made["steps"], made["seeds"]) == (["2", "3"], [ROWS], 2)
    rows = list(csv.DictReader((out / "seeds.csv").read_text().splitlines()))
    assert [(row["trace"], row["seed"]) for row in rows] == [("2", "0"), ("2", "1"), ("3", "0")]
    assert [rows[0][f"changes_{sigmas}"] for sigmas in (3.1, 3.0)] == ["1", "1"]
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert run(*command, "--no-resume") == 2
    assert "--resume" in capsys.readouterr().err
    (out / "table.md").unlink()
    assert run(*command) == 0
    assert (out / "table.md").exists()


def test_foreign_folders_and_rows_that_are_not_there_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    command = ["reproduce", "ood-vs-cpd", "--out"]
    assert run(*command, str(tmp_path), "--rows", "10") == 2
    assert "not empty" in capsys.readouterr().err
    assert run(*command, str(tmp_path / "new"), "--rows", "20000001") == 2
    assert "20,000,000 rows" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
