"""Commands without output or a current folder, on a narrow terminal; and what is checked first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import run
from each import for_each

from lcpo.errors import InputError
from lcpo.run.plan.check import check_agent
from lcpo.run.plan.job import Setup
from lcpo.run.store.plans import save_plan
from lcpo.straggler import study as straggler
from lcpo.straggler import timeouts
from lcpo.study import paper
from lcpo.study.folder import save_study

PLANNED = ["train", "--agent", "a2c", "--trace", "revisit", "--steps", "40", "--seeds", "1",
           "--hidden", "4", "--rollout-length", "20"]  # fmt: skip


def in_shell(line: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A line of the shell, in which "$@" is a command of Python's."""
    command = ["sh", "-c", line, "sh", sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("closed", "words", "code"),
    [(">&-", ["list"], 0), ("<&- >&- 2>&-", ["train", "--nope"], 2)],
    ids=["output", "all"],
)
def test_closed_streams_are_empty_ones(closed: str, words: list[str], code: int) -> None:
    """As it was found: `lcpo list >&-` gave a traceback, and so did a worker."""
    told = in_shell(f'"$@" {closed}', "-m", "lcpo.cli", *words)
    assert (told.returncode, told.stderr) == (code, "")


@pytest.mark.learn
def test_a_worker_without_output_runs_its_plan(tmp_path: Path) -> None:
    out = tmp_path / "o"
    assert run(*PLANNED, "--out", str(out), "--plan-only") == 0
    told = in_shell('"$@" <&- >&-', "-m", "lcpo.run.worker", str(out / "plan.json"))
    assert (told.returncode, told.stderr) == (0, "")
    assert list(out.glob("runs/*/manifest.json"))


@for_each("columns", ["1", "5", "1000000000"])
def test_help_comes_to_an_end_on_any_terminal(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it was found: with one column it never did."""
    monkeypatch.setenv("COLUMNS", columns)
    assert run("check-env", "pendulum", "--help") == 0
    shown = capsys.readouterr().out
    assert "--env.num-bins" in shown
    assert len(shown) < 10**5


GONE = {
    "slurm": [*PLANNED, "--engine", "slurm", "--out", "ABSOLUTE"],
    "ray": [*PLANNED, "--engine", "ray", "--out", "ABSOLUTE"],
    "relative": [*PLANNED, "--out", "o"],
    "default": PLANNED,
    "plan only": [*PLANNED, "--plan-only", "--out", "o"],
    "plan of a study": ["reproduce", "theorem", "--plan", "o"],
    "study": ["reproduce", "theorem"],
}


@pytest.mark.parametrize("name", GONE)
def test_a_current_folder_that_was_deleted_is_told(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    words = [str(tmp_path / "o") if word == "ABSOLUTE" else word for word in GONE[name]]
    assert run(*words) == 2
    assert "the current folder was deleted (No such file or directory)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def no_plan(options: Any) -> Any:
    pytest.fail("the runs were planned before the folder was looked at")


@pytest.mark.parametrize("name", ["windy", "straggler"])
def test_a_study_looks_at_its_folder_before_it_plans(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it was found: `reproduce windy --collect nope` took 21 seconds to say so."""
    study = paper.find_study(name)
    monkeypatch.setitem(paper.STUDIES, name, study._replace(plan=no_plan))
    (tmp_path / "file").touch()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").touch()
    save_plan(tmp_path / "other", [])
    save_study(tmp_path / "other", "theorem", paper.find_study("theorem").Options())

    def refused(*words: str) -> str:
        assert run("reproduce", name, *words) == 2
        return " ".join(capsys.readouterr().err.split())

    def at(folder: str) -> str:
        return str(tmp_path / folder)

    assert "nope holds no runs: give the folder that --plan" in refused("--collect", at("nope"))
    assert "other holds another study" in refused("--collect", at("other"))
    for flag in ("--plan", "--out"):
        assert "file is a file" in refused(flag, at("file"))
        assert "mine is not empty and was not written by" in refused(flag, at("mine"))
        assert "other holds another study" in refused(flag, at("other"))
        assert "other already holds runs" in refused(flag, at("other"), "--no-resume")


def test_the_hours_are_simulated_when_all_else_is_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As it was found: minutes of simulation, and then a refusal."""
    asked: list[object] = []
    monkeypatch.setattr(timeouts, "hourly_schedule", lambda task, *_, **__: asked.append(task))
    words = ["--scale", "1/400", "--seeds", "1", "--plan", str(tmp_path / "plan")]
    wrong = "hedge-hourly,no.such.module:agent"
    assert run("reproduce", "straggler", "--agents", wrong, *words) == 2
    assert "no.such.module" in capsys.readouterr().err
    assert asked == []


def test_a_plan_whose_hours_are_not_simulated_cannot_be_run() -> None:
    options = straggler.StragglerOptions(
        agents="hedge-hourly", scale="1/400", seeds=1, workloads="workload-1"
    )
    (job,) = straggler.plan_runs(options)
    setup = Setup(job)
    with pytest.raises(InputError, match="no schedule"):
        check_agent(setup.agent, setup.config, setup.spec)
