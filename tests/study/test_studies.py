"""Studies as values: their options, what they plan, and the files of a report."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run

from lcpo.cli.options import class_fields
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import plan
from lcpo.run.store.results import Result
from lcpo.study import hedging, output, seeds, stats
from lcpo.study.paper import STUDIES, grid_world
from lcpo.study.paper.prescient import PrescientOptions
from lcpo.study.study import Options, Picture, Report
from lcpo.study.tables import Table

SHARED = {field.name for field in dataclasses.fields(Options)}


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_the_shared_options(name: str) -> None:
    study = STUDIES[name]
    assert issubclass(study.Options, Options)
    options = class_fields(study.Options)
    assert {option[0] for option in options} >= SHARED
    assert all(help for _, _, help, _ in options), "the string under each field is its help"
    (published,) = [option for option in options if option[0] == "published"]
    assert published[2].startswith("With the values and all faults of the published code")
    assert study.help


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("published", [False, True])
def test_published_means_the_same_everywhere(
    name: str, published: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All faults that an agent has, or none."""
    monkeypatch.setattr(hedging, "hourly_schedule", lambda *_, **__: (8,))  # it takes half a minute
    from lcpo.agents import find_agent
    from lcpo.config import published_faults

    study = STUDIES[name]
    options = study.Options(seeds=1, published=published)
    if name == "straggler":  # which has thirty agents: three will do
        few = {"agents": "lcpo-agg,sac,hedge-hourly", "workloads": "workload-1"}
        options = dataclasses.replace(options, **few)
    jobs = study.plan(options)
    for job in jobs:
        faults = published_faults(find_agent(job.agent).Config).get("faults", ())
        assert tuple(job.config.get("faults", ())) == (faults if published else ())
    assert len({job.name for job in jobs}) == len(jobs)


def test_default_folders() -> None:
    folders = {name: str(study.Options().folder(name)) for name, study in STUDIES.items()}
    assert folders == {
        "grid-world": "out/grid-world",
        "baselines": "out/baselines-pendulum",
        "replay-rate": "out/replay-rate",
        "ideal-mbpo": "out/ideal-mbpo",
        "discretisation": "out/discretisation",
        "prescient": "out/prescient-pendulum-4",
        "theorem": "out/theorem",
        "ood-vs-cpd": "out/ood-vs-cpd",
        "ewc": "out/ewc",
        "workloads": "out/workloads",
        "straggler": "out/straggler",
    }
    assert STUDIES["ewc"].Options(published=True).folder("ewc").name == "ewc-published"
    corrected = STUDIES["discretisation"].Options(published=False)
    assert corrected.folder("discretisation").name == "discretisation-corrected"
    own = PrescientOptions(env="hopper", trace="dir/mine.npy", published=True)
    assert str(own.folder("prescient")) == "out/prescient-hopper-dir_mine.npy-published"
    assert PrescientOptions(out=Path("x")).folder("prescient") == Path("x")


def result(job: Job, status: str = "finished", **provenance: Any) -> Result:
    return Result(job, status, None, {}, 2.5, {"device": "cpu:cpu", **provenance}, Path())


def results() -> list[Result]:
    jobs = plan("a2c", "pendulum", trace="revisit", steps=4000, seeds=[0, 1], published=True)
    jobs += plan("lcpo", "pendulum", trace="revisit", steps=4000, seeds=[0], sweep={"sigma": [2]})
    found = [result(job, commit="abc", jax="1.0") for job in jobs[:2]]
    return [*found, result(jobs[2], "failed", commit="def", jax="1.0")]


def test_seeds_csv_has_a_row_per_run() -> None:
    table = seeds.seeds_table(results(), lambda r: {"return": -1.5 - r.job.seed, "none": None})
    rows = list(csv.DictReader(table.to_csv().splitlines()))
    assert list(rows[0]) == [*seeds.FIRST, "return", "none", *seeds.LAST]
    assert rows[1] == {
        "agent": "a2c", "setting": "as published", "env": "pendulum", "trace": "revisit",
        "seed": "1", "status": "finished", "return": "-2.5", "none": "",
        "seconds": "2.5", "device": "cpu:cpu",
    }  # fmt: skip
    assert (rows[2]["setting"], rows[2]["status"], rows[2]["return"]) == ("sigma=2", "failed", "")


