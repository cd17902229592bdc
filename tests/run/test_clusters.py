"""Engines of clusters: a real one of Ray's with two nodes, and what a script for Slurm runs."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import run
from killing import files, tables

from lcpo.errors import InputError
from lcpo.run.engines import clusters
from lcpo.run.engines.clusters import RayEngine, _Tasks
from lcpo.run.engines.engine import make_engine
from lcpo.run.engines.process import serve
from lcpo.run.events import Crashed, Event, Finished, Note, Progress, to_json
from lcpo.run.options import RunOptions

ROOT = Path(__file__).parents[2]
STUDY = [
    "compare", "--env", "grid-world", "--agents", "tabular-q,tabular-a2c", "--seeds", "2",
    "--checkpoint-seconds", "0", "--steps",
]  # fmt: skip
has_ray = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not has_ray, reason="Ray is not installed: pip install 'lcpo[ray]'")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "lcpo.cli", *STUDY, *arguments]


@pytest.mark.parametrize(
    ("name", "address", "expected"),
    [
        ("rey", None, "unknown engine 'rey': did you mean 'ray'"),
        ("local", "1.2.3.4:5", "address '1.2.3.4:5' is for Ray clusters"),
        ("slurm", "1.2.3.4:5", "address '1.2.3.4:5' is for Ray clusters"),
    ],
)
def test_what_is_no_engine(name: str, address: str | None, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        make_engine(RunOptions(engine=name, address=address))


def test_ray_that_is_not_installed_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert run(*STUDY, "200", "--engine", "ray", "--out", str(tmp_path / "o")) == 2
    assert "pip install 'lcpo[ray]'" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_a_task_tells_how_its_worker_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be on a machine that does not see the folder, too."""
    how: dict[str, Any] = {"digest": "", "checkpoint_seconds": 60.0}
    (said,) = serve({"a-s0": 0}, tmp_path, tmp_path, **how)
    assert said["event"] == "crashed"
    assert f"cannot access {tmp_path}: give a folder" in said["reason"]
    (tmp_path / "plan.json").write_text("{}")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    (said,) = serve({"a-s0": 0}, tmp_path, tmp_path, **how)
    assert said["died"].startswith("its worker ended with exit code 1 on ")


class Lost(Exception):
    pass


class TaskError(Lost):
    pass


class FakeRay:
    """Tasks whose messages are known before; an exception among them is raised."""

    exceptions = types.SimpleNamespace(RayError=Lost, RayTaskError=TaskError)

    def __init__(self) -> None:
        self.cancelled: list[Any] = []

    def wait(self, streams: list[Any], **how: Any) -> tuple[list[Any], list[Any]]:
        return streams, []

    def get(self, message: Any) -> Any:
        if isinstance(message, Exception):
            raise message
        return message

    def cancel(self, stream: Any, force: bool) -> None:
        assert force
        self.cancelled.append(stream)


def test_tasks_that_are_lost_are_begun_again() -> None:
    """A worker dies, its machine is lost, and then the run finishes; another one cannot be run."""
    said = {
        "a-s0": [
            [to_json(Progress("a-s0", "run", 20, 0, 0.0)), {"died": "it ended"}],
            [Lost("Node is gone. More about it.")],
            [to_json(Finished("a-s0"))],
        ],
        "b-s0": [[TaskError("no module")]],
    }
    heard: list[Event] = []
    tasks = _Tasks(FakeRay(), lambda share: iter(said[next(iter(share))].pop(0)), heard.append)
    tasks.run([{"a-s0": 0}, {"b-s0": 1}], 1)
    assert [type(event) for event in heard] == [Progress, Note, Note, Finished, Crashed]
    texts = [event.text for event in heard if isinstance(event, Note)]
    assert texts[0].endswith("(1 of at most 3 times): a-s0: it ended")
    assert texts[1].endswith("(2 of at most 3 times): a-s0: its task was lost: Lost: Node is gone")
    assert said == {"a-s0": [], "b-s0": []}


def test_what_stops_the_driver_cancels_its_tasks() -> None:
    def report(event: Event) -> None:
        raise KeyboardInterrupt

    ray, message = FakeRay(), to_json(Note("hello"))
    tasks = _Tasks(ray, lambda share: iter([message]), report)
    with pytest.raises(KeyboardInterrupt):
        tasks.run([{"a-s0": 0}, {"b-s0": 1}], 2)
    assert len(ray.cancelled) == 2


