"""The seam between plans and engines, the events that cross it, and workers that misbehave."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import pytest
import rude_examples
from commands import run
from stopping import ignore

from lcpo.errors import InputError, RunError
from lcpo.run import events
from lcpo.run.drive import execute
from lcpo.run.engines import local, process
from lcpo.run.engines.engine import plan_only, run_plan
from lcpo.run.engines.local import LocalEngine, make_shares
from lcpo.run.engines.process import Share, WorkerProcess
from lcpo.run.events import Crashed, Event, Failed, Finished, Note, Progress, Report
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import plan
from lcpo.run.store.layout import lock_file, log_file
from lcpo.run.store.lock import locked
from lcpo.run.store.plans import planned_jobs
from lcpo.run.store.results import load_results

EVENTS = [
    Progress("a-s0", "run", 400, 200, -3.5),
    Finished("a-s0"),
    Failed("a-s0", "value_loss", "nan", 400, "training"),
    Crashed("a-s0", "world 0: [/data/x.csv] is gone", "Traceback"),
    Note("the folder cannot be locked"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_survive_json(event: Event) -> None:
    assert events.from_json(json.loads(json.dumps(events.to_json(event)))) == event


@pytest.mark.parametrize("text", ["3", "[]", "{}", '{"event": "x"}', '{"event": "note"}', "null"])
def test_what_is_no_event_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an event"):
        events.from_json(json.loads(text))


class Recorder:
    """An engine that only writes down what it is asked; it refuses more than two jobs."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def check(self, jobs: list[Job]) -> None:
        if len(jobs) > 2:
            raise InputError("at most two jobs at a time")

    def run(self, jobs: list[Job], out: Path, report: Report) -> None:
        assert {job.name for job in jobs} <= {job.name for job in planned_jobs(out)}
        with pytest.raises(InputError, match=f"in use by process {os.getpid()}"):
            run_plan(jobs, out, Recorder(), report, resume=True)
        self.asked += [job.name for job in jobs]
        for job in jobs:
            report(Finished(job.name))


SMALL = {"hidden": (4,), "rollout_length": 20}


def jobs_of(*seeds: int) -> list[Job]:
    return plan("a2c", "pendulum", trace="revisit", steps=40, seeds=seeds, overrides=SMALL)


def test_an_engine_is_given_what_has_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, engine, heard = tmp_path / "o", Recorder(), []
    run_plan(jobs_of(0, 1), out, engine, heard.append)
    assert heard == [Finished(job.name) for job in jobs_of(0, 1)]
    assert [path.name for path in out.iterdir()] == ["plan.json"]
    assert load_results(out) == [], "planned, and nothing has ended"
    execute.run_jobs(jobs_of(0), out, ignore, 60.0)
    heard.clear()
    execute.run_jobs(jobs_of(0), out, heard.append, 60.0)

    @contextlib.contextmanager
    def late(other: Path, names: list[str]) -> Iterator[set[str]]:
        """Another process has run it while a worker waited for its claim."""
        shutil.copytree(out, other)
        yield set(names)

    with monkeypatch.context() as patch:
        patch.setattr(execute, "claimed", late)
        execute.run_jobs(jobs_of(0), tmp_path / "other", heard.append, 60.0)
    assert heard == [Finished(jobs_of(0)[0].name)] * 2, "told, and not run again"
    engine.asked.clear()
    told: list[Job] = []
    run_plan(jobs_of(0, 1, 2), out, engine, ignore, resume=True, begin=told.extend)
    assert engine.asked == [job.name for job in jobs_of(1, 2)]
    assert told == jobs_of(1, 2)
    assert planned_jobs(out) == jobs_of(0, 1, 2)


def test_what_an_engine_refuses_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "new" / "o"
    with pytest.raises(InputError, match="at most two"):
        run_plan(jobs_of(0, 1, 2), out, Recorder(), ignore)
    assert not out.parent.exists()
    run_plan(jobs_of(0), out, Recorder(), ignore)
    with pytest.raises(InputError, match="already holds runs"):
        run_plan(jobs_of(0), out, Recorder(), ignore)


def test_a_folder_that_a_kill_left_is_used_again(tmp_path: Path) -> None:
    lock_file(tmp_path).write_text("")
    (tmp_path / ".0123456789abcdef.part").write_text("{")
    run_plan(jobs_of(0), tmp_path, Recorder(), ignore)
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("name", [".film.part", ".lock", ".running", "checkpoint"])
def test_what_looks_like_ours_and_is_not_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match="is not empty and was not written by lcpo"):
        run_plan(jobs_of(0), tmp_path, Recorder(), ignore)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


