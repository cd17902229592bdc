"""Warnings for a learner that ends below a baseline, or makes few updates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lcpo.run.plan.plan import plan
from lcpo.run.store.results import Result
from lcpo.study.advice.learned import learning_warnings
from lcpo.study.measure.compare import summarise


def ended(agent: str, value: float, steps: int = 69_000, active: float | None = None) -> Result:
    """A run with this return throughout."""
    (job,) = plan(agent, "pendulum", trace="iid", steps=steps, seeds=1)
    rows = 3
    updates = job.steps // job.config["rollout_length"]
    record: dict[str, Any] = {
        "step": job.steps * np.arange(1, rows + 1) // rows,
        "updates": np.full(rows, updates / rows),
        "epochs": np.ones(rows, np.int64),
        "epoch_return": np.full(rows, value),
    }
    if active is not None:
        for name in ("constraint_active", "step_fraction", "anchor_kl"):
            record[name] = np.full(rows, active)
    return Result(job, "finished", None, record, 1.0, {}, Path("nowhere"))


def told(*results: Result) -> list[str]:
    return learning_warnings(summarise(results, warmup=0), results)


def test_a_learner_below_a_baseline_is_told() -> None:
    """The home battery: 345 updates, and doing nothing is better."""
    lcpo = ended("lcpo", -9.0, active=0.997)
    (text,) = told(lcpo, ended("constant:0", -8.0), ended("random", -10.0))
    assert text == (
        "lcpo: its return after warm-up (-9) is below that of constant:0 (-8), which learns "
        "nothing, and it makes only 345 updates (500 are a minimum), and the constraint is active "
        "in 99.7 % of them. Try rollout_length = 50 (now 200), c_anchor = 0.001 (now 0.0001), "
        "value_steps = 10 (now 1), or at least 138,000 steps"
    )
    long = [ended(agent, value, 200_000) for agent, value in (("lcpo", -9.0), ("random", -8.0))]
    (text,) = told(*long)
    assert "below that of random (-8)" in text
    assert "updates (" not in text
    assert "c_anchor" not in text, "it is not known to be active"


def test_a_learner_above_the_baselines_is_not() -> None:
    steps = 100_000
    good = ended("lcpo", -7.0, steps, active=0.997)
    assert told(good, ended("constant:0", -8.0, steps), ended("random", -10.0, steps)) == []
    assert told(good) == []


def test_few_updates_are_told_with_the_comparison_to_make() -> None:
    (text,) = told(ended("lcpo", -9.0, active=0.2))
    assert text.startswith("lcpo: it makes only 345 updates (500 are a minimum). Try rollout_")
    assert text.endswith("do not learn: lcpo compare --agents lcpo,constant:0,random")
    assert "constraint" not in text


def test_advice_names_fields_that_the_agent_has() -> None:
    (text,) = told(ended("sac", -9.0))
    assert "updates_per_rollout = 10 (now 1)" in text
    assert "value_steps" not in text
    assert told(ended("ppo", -9.0)) == [], "it takes thirty steps after each rollout"
    assert told(ended("random", -9.0, 400), ended("constant:1", -8.0, 400)) == []
