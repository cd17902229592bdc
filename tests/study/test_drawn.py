"""Studies of our own: which runs they plan, and what they make of made-up ones."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from commands import run

from lcpo.agents import AGENTS
from lcpo.config import published_faults
from lcpo.run.plan.job import Job, Setup
from lcpo.run.store.results import Result
from lcpo.study.controls import anchors, drawn, faults, plus, rivals
from lcpo.study.controls.drawn import DrawnOptions
from lcpo.study.controls.drawn_tables import Returns
from lcpo.study.measure import stats
from lcpo.study.measure.stats import Estimate
from lcpo.study.paper import find_study
from lcpo.study.report import html_table
from lcpo.study.report.cells import Column
from lcpo.study.report.document import seeds_table
from lcpo.study.report.html_folder import PageRun
from lcpo.study.study import Picture

SMALL = DrawnOptions(drawn=2, seeds=2)


def planned(name: str, **options: object) -> list[Job]:
    study = find_study(name)
    return study.plan(dataclasses.replace(study.Options(seeds=2, check=False), **options))


def levels(job: Job) -> tuple[float, float]:
    """Returns in the first quarter of a made-up run, and later.

    Later on more gradient steps are worth 10, anchors of the whole past 100, longer steps 7, and on
    each further trace a third more; in the first quarter half as much. Options of LCPO, traces and
    seeds are worth something, too.
    """
    number = int(str(job.trace).rpartition(":")[2].partition("@")[0] or 0)
    level = -500.0 + job.seed + 20.0 * number + 3.0 * job.config.get("dual", False)
    worth = 100.0 * (job.agent == "lcpo-uniform") + 7.0 * (job.config.get("c_anchor") == 1e-3)
    steps = max(job.config.get(name, 1) for name in ("value_steps", "updates_per_rollout"))
    worth += 10.0 * (steps > 1)
    worth *= 1.0 + number / 3.0 + 0.02 * job.seed
    return level - 80.0 + 0.5 * worth, level + worth


def made_up(jobs: list[Job]) -> list[Result]:
    """Runs with the returns of `levels`."""
    found = []
    for job in jobs:
        step = np.arange(1, 9) * (job.steps // 8)
        early, late = levels(job)
        returns = np.where(step > job.steps // 4, late, early)
        record = {"step": step, "updates": np.ones(8, int), "epochs": np.ones(8, int),
                  "epoch_return": returns, "episodes": np.ones(8),
                  "episode_return_sum": returns}  # fmt: skip
        found.append(Result(job, "finished", None, record, 1.0, {"device": "cpu:cpu"}, Path()))
    return found


def returns_of(results: list[Result], agent: str, **values: float) -> list[Returns]:
    """Of an agent with these values, [whole runs, after a quarter], by trace and seed."""
    found: list[Returns] = [{}, {}]
    for result in results:
        job = result.job
        if job.agent == agent and values.items() <= job.config.items() and result.record:
            early, late = levels(job)
            for returns, value in zip(found, (0.25 * early + 0.75 * late, late), strict=True):
                returns.setdefault(str(job.trace), {})[job.seed] = value
    return found


def test_runs_of_all_traces_and_step_sizes_are_one_program() -> None:
    jobs = planned("rivals", drawn=2)
    assert len(jobs) == 21 * 3 * 2 * 2
    assert len({job.name for job in jobs}) == len(jobs)
    groups: dict[object, set[str]] = {}
    for job in jobs:
        groups.setdefault(Setup(job).statics(), set()).add(
            f"{job.agent} {job.config.get('c_anchor')}"
        )
    assert len(groups) == 17, "c_anchor is a value, and traces do not matter"
    assert {"lcpo 0.0001", "lcpo 0.001"} in groups.values()
    # What `anchors` shares with `rivals` need not be run again.
    shared = {job.name for job in planned("anchors", drawn=2)} & {job.name for job in jobs}
    assert len(shared) == 4 * 3 * 2 * 2


def test_gains_are_over_traces_in_each_window() -> None:
    """Traces differ more than seeds, and what a case gains after warm-up is not what it gains over
    the whole run: a wrong window, or an interval over seeds alone, has other numbers."""
    results = made_up(planned("rivals", drawn=6, families="burst", agents="lcpo,lcpo-uniform"))
    runs = drawn.runs_of(seeds_table(results, drawn.seed_numbers))
    paper = returns_of(results, "lcpo", c_anchor=1e-4, value_steps=1)
    more = returns_of(results, "lcpo", c_anchor=1e-4, value_steps=5)
    past = returns_of(results, "lcpo-uniform", c_anchor=1e-3, value_steps=5)

    def gains(a: list[Returns], b: list[Returns]) -> tuple[str, str]:
        whole, late = (
            Column("", "+").text(stats.hierarchical_difference(x, y))
            for x, y in zip(a, b, strict=True)
        )
        assert "± 0" not in whole
        assert whole != late
        return whole, late

    table = rivals.summary(runs)
    rows = {tuple(row[1:3]): row[4:] for row in table.texts()}
    own = [
        Column("").text(stats.hierarchical_ci({t: list(x[t].values()) for t in x})) for x in past
    ]
    whole, late = gains(past, paper)
    assert rows["lcpo-uniform", "c anchor 0.001, value steps 5"] == [
        own[0],
        whole,
        "6 of 6",
        own[1],
        "12",
    ]
    rows = {row[1]: row[4:] for row in rivals.more_work(runs).texts()}
    whole, late = gains(more, paper)
    assert rows["lcpo, c_anchor 0.0001"] == [late, whole, "6 of 6"]
    rows = {tuple(row[1:3]): row[4:] for row in rivals.beside(runs, rivals.UNIFORM, "").texts()}
    whole, late = gains(past, more)
    assert rows["lcpo", "c anchor 0.0001, value steps 5"] == [whole, "6 of 6", late, "6 of 6"]


@pytest.mark.learn
def test_report_of_rivals_from_a_table_of_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"families": "revisit,burst", "agents": "lcpo,lcpo-uniform,sac"}
    results = made_up(planned("rivals", drawn=2, **few))
    results[-1] = results[-1]._replace(status="failed", record={})
    report = rivals.study.report(SMALL, results)
    cells = {tuple(row[:3]): list(row[3:]) for row in report.tables["table"].texts()}
    past = cells["all", "lcpo-uniform", "c anchor 0.001, value steps 5"]
    assert (past[3], past[5]) == ("4 of 4", "8")
    assert past[2].startswith("+120 ± ")
    own = cells["revisit", "lcpo", "c anchor 0.0001, value steps 1"]
    assert own == ["14.7", "-510 ± -", "-", "-", "-490 ± -", "4"], "of two traces there is none"
    assert cells["burst", "sac", "updates per rollout 10"][5] == "3 of 4"
    work = {tuple(row[:2]): list(row[2:]) for row in report.tables["work"].texts()}
    assert work["revisit", "sac"][0] == "1 to 10"
    assert work["revisit", "sac"][2:] == ["+11.8 ± -", "+10.3 ± -", "2 of 2"]
    best = report.tables["best"]
    assert "lcpo-uniform, c anchor 0.001, value steps 5, best over all whole runs" in best.title
    assert len(best.rows) == 3 * (4 + 4 + 4 - 1), "two families and all; not beside itself"
    assert "uniform" not in report.tables, "it is the best"
    with monkeypatch.context() as patch:
        patch.setattr(rivals, "UNIFORM", rivals.PAPER)
        table = rivals.study.report(SMALL, results).tables["uniform"]
    assert "lcpo, c anchor 0.0001, value steps 1, the best of LCPO's" in table.title
    beside = {tuple(row[:3]): list(row[4:]) for row in table.texts()}
    past = beside["all", "lcpo-uniform", "c anchor 0.001, value steps 5"]
    assert past[0].startswith("-120 ± ")
    assert past[1::2] == ["0 of 4", "0 of 4"]
    assert report.figures["cost"].png.startswith(b"\x89PNG")
    settings = html_table.find_settings([PageRun(r.job, r.status) for r in results])
    commands = html_table.row_commands(report.tables["table"], settings)
    rows = [tuple(row[:3]) for row in report.tables["table"].texts()]
    mine = commands[rows.index(("burst", "sac", "updates per rollout 10"))]
    assert len(mine) == 2
    assert all("--trace family:burst:" in c and "--updates-per-rollout 10" in c for c in mine)
    assert len(commands[rows.index(("all", "lcpo", "c anchor 0.001, value steps 5"))]) == 4

    empty = Picture(b"", b'<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"></svg>')
    monkeypatch.setattr(rivals, "draw", lambda runs: empty)
    path = tmp_path / "seeds.csv"
    path.write_text(report.seeds.to_csv())
    out = tmp_path / "out"
    assert run("reproduce", "rivals", "--from-seeds", str(path), "--out", str(out)) == 0
    assert (out / "table.csv").read_text() == report.tables["table"].to_csv()
    mine, made = drawn.read_seeds([path], anchors.CASES)
    assert {row[0] for row in mine.texts()} == {"lcpo", "lcpo-uniform"}, "others are not its runs"
    assert (made["finished"], made["failed"], made["seeds"]) == (32, 0, 2)
    whole = path.read_text()
    for text, told in {
        "agent,setting\n": "is not a seeds.csv of this study",
        whole[:-40]: "is damaged",
        whole.replace("-5", "five", 1): "line 2, is damaged: could not convert",
    }.items():
        path.write_text(text)
        assert run("reproduce", "rivals", "--from-seeds", str(path), "--out", str(out)) == 2
        assert told in capsys.readouterr().err


def test_seeds_of_several_machines_are_one_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for agent, commit in {"lcpo": "1234567890ab", "trpo": "ba0987654321"}.items():
        results = made_up(planned("anchors", drawn=2, families="drift", agents=agent))
        folder = tmp_path / agent
        folder.mkdir()
        paths.append(folder / "seeds.csv")
        paths[-1].write_text(anchors.study.report(SMALL, results).seeds.to_csv())
        made = {"commit": [commit], "versions": {"jax": ["0.11.2"]}}
        (folder / "made.json").write_text(json.dumps(made))
    table, made = drawn.read_seeds(paths, anchors.CASES)
    assert len(table.rows) == 2 * (2 * 2 * 2), "agents, limits, traces, seeds"
    assert made["agents"] == ["lcpo", "trpo"]
    assert made["commit"] == ["1234567890ab", "ba0987654321"]
    assert made["versions"] == {"jax": ["0.11.2"]}
    copy = tmp_path / "copy.csv"
    copy.write_text(paths[0].read_text())
    twice = f"{paths[0]},{copy}"
    assert run("reproduce", "anchors", "--from-seeds", twice, "--out", str(tmp_path / "out")) == 2
    assert "has the run lcpo c_anchor=0.0001-value_steps=1" in capsys.readouterr().err


def test_anchors_are_compared_at_the_same_limit() -> None:
    results = made_up(planned("anchors", drawn=2, families="revisit,burst"))
    report = anchors.study.report(SMALL, results)
    rows = {tuple(row[:4]): list(row[4:]) for row in report.tables["table"].texts()}
    # 100 on the first trace, a third more on the second, 2 % more with the second seed; of the
    # first quarter only half counts.
    gain = (0.25 * 0.5 + 0.75) * 100.0 * (7 / 6 + 0.01)
    assert rows["burst", "whole past", "lcpo-uniform", "0.001"][1] == f"{gain:+.0f} ± -"
    assert rows["burst", "none", "trpo", "0.0001"][1] == "+0.00 ± -"
    assert rows["all", "OOD", "lcpo", "0.0001"][1:3] == ["-", "-"]


def test_parts_of_lcpo_plus_are_compared_with_all_of_it() -> None:
    """Without a part, with a part alone, and without any, which is `lcpo-uniform`."""
    jobs = planned("plus", drawn=2, families="drift")
    assert len(jobs) == len(plus.CASES) * 2 * 2
    assert len({job.name for job in jobs}) == len(jobs)
    table = plus.study.report(SMALL, made_up(jobs)).tables["table"]
    rows = {tuple(row[1:3]): list(row[3:]) for row in table.texts()}
    assert len(rows) == len(plus.CASES)
    assert rows["lcpo-plus", "all"][1:3] == ["-", "-"]
    assert rows["lcpo-plus", "all but entropy floor"][1] == "+0.00 ± -"
    assert {"lcpo-plus", "lcpo-plus-ood", "lcpo-uniform"} == {agent for agent, _ in rows}
    configs = {job.case: job.config for job in jobs if job.agent == "lcpo-plus"}
    for part, values in plus.PARTS.items():
        changed = configs[f"without-{part}"]
        assert {k: v for k, v in changed.items() if v != configs[""][k]} == values
    (parent,) = {json.dumps(job.config) for job in jobs if job.agent == "lcpo-uniform"}
    without_any = {**configs["critic-alone"], "w_v": 0.0}
    assert {k: without_any[k] for k in json.loads(parent)} == json.loads(parent)


def test_the_frontier_has_the_best_return_for_each_cost() -> None:
    drawn_steps: list[tuple] = []
    axes = SimpleNamespace(step=lambda *line, **style: drawn_steps.append(line))
    points = [(5.0, 1.0), (1.0, 0.0), (2.0, -1.0), (9.0, 1.0), (3.0, 0.5)]
    rivals._draw_frontier(axes, [rivals.Place(cost, Estimate(y, y, y, 4)) for cost, y in points])
    assert drawn_steps == [((1.0, 3.0, 5.0), (0.0, 0.5, 1.0))]


def test_every_cost_is_known() -> None:
    """Of every case, and of nothing else."""
    known = {(case.agent, point) for case in rivals.CASES for point in case.points()}
    assert rivals.costs().keys() == known


def faults_of(agent: str) -> tuple[str, ...]:
    return published_faults(AGENTS[agent].Config).get("faults", ())


def test_faults_stand_beside_a_run_without_them() -> None:
    cases = faults.settings("lcpo")
    assert cases["corrected"] == {"faults": ()}
    assert cases["dual-algebra"] == {"faults": ("dual-algebra",), "dual": True}
    assert cases["with-dual-algebra"] == {"faults": (), "dual": True}
    assert cases["all"] == {"faults": ("truncation-leaks", "add-before-sample")}
    tried = {label for agent in faults.FaultOptions.agents.split(",") for label in faults_of(agent)}
    assert tried == {label for agent in AGENTS for label in faults_of(agent)}, (
        "all that have a name"
    )
    jobs = planned("faults", agents="lcpo,sac", traces="4")
    results = made_up(jobs)
    for i, result in enumerate(results):
        gain = 7.0 * len(result.job.config["faults"])
        record = {**result.record, "epoch_return": result.record["epoch_return"] - gain}
        results[i] = result._replace(record=record)
    report = faults.study.report(faults.FaultOptions(), results)
    rows = {tuple(row[1:3]): list(row[3:]) for row in report.tables["table"].texts()}
    assert rows["lcpo", "dual-algebra"][1] == "-7.00 ± -"
    assert rows["lcpo", "all but those of options"][1] == "-14.0 ± -"
    assert rows["lcpo", "none, with the option of dual-algebra"][1] == "-"
    short = made_up(planned("faults", agents="sac", traces="4", scale="1/20"))
    table = faults.study.report(faults.FaultOptions(), short).tables["table"]
    assert table.header[5] == "return after 300,000", "the paper's 6M, 20 times as soon"


def test_two_by_two_has_the_effects() -> None:
    results = made_up(planned("two-by-two", traces="1,3"))
    worth = {"a2c": 0.0, "a2c-entropy": 1.0, "lcpo-noent": 3.0, "lcpo": 9.0}
    for i, result in enumerate(results):
        record = {**result.record, "epoch_return": np.full(8, worth[result.job.agent])}
        results[i] = result._replace(record=record)
    study = find_study("two-by-two")
    report = study.report(study.Options(), results)
    assert report.tables["table"].title.startswith("pendulum, 20,000,000 or 8,000,000 steps")
    found = {row[1]: row[3] for row in report.tables["effects"].texts() if row[0] == "3"}
    assert found == {
        "entropy, of A2C": "+1.00 ± -", "entropy, of LCPO": "+6.00 ± -",
        "constraint, without entropy": "+3.00 ± -", "constraint, with entropy": "+8.00 ± -",
        "both, beyond the sum of each": "+5.00 ± -",
    }  # fmt: skip


def test_unknown_parts_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in {
        ("rivals", "--agents", "lpco"): "did you mean 'lcpo'",
        ("anchors", "--families", "revist"): "did you mean 'revisit'",
        ("faults", "--agents", "ddqn"): "has no faults of the published code",
        ("faults", "--traces", ""): "traces = ''",
        ("two-by-two", "--agents", ","): "agents = ','",
        ("anchors", "--drawn", "0"): "drawn = 0",
        ("anchors", "--steps", "0"): "steps = 0",
        ("anchors", "--agents", "lcpo,lcpo"): "without duplicates",
        ("straggler", "--workloads", ""): "workloads = ''",
        ("straggler", "--agents", "lcpo-ag"): "did you mean 'lcpo-agg'",
    }.items():
        assert run("reproduce", *words) == 2
        assert told in capsys.readouterr().err
    assert drawn.DrawnOptions(traces="2", envs="hopper").contexts() == ["2"]


def test_an_agent_of_ones_own_beside_the_others() -> None:
    """Alone, it has no cost and nothing to be compared with; beside LCPO it has."""
    own = "examples.reinforce:agent[gamma=0.9,hidden=[8,8]]"
    few = {"families": "burst", "drawn": 3}
    (alone,) = {job.label for job in planned("rivals", agents=own, **few)}
    assert alone == "examples.reinforce:agent-gamma=0.9-hidden=[8, 8]"
    for name in ("rivals", "anchors"):
        study = find_study(name)
        options = study.Options(agents=f"lcpo,{own}", drawn=3, seeds=2, check=False)
        jobs = planned(name, agents=f"lcpo,{own}", **few)
        table = study.report(options, made_up(jobs)).tables["table"]
        row = next(row for row in table.texts() if "examples.reinforce:agent" in row)
        cells = dict(zip(table.header, row, strict=True))
        gain = next(text for column, text in cells.items() if column.startswith("minus"))
        assert gain == "+0.00 ± 0.00", "made up to be as good as LCPO"
        assert cells["runs"] == "6"
    report = rivals.study.report(SMALL, made_up(planned("rivals", agents=own, **few)))
    assert list(report.tables) == ["table"]
    assert not report.figures


def test_traces_of_a_study_are_given_as_ranges() -> None:
    jobs = planned("rivals", agents="a2c", traces="family:iid:3..4,family:drift:0", steps=2000)
    traces = ["family:iid:3", "family:iid:4", "family:drift:0"]
    assert list(dict.fromkeys(job.trace_name for job in jobs)) == traces
    with pytest.raises(ValueError, match="unknown agent 'lcpoo'"):
        planned("rivals", agents="lcpoo")


def test_a_study_beside_the_paper_refuses_traces_without_an_end(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["reproduce", "windy", "--traces", "family:revisit:0..3", "--out", str(tmp_path / "o")]
    assert run(*words) == 2
    error = capsys.readouterr().err
    assert "trace 'family:revisit:0' has no end, and this study runs each trace to its end" in error
    assert "`lcpo compare --env ENV --agents lcpo,a2c --traces family:revisit:0..3 --st" in error
    assert "say how many steps" not in error
