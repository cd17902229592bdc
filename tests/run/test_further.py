"""A run that has ended goes on for more steps: as if it had never ended, or not at all."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run
from host_examples import Drift
from stopping import assert_same_results

import lcpo
from lcpo.errors import InputError
from lcpo.run import further
from lcpo.run.drive import group
from lcpo.run.engines.engine import run_plan
from lcpo.run.engines.local import LocalEngine
from lcpo.run.plan.agents import plan_agents
from lcpo.run.plan.job import Setup
from lcpo.run.plan.plan import plan
from lcpo.run.store import plans, segments
from lcpo.run.store.files import save_document

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


LONGER = [pytest.param(name, marks=pytest.mark.learn) for name in ("ddqn", "simulator")]


@pytest.mark.parametrize("name", ["a2c", *LONGER])
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
    words = ["--agent", "a2c", "--trace", "revisit", "--seeds", "1", "--out", out]
    words += ["--hidden", "4", "--rollout-length", "20", "--workers", "0"]
    assert run("train", *words, "--steps", "160", "--keep-state") == 0
    assert run("train", "--resume", "--out", out, "--steps", "330", "--workers", "0") == 0
    told = capsys.readouterr().err
    assert "extending 1 run(s) from 160 to 320 steps; sizes that depend on the steps keep" in told
    (job,) = json.loads((tmp_path / "o" / "plan.json").read_text())["jobs"]
    assert job["steps"] == 320
    assert run("train", "--resume", "--out", out, "--steps", "200") == 2
    assert "has 320; give --steps 320 or more, or give another folder" in capsys.readouterr().err
    assert run("train", "--resume", "--out", str(tmp_path / "none")) == 2
    assert "holds no plan to resume" in capsys.readouterr().err
    assert run("compare", "--resume", "--out", out, "--workers", "0") == 0
    assert (tmp_path / "o" / "table.md").exists()


def words_of(out: Path, *more: str) -> list[str]:
    """A run of LCPO, whose reservoir is 1 % of its steps; 1,010 are no whole number of updates."""
    words = ["--agent", "lcpo", "--trace", "revisit", "--seeds", "1", "--out", str(out)]
    return ["train", *words, "--hidden", "4", "--rollout-length", "100", "--workers", "0", *more]


def jobs_in(out: Path) -> list[dict[str, Any]]:
    return json.loads((out / "plan.json").read_text())["jobs"]


@pytest.mark.learn
def test_a_continuation_is_repeated_and_extended_with_its_own_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reservoir stays as it was planned first: no later command may take that as a change."""
    out = tmp_path / "o"
    assert run(*words_of(out, "--steps", "1010", "--keep-state")) == 0
    for steps in ("2000", "2000", "3000"):
        assert run(*words_of(out, "--steps", steps, "--resume")) == 0, capsys.readouterr().err
        (job,) = jobs_in(out)
        assert (job["steps"], job["sized_for"]) == (int(steps), 1010)
        assert job["config"]["buffer_size"] == 10
    assert run(*words_of(out, "--steps", "3000", "--resume", "--buffer-size", "30")) == 2
    assert "config.buffer_size: there 10, now 30" in capsys.readouterr().err
    assert run(*words_of(out, "--steps", "2000", "--resume")) == 2
    assert "has 3,000; give --steps 3000 or more, or give another folder" in capsys.readouterr().err
    more = words_of(out, "--steps", "3000", "--resume", "--plan-only")
    more[more.index("--seeds") + 1] = "2"
    assert run(*more) == 0
    old, new = jobs_in(out)
    assert new == {**old, "seed": 1, "name": new["name"]}, "sized as those beside it"


def test_agents_that_round_their_steps_differently_are_resumed_together(tmp_path: Path) -> None:
    make = functools.partial(
        plan_agents, "lcpo[rollout_length=100],prescient-a2c", "pendulum", trace="revisit",
        training_steps=3200, seeds=1,
    )  # fmt: skip
    plans.save_plan(tmp_path, make(steps=1000))
    again = further.resumed(make(steps=1010), tmp_path, 1010, lambda n: make(steps=n), pytest.fail)
    assert again == plans.planned_jobs(tmp_path)


def test_a_folder_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    """Its plan does not say from how many steps the sizes were computed: from all of them."""
    out = tmp_path / "o"
    assert run(*words_of(out, "--steps", "1000", "--plan-only")) == 0
    jobs = [{k: v for k, v in job.items() if k != "sized_for"} for job in jobs_in(out)]
    save_document(out / "plan.json", plans.SCHEMA, {"out": ".", "jobs": jobs})
    for steps in ("1000", "2000"):
        assert run(*words_of(out, "--steps", steps, "--resume", "--plan-only")) == 0
    assert (jobs_in(out)[0]["steps"], jobs_in(out)[0]["config"]["buffer_size"]) == (2000, 10)


