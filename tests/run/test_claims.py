"""Several workers on one folder: no run is run by two at once, or again."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lcpo.errors import InputError
from lcpo.run.drive import execute
from lcpo.run.events import Crashed, Event
from lcpo.run.plan.plan import plan
from lcpo.run.store import lock
from lcpo.run.store.layout import lock_file, running_file, runs_folder
from lcpo.run.store.lock import claimed, locked
from lcpo.run.worker import read_part

HOLDER = """
import sys
from pathlib import Path
from lcpo.run.store.lock import claimed
with claimed(Path(sys.argv[1]), sys.argv[2:]) as mine:
    print(*sorted(mine), flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def held(out: Path, *names: str) -> Iterator[subprocess.Popen]:
    """Another process has claimed runs."""
    command = [sys.executable, "-c", HOLDER, str(out), *names]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline().split() == sorted(names)
        yield process


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "ORPHANS_SECONDS", 0.3)


def test_a_run_is_claimed_by_one_process(tmp_path: Path) -> None:
    with held(tmp_path, "a", "b") as other:
        with claimed(tmp_path, ["a", "c"]) as mine:
            assert mine == {"c"}
        assert running_file(tmp_path).exists(), "the other one has claims in it"
        lock.sweep_claims(tmp_path)
        assert running_file(tmp_path).exists()
        other.kill()
        other.wait()
        with claimed(tmp_path, ["a", "c"]) as mine:
            assert mine == {"a", "c"}
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_removed_meanwhile_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last user removes it between our look at it and our lock: there are two files."""
    claim, calls = lock._claim, []

    def slow(descriptor: int, name: str | None) -> bool:
        if not calls:
            running_file(tmp_path).unlink()
        calls.append(name)
        return claim(descriptor, name)

    monkeypatch.setattr(lock, "_claim", slow)
    with claimed(tmp_path, ["a"]) as mine:
        assert mine == {"a"}
        assert running_file(tmp_path).exists()


def test_a_run_of_another_process_is_left_to_it(tmp_path: Path) -> None:
    (job,) = plan("a2c", "pendulum", trace="revisit", steps=400, seeds=[0])
    heard: list[Event] = []
    with held(tmp_path, job.name):
        execute.run_jobs([job], tmp_path, heard.append, 60.0)
    assert heard == [Crashed(job.name, "another process is running it: wait for it, or stop it")]
    assert not runs_folder(tmp_path).exists()


def test_parts_share_the_folder_and_keep_drivers_out(tmp_path: Path) -> None:
    with locked(tmp_path, pytest.fail, shared=True):
        with locked(tmp_path, pytest.fail, shared=True):
            pass
        with pytest.raises(InputError, match="is in use by process"):
            locked(tmp_path, pytest.fail).__enter__()
    with locked(tmp_path, pytest.fail), pytest.raises(InputError, match="is in use by process"):
        locked(tmp_path, pytest.fail, shared=True).__enter__()  # the file they left is taken over
    assert not lock_file(tmp_path).exists()


def test_the_parts_of_a_plan_are_all_of_it() -> None:
    jobs = list(range(11))
    parts = [jobs[read_part(f"{k}/4") or slice(0)] for k in (1, 2, 3, 4)]
    assert sorted(itertools.chain(*parts)) == jobs
    assert {len(part) for part in parts} == {2, 3}
    for text in ("", "0/4", "5/4", "1", "1/0", "-1/4", "a/b"):
        with pytest.raises(InputError, match="needs K/N"):
            read_part(text)
