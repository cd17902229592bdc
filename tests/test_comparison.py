"""`lcpo.compare` and `lcpo compare`: settings per agent, the table, one JSON document, silence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from commands import run

import lcpo
from lcpo import contexts
from lcpo.comparison import default_out
from lcpo.run.plan.agents import plan_traces
from lcpo.study.advice import calibrate

SMALL = "hidden=[8,8],rollout_length=20"
AGENTS = f"lcpo[sigma=2,{SMALL}],lcpo[sigma=0.01,{SMALL}]"
SETTINGS = {"sigma": 2, "hidden": [8, 8], "rollout_length": 20}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> lcpo.Comparison:
    """Two settings of LCPO on a trace of our own: noise of 0.1 about levels that are 3 apart."""
    folder = tmp_path_factory.mktemp("compare")
    rng = np.random.default_rng(0)
    rows = np.repeat([0.0, 3.0, 0.0], 200)[:, None] + rng.normal(0, 0.1, (600, 2))
    np.savetxt(folder / "mine.csv", rows, delimiter=",", header="x,y", comments="")
    return lcpo.compare(
        [("lcpo", SETTINGS), ("lcpo", {**SETTINGS, "sigma": 0.01})], "pendulum",
        trace=folder / "mine.csv", env_config={"max_steps": 30}, seeds=2, out=folder / "o",
        workers=0, progress=False,
    )  # fmt: skip


def command(found: lcpo.Comparison, *more: str) -> list[str]:
    """The same on the command line; nothing is left to be run."""
    trace = found.results[0].job.trace_name
    assert trace is not None
    return ["compare", "--agents", AGENTS, "--trace", trace, "--env.max-steps", "30", "--seeds",
            "2", "--workers", "0", "--out", str(found.out), "--resume", *more]  # fmt: skip


def test_variants_are_told_apart(found: lcpo.Comparison) -> None:
    labels = [row[0] for row in found.table.texts()]
    tail = "-hidden=[8, 8]-rollout_length=20"
    assert labels == [f"lcpo-sigma=2{tail}", f"lcpo-sigma=0.01{tail}"]
    assert {r.job.config["sigma"] for r in found.results} == {2.0, 0.01}
    assert len({r.job.name for r in found.results}) == 4
    assert str(found).startswith(found.table.to_text().rstrip("\n"))
    assert repr(found) == f"<Comparison of {', '.join(labels)}: 4 runs in {found.out}>"
    assert "fewer than 3 seeds have no interval" in str(found)


def test_a_result_is_one_line(found: lcpo.Comparison) -> None:
    first = found.results[0]
    assert repr(first).startswith(f"<Result {first.job.name}: finished, 600 steps, mean return -")
    assert len(repr(first)) < 200


def test_curves_are_axes(found: lcpo.Comparison, tmp_path: Path) -> None:
    upper, lower = found.plot(tmp_path / "c.png")
    assert upper.get_ylabel() == "episode return"
    assert lower.get_xlabel() == "steps"
    assert not upper.collections, "no band of two seeds"
    for line in upper.lines:
        assert np.isfinite(line.get_ydata()[5:-5]).all(), "episodes longer than a point's updates"
    assert (tmp_path / "c.png").exists()


def test_a_sigma_below_the_noise_is_told(found: lcpo.Comparison) -> None:
    *few, warning = found.warnings
    assert [text.partition(": ")[0] for text in few] == [row.label for row in found.summary.rows]
    assert all("it makes only 30 updates (500 are a minimum)" in text for text in few)
    assert warning.startswith("lcpo-sigma=0.01-hidden=[8, 8]-rollout_length=20: sigma = 0.01 lies ")
    assert "below the noise of the context within a rollout (0.2" in warning
    assert "try sigma = " in warning
    assert warning in str(found)


def test_the_noise_is_that_of_calibrate() -> None:
    values = np.random.default_rng(1).normal(size=(4000, 2))
    lookback = calibrate.Lookback(100, 2)
    whole = calibrate.calibrate(values, lookback=lookback)
    assert calibrate.noise(values, lookback) == pytest.approx(whole.noise)


def test_one_json_document(found: lcpo.Comparison, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command(found, "--json")) == 0
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert [r["name"] for r in document["runs"]] == [r.job.name for r in found.results]
    assert document["runs"][0]["whole_run"] < 0
    assert [row["agent"] for row in document["table"]] == [row[0] for row in found.table.texts()]
    assert document["table"][0]["whole_run_low"] is None
    assert document["warnings"] == list(found.warnings)
    assert document["problems"] == []
    assert document == {**found.to_json(), "problems": []}


def test_warned_before_the_runs_in_one_line(
    found: lcpo.Comparison, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*command(found)) == 0
    shown = capsys.readouterr()
    assert [f"warning: {found.warnings[-1]}"] == [
        line for line in shown.err.splitlines() if line.startswith("warning")
    ]
    assert all(f"warning: {text}\n" in shown.out for text in found.warnings)
    assert "wrote " in shown.out


def test_quiet_and_narrow(
    found: lcpo.Comparison, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(*command(found, "--quiet")) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "wrote" not in shown.out
    assert "results" not in shown.out
    assert "return after 60" in shown.out
    assert max(map(len, shown.out.splitlines()[1:5])) <= 80
    header = shown.out.splitlines()[1:4]
    assert any("minus" in line for line in header)
    assert any("P(better)" in line for line in header)
    full = (found.out / "table.txt").read_text()
    assert "accepted step" in full
    assert "lcpo-sigma=0.01-hidden=[8, 8]-rollout_length=20" in full


@pytest.mark.parametrize("width", [120, 80, 60])
def test_a_narrow_table_is_still_one(found: lcpo.Comparison, width: int) -> None:
    lines = found.table.to_text(width).splitlines()[1:-2]
    assert max(map(len, lines)) <= width
    names = [line.split()[0] for line in lines if line.startswith("lcpo")]
    assert names == ["lcpo-sigma=2-", "lcpo-sigma=0.01-"]
    left_out = {120: "seconds", 80: "whole run", 60: "P(better)"}[width]
    assert f"columns that do not fit: {left_out}" in found.table.to_text(width)
    assert found.table.to_text(500) == found.table.to_text()


OWN = "examples.reinforce:agent"
OVER = ["compare", "--agents", f"lcpo[sigma=2,{SMALL}],{OWN}[{SMALL}]", "--traces",
        "family:drift:0..2", "--steps", "600", "--env.max-steps", "30", "--seeds", "2",
        "--workers", "0", "--json"]  # fmt: skip


def test_over_traces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent of one's own beside LCPO: runs, tables, page; resumed by its options, or by none."""
    out = tmp_path / "o"
    own = (OWN, {"hidden": [8, 8], "rollout_length": 20})
    found = lcpo.compare(
        [("lcpo", SETTINGS), own], "pendulum", traces=["family:drift:0", "family:drift:1..2"],
        env_config={"max_steps": 30}, steps=600, seeds=2, out=out, workers=0, progress=False,
    )  # fmt: skip
    assert len(found.results) == 2 * 3 * 2
    first, second = found.summary.rows
    assert found.table.records()[0]["trace"] == "family:drift:0..2"
    assert first.finished == 6
    assert (first.won or 0) + (second.won or 0) == 3
    assert second.difference is not None
    assert second.difference.n == 6
    assert second.difference.low < second.difference.mean < second.difference.high
    assert [row["trace"] for row in found.by_trace.records()] == [
        f"family:drift:{seed}" for seed in (0, 0, 1, 1, 2, 2)
    ]
    page = (out / "report.html").read_text()
    assert "by_trace.csv" in page
    assert "traces won" in page
    monkeypatch.chdir(tmp_path)
    assert run(*OVER, "--out", str(out), "--resume") == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {**found.to_json(), "problems": []}
    assert [r["trace"] for r in document["runs"]][::4] == [f"family:drift:{n}" for n in range(3)]
    assert run("compare", "--resume", "--out", str(out), "--trust", "--json", "--workers", "0") == 0
    assert json.loads(capsys.readouterr().out) == document
    assert run(*OVER[:-1], "--out", str(out), "--resume") == 0
    shown = capsys.readouterr().out
    assert shown.index("pendulum, by trace") < shown.index("pendulum, traces family:drift:0..2")