@pytest.mark.parametrize("start", [run_plan, plan_only])
def test_what_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Callable
) -> None:
    def begin(out: Path) -> None:
        if start is run_plan:
            run_plan(jobs_of(0), out, Recorder(), ignore)
        else:
            plan_only(jobs_of(0), out, pytest.fail, resume=False)

    (tmp_path / "file").write_text("mine")
    for out, expected in (
        (tmp_path / "file", "is a file: give another folder"),
        (tmp_path / "file" / "o", "is a file: give another folder"),
        (tmp_path / ("x" * 300), "cannot be a folder: File name too long"),
        (Path("/proc/o"), "cannot be written .No such file"),
    ):
        with pytest.raises(InputError, match=expected):
            begin(out)

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("lcpo.run.store.files.os.fsync", full)
    with pytest.raises(InputError, match=r"plan\.json cannot be written .No space left"):
        begin(tmp_path / "o")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def rude(manner: str, agent: str = "a2c") -> list[Job]:
    env = {"moves": "own", "manner": manner}
    return plan(
        agent, "rude_examples:Rude", trace=None, steps=400, seeds=[0], overrides=SMALL,
        env_overrides=env, variant=manner or "quiet",
    )  # fmt: skip


@pytest.fixture
def examples_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By other processes, too."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


@pytest.mark.learn
@pytest.mark.usefixtures("examples_are_found")
def test_workers_that_misbehave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers, six runs: one is loud, four break in a way each, one must not suffer."""
    monkeypatch.setattr(process, "MOST_DEATHS", 1)
    loud, raises, exits, closes, quiet, dies = jobs = [
        rude("talks", "rude_examples:loud")[0],
        *(rude(manner)[0] for manner in ("raises", "exits", "closes", "", "dies")),
    ]
    heard: list[Event] = []
    run_plan(jobs, tmp_path, LocalEngine(workers=2), heard.append)
    assert {e.job for e in heard if isinstance(e, Finished)} == {
        loud.name, closes.name, quiet.name
    }  # fmt: skip
    told = {e.job: e.reason for e in heard if isinstance(e, Crashed)}
    logs = {str(path): path.read_text() for path in (tmp_path / "logs").iterdir()}
    file = rude_examples.__file__
    assert told[raises.name].startswith(
        "world 0: step raised OSError: [/data/x.csv] is gone, at step 3 "
    )
    assert told[exits.name].startswith("SystemExit: 3 ")
    for job in (raises, exits):
        where = told[job.name].split(" (")[-1].split(")")[0]
        assert Path(where.split(":")[0]).resolve() == Path(file)
        assert where.endswith(" in misbehave")
    assert told[dies.name].startswith("its worker ended with exit code 7; see ")
    for job in (raises, exits, dies):
        assert job.name in logs[told[job.name].split("; see ")[1]], "the log that is named"
    notes = [e.text for e in heard if isinstance(e, Note)]
    again = [text for text in notes if text.startswith("retry from the last checkpoint")]
    assert [dies.name in text for text in again] == [True] * process.MOST_DEATHS
    (note,) = set(notes) - set(again)
    assert note.startswith(f"after {closes.name} ended: OSError: the door is jammed (")
    everything = "".join(logs.values())
    for text in (
        "python prints", "written to descriptor 1", "a child speaks", "no answer", "jax prints",
        "[red]for ever", "its last words", "in misbehave",
    ):  # fmt: skip
        assert text in everything
    assert quiet.name in everything
    assert load_results(tmp_path, [quiet])[0].status == "finished"
    assert not lock_file(tmp_path).exists()


def test_a_run_that_breaks_in_this_process(tmp_path: Path) -> None:
    """It is told in the same words; when it breaks again, the log goes on."""
    raises, quiet = jobs = [*rude("raises"), *rude("")]
    heard: list[Event] = []
    run_plan(jobs, tmp_path, LocalEngine(workers=0), heard.append)
    assert [e.job for e in heard if isinstance(e, Finished)] == [quiet.name]
    (crash,) = [e for e in heard if isinstance(e, Crashed)]
    assert crash.job == raises.name
    assert crash.reason.endswith(f"in misbehave); see {log_file(tmp_path, None)}")
    run_plan(jobs, tmp_path, LocalEngine(workers=0), lambda event: None, resume=True)
    assert log_file(tmp_path, None).read_text().count("\n[red]for ever\n") == 2


@pytest.mark.learn
@pytest.mark.usefixtures("examples_are_found")
def test_standard_output_of_a_worker_is_events_alone(tmp_path: Path) -> None:
    """Alone on a bare machine. It holds the lock; a log of its driver's is not its business."""
    plan_only([*rude("talks", "rude_examples:loud"), *rude("raises")], tmp_path, pytest.fail, False)
    command = [sys.executable, "-m", "lcpo.run.worker", str(tmp_path / "plan.json"), "--trust"]
    with locked(tmp_path, pytest.fail):
        refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert f"is in use by process {os.getpid()}" in refused.stderr
    done = subprocess.run(command, capture_output=True, text=True, input="1 2")
    assert done.returncode == 1
    heard = [events.from_json(json.loads(line)) for line in done.stdout.splitlines()]
    assert [type(e) for e in heard if not isinstance(e, Progress)] == [Finished, Crashed]
    for text in ("python prints", "written to descriptor 1", "a child speaks", "jax prints"):
        assert text in done.stderr
    assert not (tmp_path / "logs").exists()


