"""The study of the paper's workloads: how jobs become the lines of its figure."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from commands import run

from lcpo.straggler import twins as workloads
from lcpo.straggler.workloads.base import Given


def test_jobs_are_counted_in_half_seconds() -> None:
    """Ten jobs a second for a minute, of 5 ms; and the first of the next pass not among them."""
    source = Given("mine", np.full(600, 5.0), np.full(600, 100.0))
    count, total = workloads.bin_jobs(source, seed=0)
    np.testing.assert_array_equal((count, total), (np.full(120, 5.0), np.full(120, 25.0)))


def test_a_pen_fills_narrow_valleys_and_keeps_peaks() -> None:
    high = np.zeros(40)
    high[[10, 14, 30]] = 100.0
    line = workloads.with_pen(workloads.TwinLine(-high, 0 * high, high), pixel=1.0)
    np.testing.assert_array_equal(line.low, -line.high)
    np.testing.assert_allclose(line.high[[10, 14, 20, 30, 35]], [100, 100, 0, 100, 0], atol=1e-9)
    assert line.high[12] > 90  # between two peaks nearer than the pen is wide


@pytest.mark.learn
def test_the_figure_is_reproduced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "o"
    command = ["reproduce", "workloads", "--seeds", "2", "--shorten", "500", "--out", str(out)]
    assert run(*command) == 0
    assert "workload 2: twin" in capsys.readouterr().out
    assert json.loads((out / "made.json").read_text())["traces"] == ["workload-1", "workload-2"]
    rows = list(csv.DictReader((out / "seeds.csv").read_text().splitlines()))
    assert [row["trace"][-1] + row["seed"] for row in rows] == ["10", "11", "20", "21"]
    for row, rate, size in zip(rows, (21, 21, 60, 60), (80, 80, 29, 29), strict=True):
        assert abs(float(row["jobs per second"]) / rate - 1) < 0.1
        assert abs(float(row["mean size (ms)"]) / size - 1) < 0.1
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert run("reproduce", "workloads", "--shorten", "0.5", "--out", str(tmp_path / "p")) == 2
    assert "shorten = 0.5" in capsys.readouterr().err
