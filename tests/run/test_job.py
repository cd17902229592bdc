"""A run's identity: fields that its name is made of, and jobs that were stored without them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcpo.errors import InputError
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import plan

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "plain": ({}, "a2c-pendulum-revisit-s0"),
    "faster": ({"trace": "revisit@0.01"}, "a2c-pendulum-revisit@1_100-s0"),
    "drawn": ({"trace": "family:drift:7"}, "a2c-pendulum-family.drift.7-s0"),
    "columns": ({"trace": "mine.npy[1, 2]+hold"}, "a2c-pendulum-mine.npy[1, 2]+hold-s0"),
    "sweep": (
        {"sweep": {"hidden": [(8, 8)], "gamma": [0.9]}},
        "a2c-pendulum-revisit-hidden=(8, 8)-gamma=0.9-s0",
    ),
    "variant": ({"variant": "sigma2=0.5"}, "a2c-pendulum-revisit-sigma2=0.5-s0"),
    "setting": (
        {"published": True, "name_setting": True},
        "a2c-pendulum-revisit-published-s0",
    ),
    "all": (
        {"variant": "nb=25", "published": True, "name_setting": True, "sweep": {"gamma": [1e-05]}},
        "a2c-pendulum-revisit-nb=25-published-gamma=1e-05-s0",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_name_is_made_of_fields(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders keep the names that they had; an earlier version stored nothing else of identity."""
    monkeypatch.chdir(tmp_path)
    np.save("mine.npy", np.zeros((9, 2), np.float32))
    given, name = CASES[case]
    (job,) = plan("a2c", "pendulum", **{"trace": "revisit", "steps": 400, "seeds": 1, **given})
    assert job.name == name
    stored = job.to_json()
    assert Job.from_json(stored, "plan.json") == job
    before = {k: v for k, v in stored.items() if k not in ("variant", "setting", "point")}
    assert Job.from_json(before, "plan.json") == job


def test_settings_that_make_a_name_too_long_become_a_fingerprint() -> None:
    """Else agents with many settings could not run. Tables name them in full."""
    given = {
        name: [1e-4] for name in ("learning_rate", "value_learning_rate", "max_grad_norm", "lam")
    } | {"hidden": [(101,) * 30, (101,) * 31]}
    jobs = plan("a2c", "pendulum", trace="revisit", steps=400, seeds=2, sweep=given)
    assert len({job.name for job in jobs}) == 4
    for job in jobs:
        assert re.fullmatch(r"a2c-pendulum-revisit-[0-9a-f]{12}-s[01]", job.name)
        assert "max_grad_norm=0.0001" in job.label
        assert Job.from_json(job.to_json(), "plan.json") == job
    with pytest.raises(InputError, match="needs at most 240"):
        plan("a2c", "pendulum", trace="revisit", steps=400, seeds=1, variant="x" * 240)


def test_a_name_that_does_not_fit_is_refused() -> None:
    (job,) = plan("a2c", "pendulum", trace="revisit", steps=400, seeds=1)
    for changed in ({"seed": 1}, {"name": "mine-s0"}, {"trace": "3"}):
        with pytest.raises(InputError, match="but its fields make"):
            Job.from_json({**job.to_json(), **changed}, "plan.json")