@pytest.mark.parametrize("again", ["command", "python"])
def test_a_comparison_goes_on_for_more_steps(again: str, tmp_path: Path) -> None:
    out, agents = tmp_path / "o", "lcpo[hidden=[4],rollout_length=100]"
    kwargs: dict[str, Any] = {"trace": "revisit", "seeds": 1, "out": out, "workers": 0}
    lcpo.compare(agents, **kwargs, steps=1000, keep_state=True, progress=False)
    for _ in range(2):
        if again == "python":
            lcpo.compare(iter([agents]), **kwargs, steps=2000, resume=True, progress=False)
        else:
            assert run("compare", "--agents", agents, "--trace", "revisit", "--seeds", "1", "--out",
                       str(out), "--workers", "0", "--steps", "2000", "--resume") == 0  # fmt: skip
        (job,) = jobs_in(out)
        assert (job["steps"], job["config"]["buffer_size"]) == (2000, 10)


ASIDE = {
    "published": ["compare", "--published"],
    "agents": ["compare", "--agents", "a2c,ppo"],
    "seeds alone": ["compare", "--seeds", "3"],
    "agent": ["train", "--agent", "ppo", "--trace", "revisit", "--steps", "400"],
    "trace": ["train", "--agent", "a2c", "--trace", "4", "--steps", "400"],
    "environment": ["train", "--agent", "a2c", "--env", "probe-two-contexts", "--steps", "400"],
    "sweep": [
        "train",
        "--agent",
        "a2c",
        "--trace",
        "revisit",
        "--steps",
        "400",
        "--sweep",
        "gamma=0.9,1",
    ],
}
SAME = ["train", "--agent", "a2c", "--trace", "revisit", "--hidden", "4", "--rollout-length", "20"]
CHANGED = {
    "config": (["--steps", "40", "--gamma", "0.5"], "config.gamma: there 0.99, now 0.5"),
    "scale": (["--steps", "40", "--scale", "0.25"], "scale: there "),
    "env config": (["--steps", "40", "--env.max-steps", "30"], "env_config.max_steps: there 200"),
    "normalise": (["--steps", "40", "--normalise", "running"], "normalise: there None, now"),
    "fewer steps": (["--steps", "20"], "has 40; give --steps 40 or more"),
}  # fmt: skip


def refused(out: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    before = (out / "plan.json").read_bytes()
    capsys.readouterr()
    assert run(*words, "--resume", "--out", str(out), "--workers", "0") == 2
    assert (out / "plan.json").read_bytes() == before
    return capsys.readouterr().err


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan of four runs."""
    out = tmp_path_factory.mktemp("four") / "o"
    assert run(*SAME, "--steps", "40", "--seeds", "4", "--out", str(out), "--plan-only") == 0
    return out


@pytest.mark.parametrize("name", ASIDE)
def test_a_resume_adds_no_runs_that_are_not_in_the_plan(
    name: str, four: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it was found: `compare --resume --published` added 12 runs of another trace."""
    told = refused(four, capsys, *ASIDE[name])
    assert f"{four} holds a2c-pendulum-revisit, and no " in " ".join(told.split())
    assert "for other runs, give another folder" in " ".join(told.split())


@pytest.mark.parametrize("name", CHANGED)
def test_more_seeds_of_a_resume_have_the_settings_of_the_others(
    name: str, four: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, expected = CHANGED[name]
    assert expected in " ".join(refused(four, capsys, *SAME, "--seeds", "7,8", *words).split())


def test_a_resume_without_steps_does_not_extend_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--agent", "a2c", "--trace", "4", "--seeds", "1", "--out", str(tmp_path)]
    assert run(*words, "--steps", "400", "--plan-only") == 0
    told = refused(tmp_path, capsys, *words[:-2])
    assert "steps = 8,000,000: a2c-pendulum-4-s0 in" in told
    assert "has 400; give --steps 400 or more" in told


def test_what_python_resumes_is_in_the_plan_too(four: Path) -> None:
    with pytest.raises(InputError, match="holds a2c-pendulum-revisit, and no"):
        lcpo.compare(trace="4", steps=400, out=four, resume=True, workers=0, progress=False)
    with pytest.raises(InputError, match="holds a2c-pendulum-revisit, and no lcpo-pendulum-4"):
        lcpo.train(trace="4", steps=400, out=four, resume=True, workers=0, progress=False)


def test_a_trace_that_repeats_serves_steps_that_are_no_whole_updates(tmp_path: Path) -> None:
    """The digest is that of the rows of the run, which are rounded down to whole updates."""
    file = tmp_path / "wind.npy"
    np.save(file, np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32))
    case = {"overrides": SMALL, "seeds": 1}
    (job,) = plan("a2c", "pendulum", trace=f"{file}+repeat", steps=170, **case)
    assert (job.steps, len(Setup(job).trace())) == (160, 160)


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
    with pytest.raises(InputError, match="finished without --keep-state"):
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
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "o"
    lcpo.train(**{**case_of("simulator"), "seeds": 1}, steps=160, out=out)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    assert run("train", "--resume", "--out", str(out), "--workers", "0") == 2
    assert "pass --trust (in Python: trust=True)" in capsys.readouterr().err
    assert run("train", "--resume", "--out", str(out), "--workers", "0", "--trust") == 0
