"""The tables of baselines, replay rates and EWC, from runs on disk that were made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study.paper import baselines, ewc, ideal_mbpo, replay_rate
from lcpo.study.paper.baselines import BaselineOptions
from lcpo.study.paper.ewc import EwcOptions
from lcpo.study.paper.ideal_mbpo import IdealMbpoOptions
from lcpo.study.paper.replay_rate import ReplayRateOptions


def result(job: Job, returns: np.ndarray, status: str = "finished") -> Result:
    """A run with one episode in each update of 200 steps."""
    ones = np.ones(len(returns), int)
    step = 200 * np.arange(1, len(returns) + 1)
    columns = {"step": step, "updates": ones, "epochs": ones, "epoch_return": returns}
    return Result(job, status, None, columns, 1.0, {"device": "cpu:cpu"}, Path())


def test_baselines_stand_beside_the_paper_s() -> None:
    options = BaselineOptions(agents="lcpo,lcpo-p,ppo", seeds=2, steps=8000)
    jobs = baselines.plan_runs(options)
    assert len(jobs) == 2 * 3 * 2
    results = [result(job, np.full(40, -100.0 * int(job.trace or 0) - job.seed)) for job in jobs]
    failed = results[-1]._replace(status="failed", record={})
    report = baselines.make_report(options, [*results[:-1], failed])
    table = report.tables["table"]
    assert list(table.header[:6]) == [
        "trace", "agent", "seeds", "return after 800", "whole run", "paper",
    ]  # fmt: skip
    assert table.rows[0][:6] == ["3", "lcpo", "2", "-300 ± 6", "-300 ± 6", "-240 ± 4.41"]
    assert table.rows[1][5] == "-271 ± 21.9"
    assert table.rows[-1][:3] == ["4", "ppo", "1 of 2, 1 failed"]
    assert table.rows[-1][5] == "-"
    assert "faults corrected" in table.title
    assert len(report.seeds.rows) == len(jobs)


def test_published_baselines_keep_their_names() -> None:
    options = BaselineOptions(agents="sac", traces="4", seeds=2, steps=8000, published=True)
    jobs = baselines.plan_runs(options)
    assert [job.name for job in jobs] == [f"sac-pendulum-4-published-s{i}" for i in (0, 1)]
    report = baselines.make_report(options, [result(job, np.full(40, -1.0)) for job in jobs])
    assert report.tables["table"].rows[0][:2] == ["4", "sac"]
    assert "as published" in report.tables["table"].title


def test_replay_rates() -> None:
    """Quarters of a run: -4, -3, -2, -1."""
    options = ReplayRateOptions(agents="ddqn", rates="1,10", beside="lcpo", seeds=2, steps=8000)
    jobs = replay_rate.plan_runs(options)
    assert len(jobs) == 6
    returns = np.repeat([-4.0, -3.0, -2.0, -1.0], 10)
    report = replay_rate.report(options, [result(job, returns) for job in jobs])
    rows = report.tables["table"].rows
    assert [row[:3] for row in rows] == [
        ["ddqn", "1", "2"],
        ["ddqn", "10", "2"],
        ["lcpo", "-", "2"],
    ]
    assert list(rows[0][3:]) == ["-4.00 ± 0.00", "-1.00 ± 0.00", "-2.50 ± 0.00"]
    alone = ReplayRateOptions(agents="sac", rates="1", beside=" ", seeds=1, steps=8000)
    assert [job.agent for job in replay_rate.plan_runs(alone)] == ["sac"]
    with pytest.raises(ValueError, match="rates = '1,x': needs numbers"):
        replay_rate.plan_runs(ReplayRateOptions(rates="1,x"))


def test_online_ewc_by_its_hyper_parameters() -> None:
    """Each combination stands beside the paper's, as do the agents beside."""
    options = EwcOptions(traces="4", alphas="0.1,1", betas="7e-5,2e-5", seeds=2, steps=8000)
    jobs = ewc.plan_runs(options)
    assert len(jobs) == (2 + 4) * 2
    assert jobs[-1].config["penalty_coef"] == 1.0
    assert jobs[-1].config["averaging_rate"] == 2e-5
    assert jobs[-1].config["random_steps"] == 800  # the paper's would be all of the run
    results = [result(job, np.full(40, -100.0 - job.seed)) for job in jobs]
    report = ewc.make_report(options, results)
    rows = report.tables["table"].rows
    assert [list(row[1:4]) for row in rows] == [
        ["lcpo", "-", "-"],
        ["sac", "-", "-"],
        ["online-ewc", "0.1", "3M"],
        ["online-ewc", "0.1", "10M"],
        ["online-ewc", "1", "3M"],
        ["online-ewc", "1", "10M"],
    ]
    assert [row[-1] for row in rows[2:]] == [
        "-408 ± 23.0", "-397 ± 31.9", "-409 ± 20.1", "-416 ± 21.7",
    ]  # fmt: skip
    assert rows[0][4:7] == ["2", "-100 ± 6", "-100 ± 6"]
    assert report.figures["figure"].png.startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="alphas = '1,x': needs numbers"):
        ewc.plan_runs(EwcOptions(alphas="1,x"))


def test_ideal_mbpo_stands_beside_the_paper_s() -> None:
    """Traces may differ in length; warm-up is left out of the columns of the model, too."""
    options = IdealMbpoOptions(traces="2,3", seeds=2, steps=8000)
    jobs = ideal_mbpo.plan_runs(options)
    assert len(jobs) == 2 * 4 * 2
    assert {job.config.get("random_steps") for job in jobs} == {None, 800}
    late = np.where(np.arange(40) < 4, 9.0, 0.25)
    own = {
        "mbpo": {"model_reward_error": late, "model_obs_error": late / 2, "sample_age": late * 3},
        "ideal-mbpo": {"sample_age": late * 3},
    }
    results = [result(job, np.full(40, -100.0 - job.seed)) for job in jobs]
    results = [r._replace(record={**r.record, **own.get(r.job.agent, {})}) for r in results]
    table = ideal_mbpo.make_report(options, results).tables["table"]
    assert [row[5] for row in table.rows[:4]] == [
        "-355 ± 2.57", "-843 ± 24.2", "-870 ± 56.4", "-377 ± 8.05",
    ]  # fmt: skip
    assert [list(row[6:]) for row in table.rows[4:]] == [
        ["-", "-", "-"],
        ["25 %", "12.5 %", "75 %"],
        ["-", "-", "75 %"],
        ["-", "-", "-"],
    ]
    whole = ideal_mbpo.plan_runs(IdealMbpoOptions(traces="3", agents="mbpo", seeds=1))
    assert whole[0].config["random_steps"] == 200_000
