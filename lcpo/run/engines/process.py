"""Worker processes on this machine, their logs, and the shares of a plan's jobs that they run.

A task of Ray's is `serve`, on any machine: this module imports neither JAX nor agents.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lcpo.errors import InputError
from lcpo.run.events import IDLE, STOP, Crashed, Event, Note, Progress, Report, from_json, to_json
from lcpo.run.store.layout import log_file, plan_file
from lcpo.run.store.lock import cannot_write, descriptor_of

Share = dict[str, int]
"""Jobs that a worker runs together: their names, and their numbers in the plan."""
Said = Event | str | None
"""An event; how the process ended or became useless, in words; None: it has run its share."""

_LAST_WORDS_SECONDS = 5.0
"""How long the pipe of a worker that has ended may stay open: child processes may hold it."""


class WorkerProcess:
    """`python -m lcpo.run.worker --feed`. It calls `hear` with its events, in other threads."""

    def __init__(
        self,
        out: Path,
        digest: str,
        number: int | str,
        hear: Callable[[WorkerProcess, Said], None],
        checkpoint_seconds: float,
        one_core: bool = True,
        folder: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`digest`: of the plan that it runs, and trusts: `numbered` has compared it with the jobs.

        `number`: of its log; `folder`: where it runs; `env`: further environment variables.

        Raises InputError if it cannot be started.
        """
        self.number, self.hear, self.spoke = number, hear, False
        lock = descriptor_of(out)
        command = [sys.executable, "-m", "lcpo.run.worker", str(plan_file(out)), "--feed"]
        command += ["--checkpoint-seconds", str(checkpoint_seconds), "--plan-digest", digest]
        command += ["--one-core"] * one_core
        command += [] if lock is None else ["--lock", str(lock)]
        self.log = Log(log_file(out, number))
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                stderr=self.log.descriptor, pass_fds=() if lock is None else (lock,),
                cwd=folder, env={**os.environ, **(env or {})},
            )  # fmt: skip
        except OSError as error:
            self.log.close()
            raise InputError(
                f"a worker process cannot be started ({error.strerror}): run fewer at a time "
                "(--workers)"
            ) from error
        self.watch = threading.Thread(target=self._watch, daemon=True)
        self.watch.start()

    def feed(self, share: Share) -> None:
        """Let it run a share."""
        self.log.begin(share)
        self._tell(f"{' '.join(map(str, share.values()))}\n".encode())

    def stop(self) -> None:
        """Let it save its runs and exit."""
        self._tell(STOP)

    def _tell(self, line: bytes) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the worker died: `_watch` reports it
            self.process.stdin.write(line)

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()

    def close(self) -> None:
        """Kill it, and wait until it is gone."""
        self.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.watch.join()
        self.log.close()

    def log_end(self, share: Share, how: str) -> str:
        """Note in the log that it ended while it ran a share; how, and which log."""
        self.log.write(f"{', '.join(share)} stopped: {how}\n")
        return self.log.named(how)

    def _watch(self) -> None:
        """Wait for its end, which is reported after all its events."""
        reader = threading.Thread(target=self._read, daemon=True)
        reader.start()
        code = self.process.wait()
        reader.join(_LAST_WORDS_SECONDS)
        self.hear(self, f"its worker {_how_it_ended(code)}")

    def _read(self) -> None:
        stdout = self.process.stdout
        assert stdout is not None
        with stdout:
            try:
                for event in read_events(stdout.fileno()):
                    self.spoke = True
                    if isinstance(event, Crashed) and event.details:  # the worker has logged them
                        event = dataclasses.replace(event, reason=self.log.named(event.reason))
                    self.hear(self, event)
            except Exception as error:  # whatever it is, the driver must not wait for more
                self.process.kill()
                is_line = isinstance(error, ValueError)
                what = "printed a line that is not an event" if is_line else "cannot be read"
                self.hear(self, f"its worker {what}: {error}")