def fake_workers(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Processes that run a shell script instead of a worker."""
    file = folder / "fake"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setattr(process.sys, "executable", str(file))


FAKES = {
    "garbled": ("echo hi; exec sleep 600", "its worker printed a line that is not an event: hi"),
    "no event": ("echo '{}'; exec sleep 600", "its worker printed a line that is not an event: {}"),
    "half a line": ("printf '{\"event\"'", "its worker ended with exit code 0"),
    "silent": ("exit 3", "its worker ended with exit code 3"),
    "signal": ("kill -9 $$", "its worker was ended by SIGKILL, perhaps because the system"),
    "heir": ("$HEIR & exit 4", "its worker ended with exit code 4"),
}
# It lives until it is told to end, and long enough to tell a driver that waits for it by its mark.
HEIR = """(for i in $(seq 1200); do test -e {folder}/end && exit; sleep 0.1; done
touch {folder}/outlived)"""


@pytest.mark.parametrize("name", FAKES)
def test_a_worker_that_cannot_be_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whatever a worker says or leaves behind, its driver comes to an end and tells."""
    script, expected = FAKES[name]
    fake_workers(tmp_path, monkeypatch, script.replace("$HEIR", HEIR.format(folder=tmp_path)))
    monkeypatch.setattr(process, "_LAST_WORDS_SECONDS", 0.5)
    out, heard, threads = tmp_path / "o", [], threading.active_count()
    with pytest.raises(RuntimeError, match=r"not started, because no worker is left: .*-s1"):
        run_plan(jobs_of(0, 1), out, LocalEngine(workers=1), heard.append)
    assert not (tmp_path / "outlived").exists(), "it waited for a child process of its worker"
    (tmp_path / "end").touch()
    *notes, crash = heard
    assert [type(note) for note in notes] == [Note] * process.MOST_DEATHS
    assert crash.reason.startswith(expected)
    assert crash.reason.endswith(f"; see {log_file(out, 0)}")
    assert jobs_of(0)[0].name in log_file(out, 0).read_text()
    if name != "heir":
        assert threading.active_count() == threads, "a thread waits for ever"


def test_a_reader_that_breaks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(descriptor: int) -> None:
        raise OSError("Input/output error")

    fake_workers(tmp_path, monkeypatch, "exec sleep 600")
    monkeypatch.setattr(process, "read_events", broken)
    heard: list[Event] = []
    run_plan(jobs_of(0), tmp_path / "o", LocalEngine(workers=1), heard.append)
    crash = heard[-1]
    assert isinstance(crash, Crashed)
    assert crash.reason.startswith("its worker cannot be read: Input/output error; see ")


def test_a_report_that_raises_leaves_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"
    note = json.dumps(events.to_json(Note("hello")))
    fake_workers(tmp_path, monkeypatch, f"echo $$ > {pid}; echo '{note}'; exec sleep 600")

    def report(event: Event) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_plan(jobs_of(0), tmp_path / "o", LocalEngine(workers=1), report)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert [path.name for path in (tmp_path / "o").iterdir()] == ["plan.json"], "no empty log"


def test_a_worker_that_cannot_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process.sys, "executable", str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"a worker process cannot be started \(No such file"):
        run_plan(jobs_of(0), tmp_path / "o", LocalEngine(workers=1), ignore)


