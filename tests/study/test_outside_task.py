"""A task that is no part of the library: what it brings reaches plans, costs and tables."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import lcpo
from lcpo.config import config, static
from lcpo.defaults import Defaults
from lcpo.envs import ENVS
from lcpo.envs.base import Advance
from lcpo.names import Registry
from lcpo.run.plan.plan import plan
from lcpo.run.store.record import Record
from lcpo.run.store.results import Result
from lcpo.study import costs
from lcpo.study.measure import compare
from lcpo.study.measure.measures import Measure
from lcpo.study.report import report
from lcpo.types import Array, ContextSlice, Spec, Step

ROOT = Path(lcpo.__file__).parent


def waste(record: Record, after_step: int) -> float:
    late = record["step"] > after_step
    return float(record["total_thrown"][late].sum() / record["total_made"][late].sum())


MEASURES = (Measure("waste", "waste %", waste, "made", "waste_share", factor=100.0),)


@config
class Bakery:
    """Bake as much as will be sold."""

    defaults: ClassVar[Defaults] = Defaults(
        microseconds=70.0,
        agents={
            "a2c": {"rollout_length": 50, "gamma": 0.5},
            "random": {"rollout_length": 50},
        },
    )
    measures: ClassVar[str] = f"{__name__}:MEASURES"
    shelf: int = static(3, "loaves", low=1)

    @property
    def spec(self) -> Spec:
        return Spec(1, ContextSlice(1, 0, 0), (3,), readings=("made", "thrown"))

    @property
    def advance(self) -> Advance:
        return "own"

    def reset(self, key: Array) -> tuple[tuple, Array]:
        del key
        return (), jnp.zeros(1)

    def step(self, state: tuple, action: Array, context: Array, key: Array) -> tuple[tuple, Step]:
        del action, context, key
        no = jnp.bool_(False)
        return state, Step(jnp.zeros(1), jnp.float32(0.0), no, no, readings=jnp.ones(2))


NAME = f"{__name__}:Bakery"


def runs(agent: str, thrown: float) -> list[Result]:
    ends = 50.0 * np.arange(1, 11)
    record = {
        "step": ends, "updates": np.ones(10), "epochs": np.zeros(10), "reward": np.zeros(10),
        "total_made": np.full(10, 4.0), "total_thrown": np.full(10, thrown),
    }  # fmt: skip
    jobs = plan(agent, NAME, trace=None, steps=500, seeds=2)
    return [Result(job, "finished", None, record, 1.0, {}, Path()) for job in jobs]


def test_its_settings_are_those_of_its_plans() -> None:
    a2c, variant, given = (
        plan(agent, NAME, trace=None, steps=500, seeds=1, overrides=values)[0].config
        for agent, values in (("a2c", {}), ("a2c-entropy", {}), ("a2c", {"gamma": 0.7}))
    )
    assert (a2c["rollout_length"], a2c["gamma"]) == (50, 0.5)
    assert (variant["rollout_length"], variant["entropy_coef"]) == (50, 0.03)
    assert given["gamma"] == 0.7


def test_its_steps_and_records_cost_what_it_says() -> None:
    job = runs("random", 0.0)[0].job
    assert costs.microseconds(job) == costs.OTHER_US + 70.0


def test_its_measures_are_columns() -> None:
    results = [*runs("random", 1.0), *runs("a2c", 3.0)]
    found = compare.summarise(results, warmup=0)
    table = report.to_table(found)
    at = list(table.header).index("waste %")
    assert [row[at] for row in table.texts()] == ["25.0 ± -", "75.0 ± -"]
    assert [row["waste_mean"] for row in table.records()] == [25.0, 75.0]
    assert report.seed_numbers(found, results[0])["waste_share"] == 0.25
    assert "latency_mean" not in table.records()[0]  # that of another task


def test_runs_that_did_not_record_it_have_no_such_number() -> None:
    """Imported ones, for instance."""
    results = [
        r._replace(record={k: v for k, v in r.record.items() if "total" not in k})
        for r in runs("random", 1.0)
    ]
    found = compare.summarise(results, warmup=0)
    assert "waste %" not in report.to_table(found).header
    assert "waste_share" not in report.seed_numbers(found, results[0])


def test_a_report_does_not_import_what_a_folder_names() -> None:
    results = [
        r._replace(job=dataclasses.replace(r.job, env="no.such.module:Bakery"))
        for r in runs("random", 1.0)
    ]
    assert not compare.summarise(results, warmup=0).measures


def test_a_registry_imports_an_entry_when_it_is_asked_for() -> None:
    found: Registry[Any] = Registry({"one": 1, "bakery": f"{__name__}:Bakery", "no": "nowhere:x"})
    assert list(found) == ["one", "bakery", "no"]
    assert "no" in found
    assert found["bakery"] is Bakery
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        found["no"]
    assert all(isinstance(ENVS[name], type) for name in ENVS)


REGISTRIES = {"agents/__init__.py", "envs/__init__.py", "study/paper/__init__.py", "moved.py"}


def test_only_the_registries_know_the_straggler_task() -> None:
    """It could have come from outside: nobody else names it, its rules, workloads or latencies."""
    words = re.compile("straggler|hedg|workload|latenc", re.IGNORECASE)
    named = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if "straggler" not in path.relative_to(ROOT).parts and words.search(path.read_text())
    }
    assert named <= REGISTRIES, f"{named - REGISTRIES}: let the task bring it (envs/base.py)"
