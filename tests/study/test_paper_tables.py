"""Tables of the paper beside ours, from runs that were made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.study.cases import Case, choose
from lcpo.study.controls import replay_rate
from lcpo.study.controls.replay_rate import ReplayRateOptions
from lcpo.study.paper import buffer_size, columns, ewc, ideal_mbpo, ood_sensitivity, windy
from lcpo.study.paper.buffer_size import BufferOptions
from lcpo.study.paper.columns import PendulumOptions, column_study
from lcpo.study.paper.ewc import EwcOptions
from lcpo.study.paper.ideal_mbpo import IdealMbpoOptions
from lcpo.study.paper.ood_sensitivity import SensitivityOptions
from lcpo.study.report.cells import Column
from lcpo.study.report.tables import Table
from lcpo.study.study import Options


def result(job: Job, returns: np.ndarray, status: str = "finished") -> Result:
    """A run with one episode in each update of 200 steps."""
    ones = np.ones(len(returns), int)
    step = 200 * np.arange(1, len(returns) + 1)
    columns = {"step": step, "updates": ones, "epochs": ones, "epoch_return": returns,
               "episodes": ones, "episode_return_sum": returns}  # fmt: skip
    return Result(job, status, None, columns, 1.0, {"device": "cpu:cpu"}, Path())


def cells(table: Table, *columns: str) -> list[list[str]]:
    """These columns of a table, by their headers."""
    places = [list(table.header).index(name) for name in columns]
    return [[row[place] for place in places] for row in table.texts()]


def test_a_study_is_declared_by_its_cases_and_fields() -> None:
    """Names of runs, title and columns follow from the declaration; what is declared is shown."""
    cases = [Case("lcpo", f"c={x:g}", {"c_anchor": x}) for x in (1e-4, 1e-3)]
    best = (Column("best {warmup}"), lambda line: max(line.returns(0).values()))
    study = column_study(
        "mine", PendulumOptions, lambda options: choose(cases, options.agents), seeds=2,
        fields=[columns.PLAYED, columns.TITLED, best], title="{steps} steps", notes=["{setting}"],
    )  # fmt: skip
    options = PendulumOptions(traces="3,4", scale="1/100", agents="c=0.001")
    jobs = study.plan(options)
    assert [job.name for job in jobs] == [
        f"lcpo-pendulum-{trace}@1_100-c=0.001-s{seed}" for trace in (3, 4) for seed in (0, 1)
    ]
    assert {job.config["c_anchor"] for job in jobs} == {1e-3}
    report = study.report(options, [result(job, np.full(400, -5.0 - job.seed)) for job in jobs])
    table = report.tables["table"]
    assert (table.title, list(table.notes)) == ("80,000 steps", ["faults corrected"])
    assert cells(table, "trace", "agent", "best 60,000") == [
        ["3@1/100", "c=0.001", "-5.00"], ["4@1/100", "c=0.001", "-5.00"]
    ]  # fmt: skip


def test_windy_stands_beside_the_paper_s() -> None:
    """At a hundredth of the time: so is the warm-up, and names of runs say so."""
    options = Options(agents="lcpo,a2c,ppo", envs="pendulum,reacher", traces="2,3", seeds=2,
                           scale="1/100")  # fmt: skip
    jobs = windy.study.plan(options)
    assert jobs[0].name == "lcpo-pendulum-2@1_100-s0"
    assert {job.scale for job in jobs if job.name.startswith("a2c-reacher-2")} == {1 / 8}
    assert {(job.trace_name, job.steps) for job in jobs} == {
        ("2@1/100", 200_000),
        ("3@1/100", 80_000),
    }
    levels = {"lcpo": -100.0, "a2c": -200.0, "ppo": -400.0}
    results = [result(job, np.full(job.steps // 200, levels[job.agent])) for job in jobs]
    results[-1] = results[-1]._replace(status="failed", record={})
    report = windy.study.report(options, results)
    table = report.tables["table"]
    found = cells(table, "env", "trace", "agent", "seeds", "return after 60,000", "paper")
    assert found[0] == ["pendulum", "2", "lcpo", "2", "-100 ± -", "-355 ± 2.57"]
    assert found[-1] == ["reacher", "3", "ppo", "1 of 2, 1 failed", "-400 ± -", "-"]
    assert "(1/100 of the paper's), faults corrected" in table.title
    scores = cells(report.tables["normalised"], "agent", "cells", "mean", "paper")
    assert scores == [["lcpo", "4", "1.00", "1.00"], ["a2c", "4", "0.67", "0.00"],
                      ["ppo", "4", "0.00", "-"]]  # fmt: skip
    assert report.figures["figure"].png.startswith(b"\x89PNG")
    assert len(report.seeds.rows) == len(jobs)


def test_regret_is_against_the_best_prescient_agent() -> None:
    """A reward of -1 a step for its runs; the online agent loses 3 a step more while it learns."""
    agents = "lcpo,prescient-a2c,prescient-sac"
    options = Options(agents=agents, envs="pendulum", traces="4", seeds=3)
    jobs = windy.study.plan(options)

    def made_up(job: Job) -> Result:
        found = result(job, np.full(job.steps // 200, -900.0 if "a2c" in job.name else -200.0))
        reward = np.full(len(found.record["step"]), -4.5 if "a2c" in job.name else -1.0)
        if job.agent == "lcpo":
            reward -= np.where(found.record["step"] <= 2_000_000, 3.0, 1.0) + job.seed
        return found._replace(record={**found.record, "reward": reward})

    table = windy.study.report(options, [made_up(job) for job in jobs]).tables["regret"]
    assert cells(table, "agent", "seeds", "against") == [["lcpo", "3", "prescient-sac"]]
    [[whole, late]] = cells(table, "regret per step", "after warm-up")
    assert (whole[:3], late[:3]) == ("2.5", "2.0")
    assert "regret" not in windy.study.report(options, [made_up(jobs[0])]).tables


def test_published_runs_keep_their_names() -> None:
    options = Options(agents="sac", envs="pendulum", traces="4", seeds=2, setting="published")
    jobs = windy.study.plan(options)
    assert [job.name for job in jobs] == [f"sac-pendulum-4-published-s{i}" for i in (0, 1)]
    report = windy.study.report(options, [result(job, np.full(40_000, -1.0)) for job in jobs])
    assert cells(report.tables["table"], "agent", "paper") == [["sac", "-418 ± 5.52"]]
    assert "as published" in report.tables["table"].title


def test_seeds_of_the_paper_and_what_smoke_leaves_out() -> None:
    every = windy.study.plan(Options(check=False))
    smoke = Options(scale="smoke", check=False)
    few = windy.study.plan(smoke)
    assert len(every) == 20 * (10 * 25 + 6 * 5)
    assert sum(job.agent == "mbpo" for job in every) == 20 * 5
    assert {job.seed for job in few} == {0}
    assert "hopper" in windy.left_out(smoke)
    assert windy.left_out(Options()) == ""
    assert windy.left_out(Options(scale="smoke", envs="pendulum", traces="3")) == ""


def test_thresholds_and_reservoirs_are_the_paper_s() -> None:
    """Sizes follow the length of the trace, and the fraction of it; best ones stand below."""
    options = BufferOptions(envs="pendulum", traces="1,4", seeds=1, scale="1/20")
    jobs = buffer_size.study.plan(options)
    assert [job.config["buffer_size"] for job in jobs] == [
        1_000_000, 10_000, 25, 1, 400_000, 4000, 10, 1,
    ]  # fmt: skip
    report = buffer_size.study.report(options, [result(job, np.full(2000, -1.0)) for job in jobs])
    found = cells(report.tables["table"], "agent", "paper")
    assert found[:2] == [["nb=20M", "-191 ± 0.65"], ["nb=200K", "-190 ± 0.45"]]
    assert found[-2:] == [["best baseline: a2c", "-399 ± 7.76"],
                          ["best prescient: prescient-sac", "-357"]]  # fmt: skip
    options = SensitivityOptions(envs="pendulum", traces="1", seeds=1, agents="sigma2=0.25,mhd2=6")
    near, whole = ood_sensitivity.study.plan(options)
    assert (near.config["sigma"], near.config["detector"]) == (0.5, "l2")
    assert (whole.config["sigma"], whole.config["detector"]) == (6**0.5, "mahalanobis-full")
    with pytest.raises(ValueError, match=r"unknown part 'sigma2=3'.*did you mean"):
        ood_sensitivity.study.plan(SensitivityOptions(agents="sigma2=3"))


def test_replay_rates() -> None:
    """Quarters of a run: -4, -3, -2, -1."""
    options = ReplayRateOptions(agents="ddqn", rates="1,10", beside="lcpo", seeds=2, steps=8000)
    jobs = replay_rate.study.plan(options)
    assert len(jobs) == 6
    returns = np.repeat([-4.0, -3.0, -2.0, -1.0], 10)
    report = replay_rate.study.report(options, [result(job, returns) for job in jobs])
    rows = report.tables["table"].texts()
    assert [row[:2] for row in rows] == [["ddqn", "1"], ["ddqn", "10"], ["lcpo", "-"]]
    assert list(rows[0][2:]) == ["-1.00 ± -", "-2.50 ± -", "-4.00 ± -", "2"]
    alone = ReplayRateOptions(agents="sac", rates="1", beside=" ", seeds=1, steps=8000)
    assert [job.agent for job in replay_rate.study.plan(alone)] == ["sac"]
    with pytest.raises(ValueError, match="rates = '1,x': needs numbers"):
        replay_rate.study.plan(ReplayRateOptions(rates="1,x"))


def test_online_ewc_by_its_hyper_parameters() -> None:
    """Each combination stands beside the paper's, as do the agents beside."""
    options = EwcOptions(traces="4", alphas="0.1,1", betas="7e-5,2e-5", seeds=2, scale="1/1000")
    jobs = ewc.study.plan(options)
    assert len(jobs) == (2 + 4) * 2
    assert jobs[-1].config["penalty_coef"] == 1.0
    assert jobs[-1].config["averaging_rate"] == pytest.approx(2e-2)  # of a thousandth of steps
    assert jobs[-1].config["random_steps"] == 200
    results = [result(job, np.full(40, -100.0 - job.seed)) for job in jobs]
    report = ewc.study.report(options, results)
    rows = report.tables["table"].texts()
    assert [list(row[1:4]) for row in rows] == [
        ["lcpo", "-", "-"],
        ["sac", "-", "-"],
        ["online-ewc", "0.1", "3M"],
        ["online-ewc", "0.1", "10M"],
        ["online-ewc", "1", "3M"],
        ["online-ewc", "1", "10M"],
    ]
    assert [row[5] for row in rows[2:]] == [
        "-408 ± 23.0", "-397 ± 31.9", "-409 ± 20.1", "-416 ± 21.7",
    ]  # fmt: skip
    assert [rows[0][i] for i in (4, 6, 7)] == ["-100 ± -", "-100 ± -", "2"]
    assert report.figures["figure"].png.startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="alphas = '1,x': needs numbers"):
        ewc.study.plan(EwcOptions(alphas="1,x"))


