"""The discretisation table, the published setting, and the paper's numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lcpo.agents import AGENTS, a2c, lcpo, tabular_q
from lcpo.agents.presets import published
from lcpo.cli.main import main
from lcpo.config import published_faults
from lcpo.envs.pendulum import Pendulum
from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result, load_results
from lcpo.study.paper import discretisation
from lcpo.study.report import paper_numbers


def test_published_is_all_faults() -> None:
    assert published(a2c.agent, "pendulum") == {"faults": ("truncation-leaks",)}
    assert set(published(lcpo.agent, "pendulum")["faults"]) >= {
        "truncation-leaks",
        "add-before-sample",
    }
    assert published(tabular_q.agent, "pendulum") == {}
    assert published_faults(Pendulum) == {}
    for agent in AGENTS.values():
        agent.config(**published(agent, "pendulum"))


def test_paper_numbers_are_as_printed() -> None:
    def printed(*where: str, variant: str = "") -> str:
        return str(paper_numbers.printed(*where, variant=variant))

    assert printed("discretisation", "a2c", "pendulum", variant="discrete-15") == "-165 ± 5"
    assert printed("discretisation", "trpo", "pendulum", variant="sb3-rl-zoo") == "-224"
    assert printed("gym-all", "lcpo", "pendulum", "4") == "-378 ± 3.02"
    assert printed("gym-all", "nobody", "pendulum", "4") == "None"
    assert len(paper_numbers.read_table("gym-all")) == 320
    with pytest.raises(ValueError, match="did you mean 'gym-all'"):
        paper_numbers.read_table("gym-al")


def result(agent: str, steps_per_update: int, steps: int = 2_000_000) -> Result:
    """A run whose return is the number of the epoch of 200 steps in which an update ended."""
    step = np.arange(steps_per_update, steps + 1, steps_per_update)
    job = Job(agent, "pendulum-v1", None, 1.0, steps, 0, {}, {})
    columns = {"step": step, "epochs": np.ones(len(step), int), "epoch_return": step / 200}
    return Result(job, "finished", None, columns, 1.0, {}, Path())


def test_the_epochs_that_count() -> None:
    """8001 to 8999; TRPO's have 3200 steps, and those count that end in the same stretch."""
    assert discretisation.late_return(result("a2c", 200)) == np.arange(8001, 9000).mean()
    assert discretisation.late_return(result("trpo", 3200)) == 16 * np.arange(501, 563).mean()


def test_reproduce(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out = tmp_path / "o"
    command = ["reproduce", "discretisation", "--agents", " a2c,", "--seeds", "2",
               "--scale", "1/500", "--out", str(out), "--workers", "0"]  # fmt: skip
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "-165 ± 5" in shown
    assert "truncation-leaks" in shown
    assert main(command) == 0
    for suffix in ("txt", "md", "tex", "csv"):
        assert "a2c" in (out / f"table.{suffix}").read_text(encoding="utf-8")
    assert {r.job.config["faults"][0] for r in load_results(out)} == {"truncation-leaks"}
    assert main([*command, "--setting", "corrected"]) == 2
    assert "setting: there 'published', now 'corrected'" in capsys.readouterr().err
