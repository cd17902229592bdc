"""Several agents on several traces: means and intervals over traces, from made-up runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcpo.run.plan.agents import plan_traces
from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study.measure import compare, stats
from lcpo.study.measure.compare import AgentRow
from lcpo.study.measure.traces import summarise_traces
from lcpo.study.report import report

TRACES = [f"family:drift:{seed}" for seed in range(7)]
GAIN = (5.0, 9.0, -2.0, 30.0, 1.0, 4.0, 3.0)
"""Of A2C over LCPO, by trace: skewed, and once negative."""


def level(job: Job) -> float:
    """The return of a made-up run after its warm-up: traces differ by far more than agents."""
    trace = TRACES.index(str(job.trace))
    return -500.0 + 100.0 * trace + job.seed + GAIN[trace] * (job.agent == "a2c")


def made_up(job: Job, **fields: Any) -> Result:
    """Ten updates; the first, the warm-up, is 50 worse."""
    ones = np.ones(10)
    returns = level(job) - 50.0 * (np.arange(10) == 0)
    record = {"step": np.arange(1, 11) * (job.steps // 10), "updates": np.ones(10, int),
              "epochs": np.ones(10, int), "epoch_return": returns, "episodes": ones,
              "episode_return_sum": returns, "reward": ones}  # fmt: skip
    found = Result(job, "finished", None, record, 1.0, {"device": "cpu:cpu"}, Path())
    return found._replace(**fields)


def results(traces: list[str] = TRACES, **more: Any) -> list[Result]:
    options = {"steps": 2000, "seeds": 3, "check": False, **more}
    return [made_up(job) for job in plan_traces("lcpo,a2c", "pendulum", traces=traces, **options)]


def returns(runs: list[Result], agent: str) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    for run in runs:
        if run.job.agent == agent and run.status == "finished":
            found.setdefault(str(run.job.trace), {})[run.job.seed] = level(run.job)
    return found


def failed(run: Result) -> Result:
    return run._replace(status="failed", record={})


def rows(runs: list[Result]) -> dict[str, AgentRow]:
    return {row.label: row for row in summarise_traces(runs).rows}


def test_intervals_are_over_traces() -> None:
    """An interval over seeds, or over all runs, has another width."""
    runs = results()
    found, a, b = rows(runs), returns(runs, "a2c"), returns(runs, "lcpo")
    mean = stats.hierarchical_ci({trace: list(seeds.values()) for trace, seeds in a.items()})
    assert found["a2c"].after_warmup == mean
    assert found["a2c"].whole_run.mean == pytest.approx(mean.mean - 5.0)
    difference = stats.hierarchical_difference(a, b)
    assert difference is not None
    assert found["a2c"].difference == difference
    assert difference.mean == pytest.approx(np.mean(GAIN))
    assert (found["lcpo"].difference, found["lcpo"].improvement) == (None, None)
    low, high = stats.share_bounds(6, 7)
    assert found["a2c"].improvement == (pytest.approx(6 / 7), low, high, 7), "a trace counts once"
    assert (found["lcpo"].won, found["a2c"].won) == (1, 6)


def test_a_failed_run_loses_its_trace_and_is_not_in_the_means() -> None:
    runs = results()
    last = next(i for i, r in enumerate(runs) if r.job.agent == "a2c" and r.job.seed == 1)
    runs[last] = failed(runs[last])
    row = rows(runs)["a2c"]
    assert (row.finished, row.failed, row.missing) == (20, 1, 0)
    assert (row.won, row.improvement and row.improvement.mean) == (5, pytest.approx(5 / 7))
    assert row.difference == stats.hierarchical_difference(
        returns(runs, "a2c"), returns(runs, "lcpo")
    )
    text = report.to_table(summarise_traces(runs)).to_text()
    assert "20 of 21, 1 failed" in text
    assert "(n=20)" in text
    assert "failed runs: not in the means" in text


def test_what_one_agent_lacks_is_missing() -> None:
    """Also if it is the reference that lacks a trace."""
    runs = [r for r in results() if (r.job.agent, str(r.job.trace)) != ("lcpo", TRACES[0])]
    found = summarise_traces(runs, reference="lcpo")
    row = {row.label: row for row in found.rows}
    assert row["lcpo"].missing == 3
    assert row["a2c"].difference is not None
    assert row["a2c"].difference.mean == pytest.approx(np.mean(GAIN[1:]))
    assert row["a2c"].improvement is not None
    assert row["a2c"].improvement.n == 6
    assert len(report.by_trace(found).rows) == 13
    with pytest.raises(ValueError, match="unknown reference 'ppo'"):
        summarise_traces(runs, reference="ppo")


def test_tables_name_what_they_show() -> None:
    found = summarise_traces(results())
    whole, each = report.to_table(found), report.by_trace(found)
    assert whole.title == (
        "pendulum, traces family:drift:0..6, 2,000 steps; 95 % intervals over traces and their "
        "seeds"
    )
    assert {"runs", "return after 200", "minus lcpo", "P(better)", "traces won"} <= {*whole.header}
    assert whole.records()[1]["won"] == 6
    assert whole.records()[1]["won_total"] == 7
    assert each.title == "pendulum, by trace; 95 % intervals over seeds"
    assert report.by_trace(summarise_traces(results(seeds=2))).title == "pendulum, by trace"
    assert each.header[:2] == ["trace", "agent"]
    assert "traces won" not in each.header
    assert [row[0] for row in each.texts()] == [trace for trace in TRACES for _ in range(2)]
    seeds = report.make_report(found, results()).seeds.records()
    assert seeds[0]["return_after_warmup"] == pytest.approx(-500.0)


def test_two_traces_have_no_interval() -> None:
    found = summarise_traces(results(TRACES[:2]))
    assert np.isnan(found.rows[0].after_warmup.low)
    text = report.to_table(found).to_text()
    assert "95 %" not in text
    assert "fewer than 3 traces have no interval" in text


def test_one_trace_is_an_ordinary_comparison() -> None:
    runs = results(TRACES[:1])
    assert summarise_traces(runs) == compare.summarise(runs)
    assert not summarise_traces(runs).parts


def test_traces_may_differ_in_length_and_rows() -> None:
    """The warm-up is a tenth of each; curves are drawn as far as all of them go."""
    runs = [*results(TRACES[:2]), *results(TRACES[2:3], steps=4000)]
    found = summarise_traces(runs)
    assert found.rows[1].after_warmup.mean == pytest.approx(-400.0 + 1.0 + np.mean(GAIN[:3]))
    assert "return after 200 or 400" in report.to_table(found).header
    seeds = report.make_report(found, runs).seeds.records()
    assert seeds[-1]["return_after_warmup"] == pytest.approx(level(runs[-1].job))
    upper, _ = report.plot_curves(found, runs)
    assert upper.lines[0].get_xdata()[-1] == 1900
    np.testing.assert_allclose(upper.lines[0].get_ydata()[3:], -399.0)


def test_runs_without_a_finished_one_are_told() -> None:
    runs = results(TRACES[:3])
    runs = [failed(r) if str(r.job.trace) == TRACES[2] else r for r in runs]
    found = summarise_traces(runs)
    assert len(found.parts) == 2
    assert "1 more traces have no finished run" in found.notes
    other = [dataclasses.replace(r.job, env="grid") for r in runs]
    with pytest.raises(ValueError, match="runs differ in env"):
        summarise_traces([*runs, made_up(other[0])])


def test_rewards_where_no_episode_ends_on_some_trace() -> None:
    """Returns of one trace and rewards of another have no mean."""
    runs = results(TRACES[:3])
    for run in runs:
        if str(run.job.trace) == TRACES[1]:
            run.record["epochs"] = np.zeros(10, int)
    found = summarise_traces(runs)
    assert found.rows[0].after_warmup.mean == pytest.approx(1.0)
    assert "reward after 200" in report.to_table(found).header


def test_the_warm_up_must_end_on_every_trace() -> None:
    jobs = [r.job for r in (*results(TRACES[:1]), *results(TRACES[1:2], steps=4000))]
    compare.check_warmup(1900, jobs)
    with pytest.raises(ValueError, match="warm-up = 2,000 steps: needs 0 to 1,999"):
        compare.check_warmup(2000, jobs)
