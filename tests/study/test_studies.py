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
from each import for_each

from lcpo import bench
from lcpo.cli import reproduce
from lcpo.cli.flags import class_fields
from lcpo.run.engines.local import LocalEngine
from lcpo.run.plan.agents import plan_agents
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import plan
from lcpo.run.store.layout import run_files
from lcpo.run.store.plans import load_plan
from lcpo.run.store.results import Result, save_outcome
from lcpo.straggler import timeouts as hedging
from lcpo.study import costs, folder
from lcpo.study.measure import stats
from lcpo.study.paper import STUDIES, find_study, grid_world, runtime
from lcpo.study.report import document, output
from lcpo.study.report.cells import Column
from lcpo.study.report.tables import Table
from lcpo.study.study import Options, Picture, Report, Study

SPEED = Path(__file__).parents[2] / "results" / "speed"
SHARED = {option[0] for option in class_fields(Options)}


@for_each("name", STUDIES)
def test_every_study_has_the_shared_options(name: str) -> None:
    study = find_study(name)
    assert issubclass(study.Options, Options)
    options = class_fields(study.Options)
    assert {option[0] for option in options} >= SHARED
    assert all(option.help for option in options), "the string under each field is its help"
    assert study.help


@for_each("name", [name for name in STUDIES if name != "faults"])
@for_each("setting", ["corrected", "published"])
def test_published_means_the_same_everywhere(
    name: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All faults that an agent has, or none."""
    monkeypatch.setattr(hedging, "hourly_schedule", lambda *_, **__: (8,))  # it takes half a minute
    from lcpo.agents import find_agent
    from lcpo.config import published_faults

    study = find_study(name)
    options = study.Options(seeds=1, setting=setting, check=False)
    if name == "straggler":  # which has thirty agents: three will do
        few = {"agents": "lcpo-agg,sac,hedge-hourly", "workloads": "workload-1"}
        options = dataclasses.replace(options, **few)
    jobs = study.plan(options)
    for job in jobs:
        faults = published_faults(find_agent(job.agent).Config).get("faults", ())
        assert tuple(job.config.get("faults", ())) == (faults if setting == "published" else ())
    assert len({job.name for job in jobs}) == len(jobs)


def test_default_folders() -> None:
    """By name; a setting or a scale that is not the study's own stands behind it."""
    folders = {name: str(find_study(name).Options().folder(name)) for name in STUDIES}
    assert folders == {name: f"out/{name}" for name in STUDIES}
    assert find_study("ewc").Options(setting="published").folder("ewc").name == "ewc-published"
    corrected = find_study("discretisation").Options(setting="corrected", scale="1/20")
    assert corrected.folder("discretisation").name == "discretisation-corrected-1_20"
    assert Options(out=Path("x"), scale="smoke").folder("windy") == Path("x")


def result(job: Job, status: str = "finished", **provenance: Any) -> Result:
    return Result(job, status, None, {}, 2.5, {"device": "cpu:cpu", **provenance}, Path())


def results() -> list[Result]:
    jobs = plan("a2c", "pendulum", trace="revisit", steps=4000, seeds=[0, 1], published=True)
    jobs += plan("lcpo", "pendulum", trace="revisit", steps=4000, seeds=[0], sweep={"sigma": [2]})
    found = [result(job, commit="abc", jax="1.0") for job in jobs[:2]]
    return [*found, result(jobs[2], "failed", commit="def", jax="1.0")]


def test_seeds_csv_has_a_row_per_run() -> None:
    table = document.seeds_table(results(), lambda r: {"return": -1.5 - r.job.seed, "none": None})
    rows = list(csv.DictReader(table.to_csv().splitlines()))
    assert list(rows[0]) == [*document.FIRST, "return", "none", *document.LAST]
    assert rows[1] == {
        "agent": "a2c", "setting": "as published", "env": "pendulum", "trace": "revisit",
        "seed": "1", "status": "finished", "return": "-2.5", "none": "",
        "seconds": "2.5", "device": "cpu:cpu",
    }  # fmt: skip
    assert (rows[2]["setting"], rows[2]["status"], rows[2]["return"]) == ("sigma=2", "failed", "")


OTHER = Table(["agent"], [["a2c"]])


def test_report_says_how_it_was_made(tmp_path: Path) -> None:
    hidden = Column("mean", hidden=True)
    report = Report(
        seeds=document.seeds_table(results(), lambda r: {}),
        tables={"table": Table(["agent", hidden], [["a2c", 1.25]]), "other": OTHER},
        figures={"figure": Picture(b"png", b"svg")},
    )
    command = "lcpo compare --seeds 2"
    paths = output.write_files(report, results(), tmp_path / "new", command, by="lcpo compare")
    assert [path.name for path in paths] == [
        "table.txt", "table.md", "table.tex", "table.csv",
        "other.txt", "other.md", "other.tex", "other.csv",
        "seeds.csv", "report.json", "made.json", "figure.png", "figure.svg",
    ]  # fmt: skip
    assert paths[3].read_text() == "agent,mean\na2c,1.25\n"
    assert paths[1].read_text() == paths[5].read_text() == OTHER.to_markdown()
    assert paths[7].read_text() == "agent\na2c\n"
    assert [path.read_bytes() for path in paths[-2:]] == [b"png", b"svg"]
    made = json.loads(paths[-3].read_text())
    assert made["command"] == ["lcpo compare --seeds 2"]
    assert (made["commit"], made["device"]) == (["abc", "def"], ["cpu:cpu"])
    assert (made["versions"]["jax"], made["versions"]["numpy"]) == (["1.0"], [])
    assert (made["agents"], made["envs"]) == (["a2c", "lcpo"], ["pendulum"])
    assert (made["seeds"], made["finished"], made["failed"]) == (2, 2, 1)
    assert len(made["date"]) == len("2026-01-01")


@pytest.mark.learn
def test_reproduce_runs_and_reports_a_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The generic part, on the quickest of them; the same command goes on with what is there."""
    out = tmp_path / "o"
    command = ["reproduce", "theorem", "--seeds", "1", "--steps", "1000", "--workers", "0",
               "--out", str(out)]  # fmt: skip
    with monkeypatch.context() as patch:
        signed: list[bool] = []
        patch.setattr(LocalEngine, "run", lambda self, jobs, out, report: signed.append(
            (out / "study.json").exists()))  # fmt: skip
        assert run(*command) == 0
        assert signed == [True], "a kill in the first run leaves a folder that says whose it is"
    assert run(*command) == 0
    shown = capsys.readouterr().out
    assert "all assumptions hold" in shown
    assert f"figure: {out / 'figure.png'}" in shown
    made = json.loads((out / "made.json").read_text())
    assert made["command"][0].startswith("lcpo reproduce theorem --seeds 1")
    assert made["versions"]["jax"]
    assert len((out / "seeds.csv").read_text().splitlines()) == 1 + 5
    assert run(*command, "--no-resume") == 2
    assert "--resume" in capsys.readouterr().err
    before = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*.npz")}
    assert run(*command) == 0
    assert "5,000 steps" in (told := capsys.readouterr().out)
    assert "all have ended: a report only" in told
    assert {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*.npz")} == before
    _plans_and_collects(command[:-2], out, tmp_path, capsys, monkeypatch)


def _plans_and_collects(
    command: list[str],
    out: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Jobs for another machine, and the report of its runs; none of another study's."""
    there, here = tmp_path / "there", tmp_path / "here"
    assert run(*command, "--plan", str(there)) == 0
    assert f"python -m lcpo.run.worker {there / 'plan.json'}" in capsys.readouterr().out
    assert load_plan(there / "plan.json").jobs == load_plan(out / "plan.json").jobs
    assert not (there / "runs").exists()
    assert run(*command, "--collect", str(there)) == 2
    assert "none of the runs has ended" in capsys.readouterr().err
    assert run(*command, "--collect", str(out), "--out", str(here)) == 0
    assert (here / "table.md").read_bytes() == (out / "table.md").read_bytes()
    assert run("reproduce", "windy", "--envs", "pendulum", "--agents", "a2c", "--collect",
               str(out)) == 2  # fmt: skip
    assert "experiment: there 'theorem', now 'windy'" in capsys.readouterr().err
    (out / "study.json").unlink()  # a folder that only a worker has seen
    assert run("reproduce", "grid-world", "--collect", str(out)) == 2
    assert "holds files that lcpo reproduce theorem wrote" in capsys.readouterr().err
    assert run("reproduce", "grid-world", "--collect", str(out), "--out", str(here / "new")) == 2
    assert "holds no run of this study" in capsys.readouterr().err
    assert run(*command[:-4], "--steps", "1200", "--collect", str(out)) == 2
    assert "steps: there 1000, now 1200" in capsys.readouterr().err
    monkeypatch.setattr("lcpo.study.folder.__version__", "99")
    assert run(*command, "--collect", str(out)) == 2
    assert "this is 99" in capsys.readouterr().err


TRAP_UNTIL = 16_000


def test_runs_from_before_an_agent_had_a_field_are_collected(tmp_path: Path) -> None:
    """They had its default; another value is another run."""
    jobs = plan("a2c", "pendulum", trace="revisit", steps=4000, seeds=1)
    old = dataclasses.replace(jobs[0], config={**jobs[0].config})
    del old.config["entropy_coef"]
    outcome = {"status": "failed", "job": old.to_json(), "seconds": 1.0, "provenance": {},
               "environment": {}}  # fmt: skip
    save_outcome(run_files(tmp_path, old.name), outcome, {})
    (found,) = folder.collect(tmp_path, jobs)
    assert found.job == jobs[0]
    other = dataclasses.replace(jobs[0], config={**jobs[0].config, "entropy_coef": 0.1})
    with pytest.raises(ValueError, match=r"config.entropy_coef: there 0\.0, now 0\.1"):
        folder.collect(tmp_path, [other])


def test_runtime_stands_beside_the_paper_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose numbers are milliseconds."""
    times = {"a2c": 4.0, "lcpo": 14.0, "ppo": 8.0}
    monkeypatch.setattr(
        bench, "in_process", lambda agent, on, seconds: {"us": [times[agent]], "compile_s": [1.0]}
    )
    options = runtime.RuntimeOptions(agents="lcpo,a2c,ppo")
    assert runtime.plan_runs(options) == []
    table = runtime.report(options, []).tables["table"]
    assert list(table.texts()[0]) == ["lcpo", "14.0", "780 ± 30", "3.5", "1.5"]
    assert list(table.texts()[2]) == ["ppo", "8.0", "-", "2.0", "-"]


def test_bad_scales_and_parts_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in {
        ("windi",): "did you mean 'windy'",
        ("windy", "--scale", "smok"): "did you mean 'smoke'",
        ("windy", "--scale", "2/1"): "needs a fraction greater than 0 and at most 1",
        ("windy", "--agents", "lcpo,a2"): "did you mean 'a2c'",
        ("windy", "--envs", "hoper"): "did you mean 'hopper'",
        ("grid-world", "--envs", "hopper"): "unknown option '--envs'",
        ("lcpo-p", "--setting", "fixed"): "needs corrected or published",
        ("windy", "--engine", "loca"): "did you mean 'local'",
        ("lcpo-p", "--plan", "a", "--collect", "b"): "give only one of them",
        ("--list", "--only", "windi"): "did you mean 'windy'",
    }.items():
        assert run("reproduce", *words) == 2
        assert told in capsys.readouterr().err


OWN = """
from lcpo.study.report.cells import Column
from lcpo.study.report.tables import Table
from lcpo.study.study import NO_RUNS, Options, Report, Study

class Own(Options):
    without = NO_RUNS

table = Table(["agent"], [["mine"]])
study = Study("my own", Own, lambda options: [], lambda options, found: Report(table, {"t": table}))
"""


def test_a_study_of_ones_own_is_reproduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the name of its module; a name that stands for one is imported when it is asked for."""
    (tmp_path / "own_study.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run("reproduce", "own_study:study") == 0
    assert (tmp_path / "out" / "own_study.study" / "t.csv").read_text() == "agent\nmine\n"
    monkeypatch.setitem(STUDIES, "own", "own_study:study")
    assert find_study("own").help == "my own"
    assert run("reproduce", "own_study:table") == 2
    assert "own_study:table is a Table: needs an lcpo.study.study.Study" in " ".join(
        capsys.readouterr().err.split()
    )


def test_list_says_what_experiments_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("reproduce", "--list") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in STUDIES)
    (line,) = [
        line for line in shown.splitlines() if line.startswith("windy  ") and "5,600" in line
    ]
    assert line.split()[2:4] == ["5,600", "89G"]
    assert "estimates" in shown


def test_costs_are_the_measured_ones() -> None:
    """Those of results/speed, which docs/speed.md shows."""
    measured = {}
    for file in ("continual", "on-sac", "lcpo-plus"):
        for line in (SPEED / f"{file}.md").read_text().splitlines()[2:]:
            agent, us = (cell.strip() for cell in line.split("|")[1:3])
            measured.setdefault(agent, float(us))
    measured |= {"a2c": 3.5, "lcpo": 14.2, "trpo": 12.6, "ppo": 8.5, "lcpo-p": 13.5}
    shown = "".join((SPEED / f"{f}.md").read_text() for f in ("one-core", "other-agents"))
    assert all(f"| {us} |" in shown for us in (3.5, 14.2, 12.6, 8.5, 13.5))
    assert measured == costs.AGENT_US
    job, twice = plan("mbpo", "pendulum", trace="3", steps=100_000, seeds=2)
    each = 20.58 + costs.RUN_SECONDS
    assert costs.cost([job]).core_seconds == pytest.approx(each + costs.COMPILE_SECONDS)
    assert costs.cost([job, twice]).core_seconds == pytest.approx(2 * each + costs.COMPILE_SECONDS)


def jobs_of(name: str, **options: Any) -> list[Job]:
    study = find_study(name)
    return study.plan(study.Options(check=False, **options))


MEASURED = {
    "train": (35, lambda: plan("lcpo", "pendulum", trace="revisit", steps=200_000, seeds=2)),
    "hopper": (55, lambda: plan("lcpo", "hopper", trace="1", steps=40_000, seeds=2)),
    "compare": (10, lambda: plan_agents("lcpo,a2c", "probe-two-contexts", trace=None, seeds=2)),
    "grid-world": (74, lambda: jobs_of("grid-world", seeds=2)),
    "windy": (187, lambda: jobs_of("windy", scale="smoke")),
    "lcpo-p": (63, lambda: jobs_of("lcpo-p", scale="smoke")),
    "straggler": (98, lambda: jobs_of("straggler", scale="smoke", agents="lcpo,a2c")),
}
"""Seconds on two cores with an empty compilation cache, as docs/speed.md shows them."""


@for_each("name", list(MEASURED))
def test_estimates_are_within_a_factor_of_two(name: str) -> None:
    seconds, jobs = MEASURED[name]
    assert seconds / 2 < costs.cost(jobs(), 2).seconds < 2 * seconds


def test_more_processes_than_programs_compile_the_same() -> None:
    """Each of the four that start together compiles, then makes two runs."""
    jobs = plan("lcpo", "pendulum", trace="3", steps=100_000, seeds=8)
    start = costs.START_SECONDS + costs.COMPILE_SECONDS
    each = costs.cost(jobs, 8).seconds - start
    assert each == pytest.approx(costs.RUN_SECONDS + 1.42)
    assert costs.cost(jobs, 80).seconds == costs.cost(jobs, 8).seconds
    assert costs.cost(jobs, 4).seconds == pytest.approx(start + 2 * each)
    assert costs.cost(jobs, 1).seconds == pytest.approx(start + 8 * each)


def test_a_study_lists_what_would_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    restricted = ["--agents", "lcpo", "--envs", "pendulum,hopper", "--traces", "3", "--seeds", "2"]
    assert run("reproduce", "windy", "--list", "--scale", "smoke", *restricted) == 0
    first, _, _, *rows = capsys.readouterr().out.strip().splitlines()
    assert first.startswith("windy: 4 runs, 80,000 steps, about ")
    assert [row.split()[:5] for row in rows] == [
        ["pendulum", "lcpo", "3", "2", "40k"],
        ["hopper", "lcpo", "3", "2", "40k"],
    ]
    assert not list(tmp_path.iterdir())
    assert run("reproduce", "windy", "--list", "--agents", "lcpoo") == 2
    assert "unknown agent 'lcpoo'" in capsys.readouterr().err


def grid_record(level: float) -> dict[str, np.ndarray]:
    """The trap's return is `level`; back at -3 twelve epochs after it left."""
    epoch = np.arange(5, grid_world.EPOCHS + 1, 5)
    returns = np.where(epoch > TRAP_UNTIL + 12, -3.0, level)
    distance = np.where(epoch > TRAP_UNTIL, 0.25, 0.0)
    return {
        "step": epoch * grid_world.STEPS_PER_EPOCH,
        "updates": np.full(len(epoch), 5),
        "epoch_return": returns,
        "tv_trap": distance,
        "tv_no_trap": distance,
    }


def test_grid_world_report() -> None:
    jobs = grid_world.plan_runs(grid_world.GridWorldOptions(seeds=2))
    assert [job.agent for job in jobs[::2]] == ["lcpo", "a2c", "tabular-a2c"], "slowest first"
    found = [result(job)._replace(record=grid_record(-5.0 - job.seed)) for job in jobs]
    found[0] = found[0]._replace(status="failed")
    report = grid_world.study.report(grid_world.GridWorldOptions(), found)
    cells = {row[0]: list(row[1:]) for row in report.tables["table"].texts()}
    assert cells["A2C"] == ["20 (20 .. 20)", "0.25 (0.25 .. 0.25)", "-5.50 (-6.00 .. -5.00)", "2"]
    assert cells["LCPO"][-1] == "1 of 2"
    (first, *_) = csv.DictReader(report.tables["table"].to_csv().splitlines())
    assert (first["return_with_trap_median"], first["return_with_trap_low"]) == ("-5.5", "-6.0")
    never = [result(job)._replace(record=grid_record(-5.0 - job.seed)) for job in jobs[2:3]]
    never[0].record["epoch_return"][:] = -5.0
    assert grid_world.summary(never).texts()[0][1] == "never (never .. never)"
    assert report.figures["figure"].png.startswith(b"\x89PNG")
    rows = list(csv.DictReader(report.seeds.to_csv().splitlines()))
    assert (rows[1]["return_with_trap"], rows[1]["worst_tv_trap"]) == ("-6.0", "0.25")
    assert rows[0]["return_with_trap"] == ""
    assert any("TV: largest distance" in line for line in report.tables["table"].notes)


def test_shortened_studies_warn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the terminal and at the top of the page; those that make no runs have nothing to say."""
    assert Options().warnings == Options(scale="1").warnings == []
    assert Options(scale="short").warnings == ["Shortened: runs have 1/20 of the paper's steps."]
    study = Study("", Options, lambda options: [], lambda options, results: Report(OTHER))
    (text,) = Options(scale="smoke").warnings
    assert text.startswith("Smoke test: runs have 1/400 of the paper's steps.")
    for jobs, count in (([one.job for one in results()], 1), ([], 0)):
        chosen = reproduce._Chosen("windy", study, Options(scale="smoke"), jobs, "lcpo reproduce")
        chosen._report(results() if jobs else [], tmp_path)
        assert capsys.readouterr().out.count(f"warning: {text}") == count
        page = (tmp_path / "report.html").read_text()
        assert page.count("Smoke test: runs have 1/400") == count


def test_stats_need_scipy_only_where_they_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a machine that only runs agents can import a study."""
    import sys

    monkeypatch.setitem(sys.modules, "scipy", None)
    assert stats.mean_ci([1.0]).mean == 1.0
