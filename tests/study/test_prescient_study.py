"""The table of prescient agents, and their commands."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import QUICK, run
from stopping import assert_same_results

from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import plan
from lcpo.run.store import record as records
from lcpo.run.store.files import load_json, save_arrays
from lcpo.run.store.layout import RunFiles
from lcpo.run.store.results import load_results, save_outcome
from lcpo.study.measure import compare
from lcpo.study.paper import prescient
from lcpo.study.paper.columns import find_parts

SHORT = ["--trace", "revisit", "--steps", "2000", "--seeds", "2", "--training-steps", "6400"]


def write(out: Path, job: Job, level: float, failed: bool = False) -> None:
    """A run that returns `level`, and 10 less while it trained; 100 less in the first tenth."""
    folder = out / "runs" / job.name

    def thinned(value: float, steps: int, length: int) -> records.Record:
        count = steps // length
        returns, ones = np.full(count, value), np.ones(count)
        returns[: count // 10] -= 100.0
        found = {"episodes": ones, "episode_return_sum": returns, "episode_length_sum": ones}
        return records.thin(found, 0, records.block_size(count), length)

    assert job.training is not None
    training = thinned(level - 10.0, job.training["steps"], 3200)
    written = {"training.npz": save_arrays(folder / "training.npz", training)}
    if not failed:
        record = thinned(level, job.steps, 200)
        written["record.npz"] = save_arrays(folder / "record.npz", record)
    failure = {"quantity": "value_loss", "value": "nan", "step": 6400, "phase": "training"}
    outcome = {
        "status": "failed" if failed else "finished", **({"failure": failure} if failed else {}),
        "job": job.to_json(), "seconds": 1.0, "provenance": {"device": "cpu:cpu"},
        "environment": {"advance": "step", "num_worlds": 1},
    }  # fmt: skip
    save_outcome(RunFiles(folder), outcome, written)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """prescient-a2c: -380, -381, -382, one failed; prescient-sac: -390, -360, -420, -430."""
    jobs = plan("prescient-a2c", "pendulum", trace="4", seeds=range(4))
    for job in jobs:
        write(tmp_path, job, -380.0 - job.seed, failed=job.seed == 3)
        other = dataclasses.replace(job, agent="prescient-sac")
        write(tmp_path, other, (-390.0, -360.0, -420.0, -430.0)[job.seed])
    return tmp_path


def test_best_prescient_by_mean_and_by_seed(out: Path) -> None:
    """The two differ here, which is why both are given."""
    (part,) = find_parts(load_results(out)).parts
    lines = {line.title: line for line in part.lines}
    a2c, sac = lines["prescient-a2c"], lines["prescient-sac"]
    assert (a2c.row.finished, len(a2c.runs)) == (3, 4)
    assert (prescient.best_seed(a2c), prescient.best_seed(sac)) == ((0, -380.0), (1, -360.0))
    assert a2c.row.after_warmup.mean == pytest.approx(-381.0)
    assert sac.row.after_warmup.mean == pytest.approx(-400.0)
    table = prescient.summary(load_results(out), "gym-all")
    cells = {row[2]: list(row[3:]) for row in table.texts()}
    assert cells["prescient-a2c"] == [
        "-381 ± 2",
        "-380 (seed 0)",
        "-383",
        "-391 ± 2",
        "3 of 4",
    ]
    best = cells["best prescient"]
    assert best[0] == f"{cells['prescient-a2c'][0]} (a2c)"
    assert best[1] == "-360 (sac)"
    assert best[2] == "-357 (sac)", "of the four that the paper prints"
    text = table.to_text()
    assert "return after 6M" in text
    assert "prescient-a2c: failed: seed 3 at step 6,400 of the training (value_loss = nan)" in text
    assert "prescient-a2c: trained on 32M steps from random starts on the trace" in text


def test_runs_of_other_training_are_not_averaged(out: Path) -> None:
    (job,) = plan("prescient-a2c", "pendulum", trace="4", seeds=[9], training_steps=3_200_000)
    write(out, job, -1.0)
    with pytest.raises(ValueError, match=r"differ in training\.steps"):
        compare.summarise(load_results(out))


@pytest.mark.learn
def test_compare_and_export_take_prescient_and_online_agents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o"
    command = ["compare", "--agents", "prescient-a2c,a2c", *SHORT, "--workers", "0"]
    assert run(*command, "--out", str(out)) == 0
    shown = capsys.readouterr().out
    assert "prescient-a2c: trained on 6,400 steps" in shown
    table = (out / "table.csv").read_text().splitlines()
    assert [line.split(",")[5] for line in table[1:]] == ["prescient-a2c", "a2c"]
    assert (out / "curves.png").stat().st_size > 0
    assert run("export", str(out), str(tmp_path / "all.csv")) == 0
    assert "training" in (tmp_path / "all.csv").read_text().splitlines()[0].split(",")
    assert run("compare", "--agents", "a2c", *SHORT, "--out", str(tmp_path / "p")) == 2
    assert "prescient-a2c" in capsys.readouterr().err


@pytest.mark.learn
def test_reproduce_prints_the_table_beside_the_papers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o"
    command = ["reproduce", "windy", "--envs", "pendulum", "--traces", "4", "--scale", "1/4000",
               "--agents", "prescient-a2c", "--setting", "published", "--seeds", "2",
               "--workers", "0", "--out", str(out)]  # fmt: skip
    assert run(*command) == 0
    shown = capsys.readouterr().out
    assert "best prescient" in shown
    assert "-383" in shown
    assert "-357 (sac)" in shown
    for result in load_results(out):
        assert result.job.config["faults"] == ["truncation-leaks"]
        assert result.job.config["rollout_length"] == 3200
        assert result.job.training is not None
        assert result.job.training["steps"] == 6400  # 32M / 4000, in whole updates
    for suffix in ("txt", "md", "tex", "csv"):
        assert (out / f"table.{suffix}").stat().st_size > 0


@pytest.mark.learn
def test_a_plan_written_here_runs_there(tmp_path: Path) -> None:
    from lcpo.run import worker

    out = tmp_path / "o"
    arguments = ["--agent", "prescient-a2c", *SHORT, "--out", str(out), *QUICK]
    assert run("train", *arguments, "--plan-only") == 0
    assert worker.main([str(out / "plan.json")]) == 0
    assert (out / "runs" / "prescient-a2c-pendulum-revisit-s1" / "training.npz").exists()


def command(out: Path, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "lcpo.cli", "train", "--agent", "prescient-a2c", "--trace", "revisit",
        "--steps", "400000", "--training-steps", "200000", "--seeds", "1",
        "--rollout-length", "100", "--hidden", "16", "16", "--checkpoint-seconds", "0",
        "--out", str(out), *more,
    ]  # fmt: skip


@pytest.mark.learn
def test_killed_in_each_phase(tmp_path: Path) -> None:
    """kill -9 once in the training and once in the evaluation; resume; compare with undisturbed."""
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    assert subprocess.run(command(tmp_path / "whole"), **quiet).returncode == 0
    out = tmp_path / "killed"
    (job,) = plan("prescient-a2c", "pendulum", trace="revisit", steps=400_000, seeds=[0])
    manifest = out / "runs" / job.name / "checkpoint" / "manifest.json"
    for first, last in ((0, 2000), (2000, 4000)):  # updates of the training, of the evaluation
        more = ["--resume"] if (out / "plan.json").exists() else []
        process = subprocess.Popen(command(out, *more), start_new_session=True, **quiet)
        update = 0
        while not first < update:
            assert process.poll() is None, "it ended before the kill: no test"
            update = load_json(manifest)["update"] if manifest.exists() else 0
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert first < load_json(manifest)["update"] < last
    assert subprocess.run(command(out, "--resume"), **quiet).returncode == 0
    assert_same_results(tmp_path / "whole" / "runs", out / "runs")
