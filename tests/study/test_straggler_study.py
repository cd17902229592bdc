"""The study of hedging policies: what it plans, and what it makes of records."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.straggler import study as straggler
from lcpo.straggler import timeouts as hedging
from lcpo.straggler.report import (
    WorkloadRuns,
    best_fixed,
    budget,
    hindsight,
    judge,
    make_report,
)
from lcpo.study import costs

HOUR = 7200
HOURS = 4
"""Of a pass."""


def result(agent: str, hours: list[float], seed: int = 0, workload: str = "workload-1") -> Result:
    """A run with these latencies in each hour of two passes, in rows of 5 minutes."""
    p95 = np.repeat(np.asarray(hours, float), 12)
    ends = 600 * np.arange(1, len(p95) + 2)  # a bucket is closed one bucket later
    buckets = np.append(0.0, np.ones(len(p95)))
    zero_first = np.append(0.0, p95)
    record = {
        "step": ends,
        "updates": np.ones(len(ends)),
        "total_buckets": buckets,
        "total_p95": zero_first,
        "total_p99": 2 * zero_first,
        "total_p999": 3 * zero_first,
        "total_first_ms": np.ones(len(ends)),
        "total_work_ms": np.full(len(ends), 1.1),
    }
    job = Job(
        agent, "straggler", None, 1.0, 2 * HOURS * HOUR, seed, {}, {"workload": workload},
        variant=Path(workload).stem,
    )  # fmt: skip
    return Result(job, "finished", None, record, 1.0, {}, Path())


def part() -> WorkloadRuns:
    first = [9.0] * HOURS
    runs = {
        "never-hedge": [result("never-hedge", [*first, 10, 10, 10, 10], s) for s in (0, 1)],
        "hedge-3ms": [result("hedge-3ms", [*first, 2, 6, 30, 40], s) for s in (0, 1)],
        "hedge-hourly": [result("hedge-hourly", [*first, 2, 6, 10, 10], s) for s in (0, 1)],
        "a2c": [result("a2c", [*first, 4, 8, 12, 10], s) for s in (0, 1)],
    }
    return WorkloadRuns("workload-1", HOURS * HOUR, 2, runs)


def test_what_is_made_of_records():
    found = part()
    assert best_fixed(found) == "never-hedge"
    mine = judge(found, found.groups["a2c"][0], "never-hedge")
    assert (mine.p95, mine.p99, mine.p999) == (8.5, 17.0, 25.5)
    assert mine.extra_load == pytest.approx(10.0)
    assert mine.worst_hour == pytest.approx(1.2)
    assert mine.worse_hours == 25.0
    assert mine.hours_until == 1  # hours 1 to 4: three of them are equal, one is better
    in_hindsight = hindsight(found)
    assert in_hindsight is not None
    assert in_hindsight.mean == 7.0
    runs = [r for group in found.groups.values() for r in group]
    report = make_report([found], runs, published=False)
    table = report.tables["table"]
    rows = {row[1]: dict(zip(table.header, row, strict=True)) for row in table.texts()}
    assert list(rows) == ["hedge-hourly", "a2c", "never-hedge (best fixed)", "hedge-3ms"]
    assert rows["a2c"]["of the way %"] == "50.0"
    assert rows["a2c"]["paper"] == "1716 ± 710"
    assert rows["hedge-3ms"]["minus best fixed"] == "+9.50 ± -"
    assert rows["never-hedge (best fixed)"]["of the way %"] == "-"
    assert "active %" not in table.header
    assert report.figures["figure"].png.startswith(b"\x89PNG")


def test_agents_are_compared_with_lcpo_seed_by_seed():
    found = part()
    mine = [[9.0] * HOURS + [4, 8, 12, 10 + 8 * seed] for seed in (0, 1)]  # means of 8.5 and 10.5
    groups = {**found.groups, "lcpo-med": [result("lcpo", mine[s], s) for s in (0, 1)]}
    groups["lcpo-med"] = [
        run._replace(job=dataclasses.replace(run.job, variant="med")) for run in groups["lcpo-med"]
    ]
    found = found._replace(groups=groups)
    runs = [r for group in groups.values() for r in group]
    table = make_report([found], runs, published=False).tables["pairs"]
    rows = {row[1]: dict(zip(table.header, row, strict=True)) for row in table.texts()}
    assert sorted(rows) == ["a2c", "hedge-hourly", "never-hedge"]  # no timeout that hedges
    assert {row["minus"] for row in rows.values()} == {"lcpo-med"}
    assert rows["a2c"]["p95"].startswith("-1.0")
    assert rows["a2c"]["p99.9"].startswith("-3.0")
    assert rows["a2c"]["lower p95 on"] == "1 of 2"  # 8.5 and 8.5 are no different
    assert rows["hedge-hourly"]["lower p95 on"] == "2 of 2"
    assert rows["never-hedge"]["p95"].startswith("+0.5")


def test_a_run_that_failed_is_counted():
    found = part()
    broken = found.groups["a2c"][1]._replace(status="failed")
    found = found._replace(groups={**found.groups, "a2c": [found.groups["a2c"][0], broken]})
    runs = [r for group in found.groups.values() for r in group]
    table = make_report([found], runs, published=False).tables["table"]
    (row,) = [row for row in table.texts() if row[1] == "a2c"]
    assert row[-1] == "1 of 2"


def test_what_is_counted_in_interactions_is_shortened():
    options = straggler.StragglerOptions(training_steps=straggler.report.TRAINING // 2)

    def values(agent: str) -> dict:
        return straggler.shortened(agent, options)

    assert values("lcpo") == {"rollout_length": 230}
    assert values("trpo") == {"rollout_length": 512}
    assert values("ppo") == {"rollout_length": 234}  # whole minibatches
    assert values("ddqn") == {
        "updates_per_rollout": 20, "random_steps": 6400, "epsilon_steps": 32_000,
    }  # fmt: skip
    assert values("mbcd")["threshold"] == 15_000.0
    assert values("prescient-ddqn")["random_steps"] == 256_000
    assert values("never-hedge") == {}
    own = straggler.StragglerOptions(scale="paper", shorten_agents=20.0)
    assert straggler.shortened("lcpo", own) == {"rollout_length": 230}


def planned(agents: str, **values: Any) -> dict[str, Job]:
    """The job of each agent on workload 1, by the agent's name."""
    options = straggler.StragglerOptions(
        agents=agents, seeds=1, workloads="workload-1", check=False, **values
    )
    return dict(zip(agents.split(","), straggler.plan_runs(options), strict=True))


