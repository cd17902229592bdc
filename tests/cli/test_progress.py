"""What is shown of runs while they run: words of others are shown as they are."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from commands import run

from lcpo.cli.progress import RunProgress
from lcpo.run.events import Crashed, Failed, Note, Progress
from lcpo.run.plan.plan import plan

WORDS = "[/data/x.csv] is gone [red]:warning:[/] " + "word " * 40 + "end"


@pytest.mark.parametrize("terminal", [False, True])
def test_words_of_others_are_no_marks(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    (job,) = plan("a2c", "pendulum", trace="revisit", steps=400, seeds=[0])
    jobs = [dataclasses.replace(job, variant="[/]", seed=i) for i in range(3)]
    with RunProgress(jobs) as bar:
        assert bar.console.is_terminal == terminal
        bar(Note(WORDS))
        names = [job.name for job in jobs]
        bar(Progress(names[2], "[/phase]", 100, 0, 1.5))
        bar(Crashed(names[0], WORDS, "Traceback"))
        bar(Failed(names[1], "[/loss]", "nan", 200, "run"))
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    problems = [
        f"{names[0]} stopped: {WORDS}", f"{names[1]} stopped: [/loss] is nan at step 200",
    ]  # fmt: skip
    assert bar.problems == problems
    for line in (f"note: {WORDS}", *problems):
        assert line in shown, "one line, nothing eaten"
    assert "([/phase])" in shown


def test_the_name_of_a_trace_is_no_mark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "[").mkdir()
    np.save(tmp_path / "[" / "x].npy", np.zeros((500, 1), np.float32))
    name = str(tmp_path / "[" / "x].npy")
    assert run("trace", name, "--out", str(tmp_path / "t.png")) == 0
    assert name in capsys.readouterr().out


def test_the_clock_starts_after_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour until the first chunk, then a second for each: the rest takes three."""
    now = [0.0]
    monkeypatch.setattr("lcpo.cli.progress.time.monotonic", lambda: now[0])
    (job,) = plan("a2c", "pendulum", trace="revisit", steps=1000, seeds=[0])
    with RunProgress([job], show=False) as bar:
        notes = [bar.bar.tasks[0].fields["note"]]
        for seconds, step in ((3600.0, 200), (3601.0, 400)):
            now[0] = seconds
            bar(Progress(job.name, "run", step, 0, 1.5))
            notes.append(bar.bar.tasks[0].fields["note"])
    assert notes == ["compiling", "running, return 1.5", "200 steps/s, 0:03 left, return 1.5"]


def test_runs_that_ended_before_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of four runs are on disk: the time left is that of the fourth alone."""
    now = [0.0]
    monkeypatch.setattr("lcpo.cli.progress.time.monotonic", lambda: now[0])
    jobs = plan("a2c", "pendulum", trace="revisit", steps=1000, seeds=range(4))
    with RunProgress(jobs, show=False) as bar:
        bar.begin(jobs[3:])
        for seconds, step in ((10.0, 200), (11.0, 400)):
            now[0] = seconds
            bar(Progress(jobs[3].name, "run", step, 0, 1.5))
        (task,) = bar.bar.tasks
        assert (task.completed, task.total) == (3400, 4000)
        assert task.fields["note"] == "200 steps/s, 0:03 left, return 1.5"
