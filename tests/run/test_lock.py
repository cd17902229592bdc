"""The lock of an output folder: one driver at a time, and nothing left behind."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

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


# A driver that is killed, with a child process of a kind, which lives as long as its standard input
# is open.
DRIVER = """
import os, signal, subprocess, sys
from pathlib import Path
from lcpo.run.store import lock
out, kind = Path(sys.argv[1]), sys.argv[2]
with lock.locked(out, print):
    if kind == "worker":
        subprocess.Popen(["cat"], pass_fds=[lock.descriptor_of(out)])
    elif kind == "child":
        os.set_inheritable(lock.descriptor_of(out), True)  # as it is in a worker that is started
        lock.inherit(out, lock.descriptor_of(out))
        subprocess.Popen(["cat"], close_fds=False)
    elif os.fork() == 0:
        os.write(1, b"ready\\n")
        os.read(0, 1)
        os._exit(0)
    if kind != "fork":
        os.write(1, b"ready\\n")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@contextlib.contextmanager
def killed_driver(out: Path, kind: str) -> Iterator[tuple[int, IO[bytes], IO[bytes]]]:
    """Its process id; the input whose end ends its child process, and the output of both."""
    command = [sys.executable, "-c", DRIVER, str(out), kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as killed:
        assert killed.stdin is not None
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"ready\n"
        killed.wait()
        yield killed.pid, killed.stdin, killed.stdout


@pytest.mark.parametrize("kind", ["worker", "fork", "child"])
def test_a_driver_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Its workers hold the lock until they end; child processes of environments never do."""
    with killed_driver(tmp_path, kind) as (pid, end, output):
        with monkeypatch.context() as impatient:  # its child process lives: no use in waiting
            impatient.setattr(lock, "ORPHANS_SECONDS", 0.0)
            if kind == "worker":
                with pytest.raises(InputError, match=f"processes that process {pid} left running"):
                    locked(tmp_path, pytest.fail).__enter__()
            else:
                with locked(tmp_path, pytest.fail):
                    pass
        end.close()
        assert output.read() == b"", "until the child process has ended, too"
        with locked(tmp_path, pytest.fail):
            pass


def test_workers_that_are_about_to_end_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here they end while their lock is asked for again."""
    sleep, naps = time.sleep, []
    with killed_driver(tmp_path, "worker") as (_, end, _):

        def nap(seconds: float) -> None:
            naps.append(seconds)
            if len(naps) == 2:
                end.close()
            sleep(seconds)

        monkeypatch.setattr(lock, "ORPHANS_SECONDS", 600.0)
        monkeypatch.setattr(lock.time, "sleep", nap)
        with locked(tmp_path, pytest.fail):
            assert len(naps) >= 2


FORGED = {
    "no pid": {"host": "HERE"},
    "huge pid": {"pid": 10**30, "host": "HERE"},
    "nested pid": {"pid": [[1]], "host": "HERE"},
    "text": {"pid": "1", "host": "HERE"},
    "true": {"pid": True, "host": "HERE"},
    "everybody": {"pid": -1, "host": "HERE"},
    "escapes": {"pid": 1, "host": "a\x1b[2J\x9b1m", "since": "\x07", "command": "\x1b]0;x\x07\n"},
}


@pytest.mark.parametrize("name", [*FORGED, "deep", "digits"])
def test_what_a_stranger_wrote_into_the_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No traceback, and no escape code for the terminal."""
    about = {"since": "then", "command": "x", **FORGED.get(name, {})}
    text = json.dumps(about).replace("HERE", lock.socket.gethostname())
    text = {"deep": "[" * 60_000, "digits": '{"pid": ' + "9" * 60_000}.get(name, text)
    monkeypatch.setattr(lock, "ORPHANS_SECONDS", 0.0)
    with locked(tmp_path, pytest.fail):
        lock_file(tmp_path).write_text(text)
        with pytest.raises(InputError, match="is in use by") as refused:
            locked(tmp_path, pytest.fail).__enter__()
    assert str(refused.value).isprintable()


def test_a_pipe_in_place_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(lock_file(tmp_path))
    monkeypatch.setattr(lock, "ORPHANS_SECONDS", 0.0)
    holder = os.open(lock_file(tmp_path), os.O_RDWR)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with pytest.raises(InputError, match="is in use by another process"):
        locked(tmp_path, pytest.fail).__enter__()
    os.close(holder)
    with pytest.raises(InputError, match="cannot be written"):
        locked(tmp_path, pytest.fail).__enter__()


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