@pytest.mark.learn
def test_the_second_of_two_drivers_is_refused_and_ctrl_c_stops_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, small = tmp_path / "o", ["--hidden", "4", "--rollout-length", "20", "--seeds", "2"]
    same = ["train", "--agent", "a2c", "--trace", "revisit", *small, "--out", str(out)]
    same += ["--steps", "3000000", "--checkpoint-seconds", "0"]
    command = [sys.executable, "-m", "lcpo.cli", *same]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:
        until, saved = time.monotonic() + 60.0, "runs/*/checkpoint/manifest.json"
        while len(list(out.glob(saved))) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        assert run(*same, "--resume") == 2
        refused = capsys.readouterr().err
        assert f"{out} is in use by process {process.pid} since " in refused
        assert "lcpo.cli train --agent a2c" in refused
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for worker in children:  # a terminal sends it to all; the driver decides what follows
            os.kill(int(worker), signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, shown = process.communicate(timeout=30)
    assert process.returncode == 130
    last = shown.splitlines()[-1]
    assert last.startswith("stopped: saved at step")
    assert last.endswith(
        f" of 3,000,000 for 2 runs; to continue, run `lcpo train --resume --out {out}`"
    )
    assert shown.count("stopped:") == 1, "no run has crashed"
    assert sorted(path.name for path in out.iterdir()) == ["plan.json", "runs"]


def test_a_worker_that_dies_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run kills each of its workers; the second one must not suffer."""
    monkeypatch.setattr(process, "MOST_DEATHS", 1)
    first, second = (job.name for job in jobs_of(0, 1))
    begun = json.dumps(events.to_json(Progress(first, "run", 20, 0, 0.0)))
    ended = json.dumps(events.to_json(Finished(second)))
    script = f"read n; if [ $n = 0 ]; then echo '{begun}'; kill -9 $$; fi; echo '{ended}'"
    fake_workers(tmp_path, monkeypatch, f'{script}; echo \'{{"event": "idle"}}\'; exec sleep 600')
    heard: list[Event] = []
    run_plan(jobs_of(0, 1), tmp_path / "o", LocalEngine(workers=1), heard.append)
    assert [type(e) for e in heard] == [Progress, Note, Progress, Crashed, Finished]
    expected = f"(1 of at most 1 times): {first}: its worker was ended by SIGKILL"
    assert [expected in e.text for e in heard if isinstance(e, Note)] == [True]


def test_a_full_disk_ends_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crash = json.dumps(events.to_json(Crashed(jobs_of(0)[0].name, "full", no_space=True)))
    fake_workers(tmp_path, monkeypatch, f"echo '{crash}'; exec sleep 600")
    with pytest.raises(RunError, match=r"no space is left for .*o: free some"):
        run_plan(jobs_of(0, 1), tmp_path / "o", LocalEngine(workers=1), lambda event: None)
    assert [path.name for path in (tmp_path / "o").iterdir()] == ["plan.json"]


def test_what_shares_a_program_is_cut_in_as_many_parts_as_there_are_gpus() -> None:
    jobs = jobs_of(0, 1, 2)
    assert make_shares(jobs, 2) == [[job] for job in jobs]
    assert make_shares(jobs, 2, on_gpus=True) == [[jobs[0], jobs[2]], [jobs[1]]]


@pytest.mark.learn
def test_programs_beside_each_other_on_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker for each program, all of whose runs are one share; memory must be left for them."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")  # the workers find a CPU
    others = plan("ppo", "pendulum", trace="revisit", steps=40, seeds=[0], overrides=SMALL)
    jobs, out = [*jobs_of(0, 1), *others], tmp_path / "o"
    with pytest.raises(InputError, match=f"set {local.PREALLOCATE}=false, and start NVIDIA's MPS"):
        run_plan(jobs, out, LocalEngine(workers=2), ignore)
    assert planned_jobs(out) == []
    monkeypatch.setenv(local.PREALLOCATE, "false")
    fed: list[int] = []

    class Watched(WorkerProcess):
        def feed(self, share: Share) -> None:
            fed.append(len(share))
            super().feed(share)

    monkeypatch.setattr(local, "WorkerProcess", Watched)
    heard: list[Event] = []
    run_plan(jobs, out, LocalEngine(workers=2), heard.append)
    assert {e.job for e in heard if isinstance(e, Finished)} == {job.name for job in jobs}
    assert fed == [2, 1]
