"""The lock of an output folder: one driver at a time, and nothing left behind."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from lcpo.errors import InputError
from lcpo.run.store import lock
from lcpo.run.store.layout import lock_file
from lcpo.run.store.lock import locked


def test_held_by_one_and_left_by_nobody(tmp_path: Path) -> None:
    out = tmp_path / "a" / "o"
    with locked(out, pytest.fail):
        with pytest.raises(InputError, match=f"{out} is in use by process {os.getpid()} since 20"):
            locked(out, pytest.fail).__enter__()
        with locked(tmp_path / "other", pytest.fail):
            pass
        assert lock_file(out).exists(), "the second one must not remove the first one's"
    assert list(tmp_path.iterdir()) == [], "what was made and is empty is removed"
    with locked(out, pytest.fail):
        (out / "plan.json").write_text("{}")
    assert list(out.iterdir()) == [out / "plan.json"]


def test_a_file_that_a_kill_left_is_taken_over(tmp_path: Path) -> None:
    lock_file(tmp_path).write_text('{"pid": 1, "host": "elsewhere", "since": "then"}')
    with locked(tmp_path, pytest.fail):
        assert f'"pid": {os.getpid()}' in lock_file(tmp_path).read_text()


def test_a_file_that_its_holder_removes_meanwhile_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder lets go between our look at the file and our lock of it: there are two files."""
    flock, calls = lock._flock, []

    def slow(descriptor: int, shared: bool) -> None:
        if not calls:
            lock_file(tmp_path).unlink()
        calls.append(descriptor)
        flock(descriptor, shared)

    monkeypatch.setattr(lock, "_flock", slow)
    with locked(tmp_path, pytest.fail):
        assert len(calls) == 2
        with pytest.raises(InputError, match="is in use"):
            locked(tmp_path, pytest.fail).__enter__()


# A driver that is killed, with a child process of a kind, which lives for 1.5 seconds.
DRIVER = """
import os, signal, subprocess, sys, time
from pathlib import Path
from lcpo.run.store import lock
out, kind = Path(sys.argv[1]), sys.argv[2]
with lock.locked(out, print):
    if kind == "worker":
        subprocess.Popen(["sleep", "1.5"], pass_fds=[lock.descriptor_of(out)])
    elif kind == "fork":
        if os.fork() == 0:
            time.sleep(1.5)
            os._exit(0)
    else:
        os.set_inheritable(lock.descriptor_of(out), True)  # as it is in a worker that is started
        lock.inherit(out, lock.descriptor_of(out))
        subprocess.Popen(["sleep", "1.5"], close_fds=False)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kind", ["worker", "fork", "child"])
def test_a_driver_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Its workers hold the lock until they end; child processes of environments never do."""
    killed = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path), kind], stdout=subprocess.DEVNULL
    )
    killed.wait()
    began = time.monotonic()
    if kind == "worker":
        with monkeypatch.context() as patient:
            patient.setattr(lock, "ORPHANS_SECONDS", 0.3)
            with pytest.raises(InputError, match=f"what process {killed.pid} left running"):
                locked(tmp_path, pytest.fail).__enter__()
    with locked(tmp_path, pytest.fail):
        waited = time.monotonic() - began
    assert (waited > 1.0) == (kind == "worker")


def test_another_host_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its process lives cannot be known from here: no waiting."""
    with locked(tmp_path, pytest.fail):
        monkeypatch.setattr(lock.socket, "gethostname", lambda: "here")
        with pytest.raises(InputError, match=rf"process {os.getpid()} on .+ since"):
            locked(tmp_path, pytest.fail).__enter__()


def test_a_folder_that_cannot_be_locked_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    for patch in (("fcntl", None), ("_flock", no_locks)):
        with monkeypatch.context() as patched:
            patched.setattr(lock, *patch)
            notes: list[str] = []
            with locked(tmp_path / "o", notes.append):
                assert not lock_file(tmp_path / "o").exists()
            assert len(notes) == 1
            assert "o cannot be locked (" in notes[0]
    assert list(tmp_path.iterdir()) == []


def test_many_at_once(tmp_path: Path) -> None:
    """Threads that come and go: never two at a time, whoever makes or removes file and folder."""
    inside, most, wins, errors = 0, 0, 0, []

    def work() -> None:
        nonlocal inside, most, wins
        for _ in range(150):
            try:
                with locked(tmp_path / "o", pytest.fail):
                    inside += 1
                    most = max(most, inside)
                    wins += 1
                    time.sleep(0)
                    inside -= 1
            except InputError as error:
                if "is in use" not in str(error):
                    errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert most == 1
    assert wins > 10
    assert not lock_file(tmp_path / "o").exists()
