"""Ctrl-C and SIGTERM: runs are saved at the end of their chunk, and what is told is true."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from commands import run
from host_examples import Drift
from stopping import assert_same_results

import lcpo
from lcpo.run import events, stop
from lcpo.run.drive import group
from lcpo.run.engines import engine, local
from lcpo.run.plan.plan import plan

SMALL = {"config": {"hidden": [4], "rollout_length": 20}, "trace": "revisit", "steps": 400}
ALIKE: dict[str, Any] = {"agent": "a2c", "workers": 0, "progress": False, **SMALL}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of two updates; a second signal is one at once."""
    monkeypatch.setattr(group, "CHUNK_UPDATES", 2)
    monkeypatch.setattr(stop, "SAME_SECONDS", -1.0)


def signals_at(monkeypatch: pytest.MonkeyPatch, step: int, *numbers: signal.Signals) -> None:
    """Send signals to this process when a run has come to a step."""
    told = group.Group._progress

    def progress(self: group.Group, phase: Any, update: int) -> None:
        told(self, phase, update)
        if phase.step_at(update) == step:
            for number in numbers:
                os.kill(os.getpid(), number)

    monkeypatch.setattr(group.Group, "_progress", progress)


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.learn), signal.SIGTERM]
)
def test_a_signal_saves_and_says_so(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lcpo.train(**ALIKE, seeds=2, out=tmp_path / "whole")
    with monkeypatch.context() as patch:
        signals_at(patch, 120, number)
        with pytest.raises(KeyboardInterrupt) as told:
            lcpo.train(**ALIKE, seeds=2, out=tmp_path / "cut")
    assert str(told.value) == (
        "saved at step 120 of 400 for 1 run; "
        "nothing is saved for 1 run: not started, or still compiling"
    )
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, "as before"
    assert not stop.asked.is_set()
    assert run("train", "--resume", "--out", str(tmp_path / "cut"), "--workers", "0") == 0
    assert_same_results(tmp_path / "whole", tmp_path / "cut")


def test_the_second_signal_ends_at_once_and_says_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    signals_at(monkeypatch, 120, signal.SIGINT, signal.SIGINT)
    command = ["train", "--agent", "a2c", "--trace", "revisit", "--steps", "400", "--seeds", "1"]
    command += ["--hidden", "4", "--rollout-length", "20", "--workers", "0"]
    assert run(*command, "--out", str(tmp_path / "o")) == 130
    shown = capsys.readouterr().err.splitlines()[-1]
    assert shown == (
        "stopped: nothing is saved for 1 run: not started, or still compiling; lost: up to 120 "
        "steps of a run, since its last checkpoint; to continue, run "
        f"`lcpo train --resume --out {tmp_path}/o`"
    )


@pytest.mark.learn
def test_a_slow_simulator_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops between two updates of a chunk, and goes on there."""
    monkeypatch.setattr(group, "CHUNK_UPDATES", 250)
    alike = {**ALIKE, "env": Drift(moves="own"), "seeds": 2, "trace": None}
    lcpo.train(**alike, out=tmp_path / "whole")
    from lcpo.run.drive import host

    with monkeypatch.context() as patch:
        update = host.HostDriver._update

        def asks(self: Any, state: Any, number: int) -> Any:
            if number == 6:
                os.kill(os.getpid(), signal.SIGTERM)
            return update(self, state, number)

        patch.setattr(host.HostDriver, "_update", asks)
        with pytest.raises(KeyboardInterrupt, match="saved at step 140 of 400 for 2 runs"):
            lcpo.train(**alike, out=tmp_path / "cut")
    lcpo.train(**alike, out=tmp_path / "cut", resume=True)
    assert_same_results(tmp_path / "whole", tmp_path / "cut")


def test_workers_are_asked_to_save_and_those_that_compile_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two fake workers: one has said how far it is, the other has said nothing."""
    jobs = plan("a2c", "pendulum", trace="revisit", steps=400, seeds=3)
    progress = json.dumps(events.to_json(events.Progress(jobs[0].name, "run", 40, 0, 0.0)))
    script = tmp_path / "worker"
    script.write_text(
        f"#!/bin/sh\nread n\nif [ $n = 0 ]; then echo '{progress}'; read word;"
        f" echo $word > {tmp_path}/asked; exit 130; fi\necho $$ > {tmp_path}/silent;"
        " exec sleep 600\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr("lcpo.run.engines.process.sys.executable", str(script))

    def report(event: events.Event) -> None:
        silent = tmp_path / "silent"
        while not silent.exists() or not silent.read_text().strip():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(stop.Asked):
        engine.run_plan(jobs, tmp_path / "o", local.LocalEngine(workers=2), report)
    assert (tmp_path / "asked").read_text() == "stop\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "silent").read_text()), 0)


@pytest.mark.learn
def test_a_plain_worker_saves_too(tmp_path: Path) -> None:
    """SIGTERM, as a queue sends it before the time is over."""
    out = tmp_path / "o"
    plain = ["train", "--agent", "a2c", "--trace", "revisit", "--steps", "3000000", "--seeds", "1"]
    plain += ["--hidden", "4", "--rollout-length", "20", "--out", str(out), "--plan-only"]
    assert run(*plain) == 0
    command = [sys.executable, "-m", "lcpo.run.worker", str(out / "plan.json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"progress" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, shown = process.communicate(timeout=60)
    assert process.returncode == 130
    last = shown.decode().splitlines()[-1]
    assert last.startswith("stopped: saved at step ")
    assert last.endswith(" of 3,000,000 for 1 run; the same command resumes")
    assert list(out.glob("runs/*/checkpoint/manifest.json"))