def test_every_learner_has_the_same_share_of_the_papers_gradient_steps():
    """DDQN, SAC and EWC had 2.1 %, MBPO and MBCD 0.26 %, where LCPO had 85 %."""
    for name, job in planned(straggler.LEARNERS, passes=5).items():
        found = budget(job, job.steps)
        assert found is not None
        assert found.policy == pytest.approx(0.846, abs=0.015), name
        if name == "mbcd":
            assert found.model == pytest.approx(0.846, abs=0.015)
        elif name == "mbpo":  # its model takes too long: the row says so
            assert found.model == pytest.approx(0.0423, abs=0.0008)
        else:
            assert found.model is None
    for job in planned(straggler.PRESCIENT).values():
        found = budget(job, job.steps)
        assert found is not None
        assert found.policy == pytest.approx(1.25 if job.agent == "prescient-trpo" else 1.0)
    (rule,) = planned("hedge-cap").values()
    assert budget(rule, rule.steps) is None


def test_the_papers_gradient_steps_are_counted_by_hand():
    """Its runs have 20,736,000 interactions: 162,000 rollouts of 128, or 4500 of 4608."""
    job = planned("ddqn")["ddqn"]
    for steps, share in ((20_736_000 // 20, 1.0), (128 * 81, 0.01)):
        found = budget(job, steps)
        assert found is not None
        assert found.policy == pytest.approx(share)  # 20 gradient steps after each rollout
    own = dataclasses.replace(job, config={**job.config, "updates_per_rollout": 1})
    assert budget(own, 876_928) == (pytest.approx(6851 / 162_000), None)
    ppo = {**planned("ppo")["ppo"].config, "passes": 6}  # the paper's are 3
    assert costs.gradient_steps(ppo, 234) == (54, None)
    mbcd = planned("mbcd")["mbcd"].config
    assert costs.gradient_steps(mbcd, 128 * 100) == (100 * 20, 128 * 25)  # trained every 100


def test_fewer_gradient_steps_suit_slower_machines():
    half = straggler.StragglerOptions(replay_steps=10, model_trainings=3)
    assert straggler.shortened("sac", half)["updates_per_rollout"] == 10
    mbpo = straggler.shortened("mbpo", half)
    assert (mbpo["updates_per_rollout"], mbpo["model_batches"]) == (10, 15)
    # The past is averaged over as much of a run, whatever the number of steps.
    for options, rate in ((half, 2 * 7e-5), (straggler.StragglerOptions(), 7e-5)):
        found = straggler.shortened("online-ewc", options)["averaging_rate"]
        assert found == pytest.approx(rate)
    paper = straggler.StragglerOptions(scale="paper")
    assert straggler.shortened("sac", paper) == {"updates_per_rollout": 1}
    assert straggler.shortened("online-ewc", paper)["averaging_rate"] == 7e-5


def test_a_model_costs_what_its_own_gradient_steps_do():
    """Not as many times more as the policy takes steps: MBPO would have been put at hours a run."""
    jobs = planned("sac,mbpo,mbcd")
    sac, mbpo, mbcd = (costs.microseconds(jobs[name]) for name in ("sac", "mbpo", "mbcd"))
    model = costs.AGENT_US["mbpo"] - costs.AGENT_US["sac"]  # for a training per 200 interactions
    assert mbpo - sac == pytest.approx(model * 200 / 128)
    model = costs.AGENT_US["mbcd"] - costs.AGENT_US["sac"]
    assert mbcd - sac == pytest.approx(20 * model)  # trained every 100 interactions, not 2000


def test_the_recommended_setting_is_a_row():
    job = planned("lcpo-uniform-fast")["lcpo-uniform-fast"]
    assert job.agent == "lcpo-uniform"
    assert (job.config["c_anchor"], job.config["value_steps"]) == (1e-3, 5)
    assert job.config["detector"] == "everything"
    options = straggler.StragglerOptions(agents="lcpo-uniform-fast", workloads="workload-1")
    record = result("lcpo", [1.0] * 150).record
    run = Result(job, "finished", None, record, 1.0, {}, Path())
    table = straggler.make_report(options, [run]).tables["table"]
    assert table.texts()[0][1] == "lcpo-uniform-fast"


def test_the_table_says_each_share():
    """Of the steps that were run, which are the last of the record."""
    found = part()
    jobs = planned("sac,mbpo")
    names = {"a2c": None, "sac": jobs["sac"], "mbpo": jobs["mbpo"]}
    runs = {
        name: [replaced(found.groups["a2c"][0], job)] if job else found.groups[name]
        for name, job in names.items()
    }
    found = found._replace(groups={**found.groups, **runs})
    everything = [r for group in found.groups.values() for r in group]
    report = make_report([found], everything, published=False)
    table = report.tables["table"]
    rows = {row[1]: dict(zip(table.header, row, strict=True)) for row in table.texts()}
    # 58,200 windows: 454.7 rollouts of 128, each with 20 steps, and a training of a model.
    assert (rows["sac"]["budget %"], rows["sac"]["model %"]) == ("5.61", "-")
    assert (rows["mbpo"]["budget %"], rows["mbpo"]["model %"]) == ("5.61", "0.28")
    assert rows["never-hedge (best fixed)"]["budget %"] == "-"
    assert {"budget", "model_budget"} <= set(report.seeds.header)


def replaced(run: Result, job: Job) -> Result:
    """The run as one of another job."""
    return run._replace(job=dataclasses.replace(job, seed=run.job.seed))


def test_plan_and_report_agree_on_names(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hedging, "hourly_schedule", lambda *_, **__: (8,) * 23 + (3,))
    options = straggler.StragglerOptions(
        agents="lcpo-agg,lcpo-cons,hedge-hourly",
        seeds=1,
        setting="published",
        workloads="workload-1",
    )
    jobs = straggler.complete(options, straggler.plan_runs(options))
    assert jobs[2].config["schedule"] == [8] * 23 + [3]
    assert [j.config["sigma"] for j in jobs[:2]] == pytest.approx([math.sqrt(10), math.sqrt(14)])
    assert all(j.env_config["faults"] for j in jobs)
    assert jobs[0].steps == pytest.approx(6 * 24.4 * HOUR, rel=0.01)
    record = result("lcpo", [1.0] * 150).record
    runs = [Result(dataclasses.replace(j), "finished", None, record, 1.0, {}, Path()) for j in jobs]
    table = straggler.make_report(options, runs).tables["table"]
    assert sorted(row[1] for row in table.texts()) == ["hedge-hourly", "lcpo-agg", "lcpo-cons"]


def test_the_hourly_plan_is_made_on_other_seeds(monkeypatch: pytest.MonkeyPatch):
    """The best of nine timeouts on the judged runs themselves would be the luckiest, too."""
    played: list[int] = []

    def played_on(task: object, num_windows: int, seeds: Sequence[int], note: object) -> np.ndarray:
        played.extend(seeds)
        return np.ones((9, len(seeds), num_windows // hedging.BUCKET))

    monkeypatch.setattr(hedging, "fixed_latency", played_on)
    options = straggler.StragglerOptions(agents="hedge-hourly", seeds=20, workloads="workload-1")
    jobs = straggler.complete(options, straggler.plan_runs(options))
    assert played
    assert not set(played) & {job.seed for job in jobs}