def read_events(descriptor: int) -> Iterator[Event | None]:
    """The events of a worker until it ends; None: it is idle. ValueError: a line that is not an
    event."""
    with open(descriptor, "rb", closefd=False) as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                return  # incomplete, since its worker died
            try:
                values = json.loads(line)
                event = None if values == IDLE else from_json(values)
            except ValueError:
                raise ValueError(line[:200].decode(errors="backslashreplace").rstrip()) from None
            yield event


def _how_it_ended(code: int) -> str:
    """In words, from the return code of a process."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = ", perhaps because the system ran out of memory" if name == "SIGKILL" else ""
    return f"was ended by {name}{memory}"


DIED = "died"
"""Key of a message of `serve` that is not an event: how the worker ended."""


def serve(share: Share, out: Path, folder: Path, **how: Any) -> Iterator[dict[str, Any]]:
    """Run a share in a worker; messages for the driver, until it has ended.

    `out`: the output folder, which all machines share; `folder`: the driver's working directory, in
    which trace files and modules are looked up; `how`: the other arguments of `WorkerProcess`.
    """
    host = socket.gethostname()
    if not plan_file(out).exists():
        for name in share:
            reason = f"{host} cannot access {out}: give a folder (--out) that all machines share"
            yield to_json(Crashed(name, reason))
        return
    heard: queue.Queue[Said] = queue.Queue()
    how |= {"number": f"{host}-{os.getpid()}", "folder": folder if folder.is_dir() else None}
    worker = WorkerProcess(out, hear=lambda _, said: heard.put(said), **how)
    with contextlib.closing(worker):
        worker.feed(share)
        while (said := heard.get()) is not None:
            if isinstance(said, str):
                yield {DIED: worker.log_end(share, f"{said} on {host}")}
                return
            yield to_json(said)


class Log:
    """A log to which sessions append. It is removed if it holds nothing but their headers."""

    def __init__(self, path: Path) -> None:
        """Raises InputError if it cannot be written."""
        self.path = path
        try:
            path.parent.mkdir(exist_ok=True)
            self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise cannot_write(path, error) from error
        self.before = os.fstat(self.descriptor).st_size
        self.headers = 0

    def begin(self, names: Iterable[str]) -> None:
        """Write the header of what follows."""
        self.headers += self.write(f"--- {time.strftime('%F %T')} {', '.join(names)}\n")

    def write(self, text: str) -> int:
        """Append text; the number of bytes. A log that cannot be written stops no run."""
        with contextlib.suppress(OSError):
            return os.write(self.descriptor, text.encode(errors="backslashreplace"))
        return 0

    def named(self, reason: str) -> str:
        """A reason, with a reference to this log."""
        return f"{reason}; see {self.path}"

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the folder may be gone
            if os.fstat(self.descriptor).st_size == self.before + self.headers:
                os.ftruncate(self.descriptor, self.before)
                if self.before == 0:
                    self.path.unlink()
                    self.path.parent.rmdir()  # if it is empty
        os.close(self.descriptor)


MOST_DEATHS = 3
"""How often a run is retried after its worker died; after that it counts as crashed."""


class Shares:
    """Shares of a plan: those that wait, those that a worker runs, and how often runs are retried.

    Engines derive from it. A worker is whatever they run a share with.
    """

    def __init__(self, waiting: list[Share], report: Report) -> None:
        self.waiting, self.report = waiting, report
        self.running: dict[Any, Share] = {}  # by worker: the jobs that have not ended yet
        self.deaths: Counter[str] = Counter()

    def heard(self, worker: Any, event: Event) -> None:
        if not isinstance(event, Progress | Note):
            self.running.get(worker, {}).pop(event.job, None)
        self.report(event)

    def retry(self, share: Share, how: str) -> bool:
        """Whether the runs of a worker that died wait again; if not, they have crashed."""
        self.deaths.update(list(share))  # the names: of a dict it would add up the values
        deaths = max(self.deaths[name] for name in share)
        if deaths > MOST_DEATHS:
            for name in share:
                self.report(Crashed(name, how))
            return False
        which = f"{deaths} of at most {MOST_DEATHS} times"
        self.report(Note(f"retry from the last checkpoint ({which}): {', '.join(share)}: {how}"))
        self.waiting.insert(0, share)
        return True