def test_traces_that_cannot_be_compared(capsys: pytest.CaptureFixture[str]) -> None:
    for words, says in {
        ("--trace", "3", "--traces", "1,4"): "--trace and --traces: give only one of them",
        ("--traces", "1,1"): "traces = '1,1': needs traces, separated by commas",
        ("--traces", "family:drift:0..2"): "can have any length: give the number of steps",
        ("--traces", "1,nothing.csv"): "trace file nothing.csv does not exist",
    }.items():
        assert run("compare", "--agents", "a2c", *words) == 2
        assert says in capsys.readouterr().err
    with pytest.raises(lcpo.InputError, match="trace and traces: give only one of them"):
        lcpo.compare("a2c", trace="3", traces="1,4")


def test_the_default_folder_names_all_traces() -> None:
    jobs = plan_traces("a2c", "pendulum", traces=contexts.several("family:iid:0..2,4"), steps=400,
                       seeds=1, check=False)  # fmt: skip
    assert str(default_out(jobs)) == "out/compare-pendulum-family.iid.0..2,4"
    many = contexts.several([f"family:iid:{n}" for n in range(0, 40, 2)])
    jobs = plan_traces("a2c", "pendulum", traces=many, steps=400, seeds=1, check=False)
    assert str(default_out(jobs)) == "out/compare-pendulum-family.iid.0-and-19-more"
