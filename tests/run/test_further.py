"""A run that has ended goes on for more steps: as if it had never ended, or not at all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import QUICK, run
from host_examples import Drift
from stopping import assert_same_results

import lcpo
from lcpo.errors import InputError
from lcpo.run.drive import group
from lcpo.run.engines.base import run_plan
from lcpo.run.engines.local import LocalEngine
from lcpo.run.plan.plan import plan
from lcpo.run.store import segments

SMALL = {"hidden": [4], "rollout_length": 20}
CASES: dict[str, dict[str, Any]] = {
    "a2c": {"trace": "revisit"},
    "ddqn": {"trace": "revisit", "config": {"batch_size": 8, "random_steps": 40}},
    "simulator": {"env": Drift(moves="own"), "trace": None},
}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of two updates, so that runs of both lengths have the same program."""
    monkeypatch.setattr(group, "CHUNK_UPDATES", 2)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 1000)


def case_of(name: str) -> dict[str, Any]:
    case = {
        "agent": "a2c" if name == "simulator" else name,
        "seeds": 2,
        "workers": 0,
        **CASES[name],
    }
    return {**case, "progress": False, "config": {**SMALL, **case.get("config", {})}}


@pytest.mark.parametrize("name", CASES)
def test_it_goes_on_as_if_it_had_never_ended(name: str, tmp_path: Path) -> None:
    """The longer run has the sizes of the shorter one: what depends on the steps is pinned."""
    case, out = case_of(name), tmp_path / "parts"
    first = lcpo.train(**case, steps=160, out=out, keep_state=True)
    assert list(out.glob("runs/*/state/manifest.json"))
    second = lcpo.train(**case, steps=320, out=out, resume=True)
    assert [result.job.steps for result in second] == [320, 320]
    assert [result.job.config for result in second] == [result.job.config for result in first]
    whole = tmp_path / "whole"
    jobs = [result.job for result in second]
    run_plan(jobs, whole, LocalEngine(0), lambda event: None)
    for kept in out.glob("runs/*/state"):
        shutil.rmtree(kept)
    assert_same_results(whole, out)


def test_the_plan_of_the_folder_is_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "o")
    words = ["--agent", "a2c", "--trace", "revisit", "--seeds", "1", "--out", out, *QUICK]
    assert run("train", *words, "--steps", "160", "--keep-state") == 0
    assert run("train", "--resume", "--out", out, "--steps", "330", "--workers", "0") == 0
    told = capsys.readouterr().err
    assert "1 run(s) go on from 160 to 320 steps; sizes that depend on the steps stay" in told
    (job,) = json.loads((tmp_path / "o" / "plan.json").read_text())["jobs"]
    assert job["steps"] == 320
    assert run("train", "--resume", "--out", out, "--steps", "200") == 2
    assert "has 320 already; give more, or another folder" in capsys.readouterr().err
    assert run("train", "--resume", "--out", str(tmp_path / "none")) == 2
    assert "holds no plan to go on with" in capsys.readouterr().err
    assert run("compare", "--resume", "--out", out, "--workers", "0") == 0
    assert (tmp_path / "o" / "table.md").exists()


def test_an_unfinished_run_gets_more_steps(tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def report(event: Any) -> None:
        if getattr(event, "step", 0) == 120:
            raise Enough

    case = {"trace": "revisit", "seeds": [0], "overrides": SMALL}
    shorter = plan("a2c", "pendulum", steps=160, **case)
    with pytest.raises(Enough):
        run_plan(shorter, tmp_path / "o", LocalEngine(0, checkpoint_seconds=0.0), report)
    longer = plan("a2c", "pendulum", steps=320, **case)
    steps: list[int] = []
    hear = lambda event: steps.append(getattr(event, "resumed_at", 80))  # noqa: E731
    run_plan(longer, tmp_path / "o", LocalEngine(0), hear, resume=True)
    assert set(steps) == {80}
    run_plan(longer, tmp_path / "whole", LocalEngine(0), lambda event: None)
    assert_same_results(tmp_path / "whole", tmp_path / "o")


def test_what_cannot_go_on_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    np.save("wind.npy", rows[:200])
    case: dict[str, Any] = {**case_of("a2c"), "seeds": 1, "trace": "wind.npy"}
    lcpo.train(**case, steps=160, out="lost")
    with pytest.raises(
        InputError, match="its buffers and worlds were not kept: to go on, a run nee"
    ):
        lcpo.train(**case, steps=200, out="lost", resume=True)
    lcpo.train(**case, steps=160, out="kept", keep_state=True)
    with pytest.raises(InputError, match="has 200 rows, the run needs 240"):
        lcpo.train(**case, steps=240, out="kept", resume=True)
    np.save("wind.npy", rows)
    with pytest.raises(InputError, match=r"the rows of trace 'wind\.npy' have changed since"):
        lcpo.train(**case, steps=240, out="kept", resume=True)
    np.save("wind.npy", rows[:200])
    other = {**case, "config": {**case["config"], "gamma": 0.5}}
    with pytest.raises(InputError, match=r"config\.gamma: there 0\.99, now 0\.5"):
        lcpo.train(**other, steps=200, out="kept", resume=True)
    assert [r.job.steps for r in lcpo.train(**case, steps=200, out="kept", resume=True)] == [200]


def test_a_plan_that_names_other_code_needs_trust(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o"
    lcpo.train(**{**case_of("simulator"), "seeds": 1}, steps=160, out=out)
    assert run("train", "--resume", "--out", str(out), "--workers", "0") == 2
    assert "say --trust if you trust both" in capsys.readouterr().err
    assert run("train", "--resume", "--out", str(out), "--workers", "0", "--trust") == 0