@pytest.mark.learn
@needs_ray
@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense", "ray://127.0.0.1:1"])
def test_a_cluster_that_is_not_there_is_told_soon(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "HEALTH_SECONDS", 5.0)
    monkeypatch.setitem(sys.modules, "ray", type(sys)("ray"))
    monkeypatch.setattr(sys.modules["ray"], "is_initialized", lambda: False, raising=False)
    with pytest.raises(InputError, match=f"no Ray cluster answers at {address}"):
        RayEngine(address).check([])


@contextlib.contextmanager
def started(*command: str, **more: Any) -> Iterator[subprocess.Popen]:
    """A process that is ended with the test."""
    with subprocess.Popen(command, text=True, **more) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def two_nodes() -> Iterator[subprocess.Popen]:
    """The process of `two_nodes.py`."""
    script = str(ROOT / "tests" / "support" / "two_nodes.py")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with started(sys.executable, script, env=env, **pipes) as cluster:
        try:
            yield cluster
        finally:
            cluster.communicate(timeout=60)  # it ends its nodes


@pytest.mark.learn
@needs_ray
def test_a_study_on_two_nodes_of_which_one_dies(tmp_path: Path) -> None:
    """Its tables and files are those of this machine alone."""
    here, there, steps = tmp_path / "here", tmp_path / "there", "600000"
    subprocess.run(command(steps, "--out", str(here)), check=True, capture_output=True)
    with two_nodes() as cluster:
        assert cluster.stdin is not None
        assert cluster.stdout is not None
        address = cluster.stdout.readline().strip()
        on_cluster = command(steps, "--out", str(there), "--engine", "ray", "--address", address)
        with started(*on_cluster, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as study:
            running: list[Path] = []
            while len(running) < 2:  # at the same time: one on each node, which has one core
                running = list(there.glob("runs/*/checkpoint"))  # a run that has ended has none
                assert study.poll() is None
                time.sleep(0.02)
            cluster.stdin.write("kill\n")
            cluster.stdin.flush()
            assert cluster.stdout.readline() == "killed\n"
            _, shown = study.communicate(timeout=300)
    assert study.returncode == 0, shown
    assert "retry from the last checkpoint (1 of at most 3 times)" in shown
    assert tables(there) == tables(here)
    assert files(there) == files(here)
    assert len(files(there)) == 8


@pytest.mark.learn
def test_an_array_of_slurms(tmp_path: Path) -> None:
    """All its tasks at once; then the same command reports what they made."""
    out, steps = tmp_path / "o", "20000"
    planned = subprocess.run(
        command(steps, "--out", str(out), "--engine", "slurm", "--workers", "2"),
        capture_output=True, text=True,
    )  # fmt: skip
    assert planned.returncode == 0, planned.stderr
    script = (out / "slurm.sh").read_text()
    assert script in planned.stdout
    assert "#SBATCH --array=1-2\n" in script
    assert f"sbatch {out / 'slurm.sh'}" in planned.stderr
    array = ["bash", str(out / "slurm.sh")]
    tasks = [{**os.environ, "SLURM_ARRAY_TASK_ID": number} for number in ("1", "2")]
    with started(*array, env=tasks[0]) as first, started(*array, env=tasks[1]) as second:
        assert [first.wait(), second.wait()] == [0, 0]
    subprocess.run(command(steps, "--out", str(out), "--engine", "slurm", "--resume"), check=True)
    subprocess.run(command(steps, "--out", str(tmp_path / "here")), check=True)
    assert tables(out) == tables(tmp_path / "here")
    assert files(out) == files(tmp_path / "here")
    assert not list(out.glob(".[lr]*")), "no lock is left"


# The disk is full when the first run saves its record.
FULL = """
import errno, os, sys
from lcpo.run import worker
from lcpo.run.store import files

def full(descriptor):
    raise OSError(errno.ENOSPC, "No space left on device")

files.os.fsync = full
sys.exit(worker.main([sys.argv[1], "--part", "1/1"]))
"""


@pytest.mark.learn
def test_a_worker_on_a_full_disk_stops_at_once(tmp_path: Path) -> None:
    run(*STUDY, "2000", "--out", str(tmp_path / "o"), "--engine", "slurm")
    plan = tmp_path / "o" / "plan.json"
    done = subprocess.run([sys.executable, "-c", FULL, str(plan)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "error: no space is left for " in done.stderr
    assert done.stdout.count('"crashed"') == 1, "the other runs were not begun"