def test_report_says_how_it_was_made(tmp_path: Path) -> None:
    table = Table(["agent"], [["a2c"]], "l")
    report = Report(
        seeds=seeds.seeds_table(results(), lambda r: {}),
        tables={"table": table, "other": table},
        numbers={"table": Table(["agent", "mean"], [["a2c", "1.25"]], "ll")},
        figures={"figure": Picture(b"png", b"svg")},
    )
    paths = output.write_files(report, results(), tmp_path / "new", "lcpo compare --seeds 2")
    assert [path.name for path in paths] == [
        "table.txt", "table.md", "table.tex", "table.csv",
        "other.txt", "other.md", "other.tex", "other.csv",
        "seeds.csv", "made.json", "figure.png", "figure.svg",
    ]  # fmt: skip
    assert paths[3].read_text() == "agent,mean\na2c,1.25\n"
    assert paths[7].read_text() == "agent\na2c\n"
    assert [path.read_bytes() for path in paths[-2:]] == [b"png", b"svg"]
    made = json.loads(paths[-3].read_text())
    assert made["command"] == ["lcpo compare --seeds 2"]
    assert (made["commit"], made["device"]) == (["abc", "def"], ["cpu:cpu"])
    assert (made["versions"]["jax"], made["versions"]["numpy"]) == (["1.0"], [])
    assert (made["agents"], made["envs"]) == (["a2c", "lcpo"], ["pendulum"])
    assert (made["seeds"], made["finished"], made["failed"]) == (2, 2, 1)
    assert len(made["date"]) == len("2026-01-01")


def test_reproduce_runs_and_reports_a_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The generic part, on the quickest of them; the same command goes on with what is there."""
    out = tmp_path / "o"
    command = ["reproduce", "theorem", "--seeds", "1", "--steps", "1000", "--workers", "0",
               "--out", str(out)]  # fmt: skip
    assert run(*command) == 0
    shown = capsys.readouterr().out
    assert "all assumptions hold" in shown
    assert f"figure: {out / 'figure.png'}" in shown
    made = json.loads((out / "made.json").read_text())
    assert made["command"][0].startswith("lcpo reproduce theorem --seeds 1")
    assert made["versions"]["jax"]
    assert len((out / "seeds.csv").read_text().splitlines()) == 1 + 5
    assert run(*command) == 2
    assert "--resume" in capsys.readouterr().err
    before = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*.npz")}
    assert run(*command, "--resume") == 0
    assert {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*.npz")} == before


def grid_record(level: float) -> dict[str, np.ndarray]:
    """The trap's return is `level`; back at -3 twelve epochs after it left."""
    epoch = np.arange(5, grid_world.EPOCHS + 1, 5)
    returns = np.where(epoch > grid_world.TRAP_UNTIL + 12, -3.0, level)
    distance = np.where(epoch > grid_world.TRAP_UNTIL, 0.25, 0.0)
    return {
        "step": epoch * grid_world.STEPS_PER_EPOCH,
        "updates": np.full(len(epoch), 5),
        "epoch_return": returns,
        "tv_trap": distance,
        "tv_no_trap": distance,
    }


def test_grid_world_report() -> None:
    jobs = grid_world.plan_runs(Options(seeds=2))
    assert [job.agent for job in jobs[::2]] == ["lcpo", "a2c", "tabular-a2c"], "slowest first"
    found = [result(job)._replace(record=grid_record(-5.0 - job.seed)) for job in jobs]
    found[0] = found[0]._replace(status="failed")
    report = grid_world.study.report(Options(), found)
    cells = {row[0]: list(row[1:]) for row in report.tables["table"].rows}
    assert cells["A2C"] == ["2 of 2", "-5.50 (-6.00)", "20 (20)", "0.25 (0.25)"]
    assert cells["LCPO"][0] == "1 of 2"
    assert report.figures["figure"].png.startswith(b"\x89PNG")
    rows = list(csv.DictReader(report.seeds.to_csv().splitlines()))
    assert (rows[1]["return_with_trap"], rows[1]["worst_tv_trap"]) == ("-6.0", "0.25")
    assert rows[0]["return_with_trap"] == ""
    assert any("TV: largest distance" in line for line in report.text)


def test_stats_need_scipy_only_where_they_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a machine that only runs agents can import a study."""
    import sys

    monkeypatch.setitem(sys.modules, "scipy", None)
    assert stats.mean_ci([1.0]).mean == 1.0