@pytest.mark.learn
def test_ideal_mbpo_stands_beside_the_paper_s() -> None:
    """Traces may differ in length; warm-up is left out of the columns of the model, too."""
    options = IdealMbpoOptions(traces="2,3", seeds=2, scale="1/1000")
    jobs = ideal_mbpo.study.plan(options)
    assert len(jobs) == 2 * 4 * 2
    assert {job.config.get("random_steps") for job in jobs} == {None, 200}
    late = np.where(np.arange(40) < 4, 9.0, 0.25)
    own = {
        "mbpo": {"model_reward_error": late, "model_obs_error": late / 2, "sample_age": late * 3},
        "ideal-mbpo": {"sample_age": late * 3},
    }
    results = [result(job, np.full(40, -100.0 - job.seed)) for job in jobs]
    results = [r._replace(record={**r.record, **own.get(r.job.agent, {})}) for r in results]
    table = ideal_mbpo.study.report(options, results).tables["table"]
    assert [row[3] for row in table.texts()[:4]] == [
        "-355 ± 2.57", "-843 ± 24.2", "-870 ± 56.4", "-377 ± 8.05",
    ]  # fmt: skip
    assert [list(row[6:]) for row in table.texts()[4:]] == [
        ["-", "-", "-"],
        ["25 %", "12.5 %", "75 %"],
        ["-", "-", "75 %"],
        ["-", "-", "-"],
    ]
    whole = ideal_mbpo.study.plan(IdealMbpoOptions(traces="3", agents="mbpo", seeds=1))
    assert whole[0].config["random_steps"] == 200_000
