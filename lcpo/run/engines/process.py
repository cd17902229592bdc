"""A worker process on this machine: how it is started and fed, what it says, how it ends.

`Log` keeps what agents and environments print in it; `Retries` says how often runs whose worker
died are begun again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from lcpo.errors import InputError
from lcpo.run.channel import STOP, Garbled, read_events
from lcpo.run.events import Crashed, Event, Note, Report
from lcpo.run.store.layout import log_file, plan_file
from lcpo.run.store.lock import cannot_write, descriptor_of

Share = dict[str, int]
"""What a worker runs together: names of jobs, and their numbers in the plan."""
Said = Event | str
"""An event, `IDLE`, or how the process ended or became useless, in words."""
IDLE = ""
"""It has run its share."""

_LAST_WORDS_SECONDS = 5.0
"""How long the pipe of a worker that has ended may stay open: child processes may hold it."""


class WorkerProcess:
    """`python -m lcpo.run.worker --feed`. `hear` is called with what it says, in other threads."""

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

        `number`: of its log; `folder`: where it runs; `env`: variables that it has beside ours.

        Raises InputError where it cannot be started.
        """
        self.number, self.hear, self.spoke = number, hear, False
        lock = descriptor_of(out)
        command = [sys.executable, "-m", "lcpo.run.worker", str(plan_file(out)), "--feed"]
        command += ["--checkpoint-seconds", str(checkpoint_seconds)]
        command += ["--plan-digest", digest]
        command += ["--one-core"] * one_core
        if lock is not None:
            command += ["--lock", str(lock)]
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
        assert self.process.stdin is not None
        # A broken pipe: the worker died; `_watch` tells.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{' '.join(map(str, share.values()))}\n".encode())

    def stop(self) -> None:
        """Let it save what it runs, and end."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(STOP)

    def kill(self) -> None:
        """End it."""
        self.process.kill()

    def close(self) -> None:
        """End it, and wait until nothing of it is left."""
        self.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.watch.join()
        self.log.close()

    def _watch(self) -> None:
        """Wait for its end, which is told after all that it said."""
        reader = threading.Thread(target=self._read, daemon=True)
        reader.start()
        code = self.process.wait()
        reader.join(_LAST_WORDS_SECONDS)
        self.hear(self, f"its worker {_how_it_ended(code)}")

    def _read(self) -> None:
        """Pass on what it says."""
        stdout = self.process.stdout
        assert stdout is not None
        with stdout:
            try:
                for event in read_events(stdout.fileno()):
                    self.spoke = True
                    self.hear(self, IDLE if event is None else event)
            except Exception as error:  # whatever it is, the driver must not wait for more
                self.process.kill()
                garbled = isinstance(error, Garbled)
                what = "said something that is no event" if garbled else "is silent"
                self.hear(self, f"its worker {what}: {error}")


def _how_it_ended(code: int) -> str:
    """In words, from the return code of a process."""
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-code).name
        memory = ", as the system does where memory is short" if name == "SIGKILL" else ""
        return f"was ended by {name}{memory}"
    return f"was ended by signal {-code}"


class Log:
    """A log to which sessions append. One in which nothing but beginnings was told is not kept."""

    def __init__(self, path: Path) -> None:
        """Raises InputError where it cannot be written."""
        self.path = path
        try:
            path.parent.mkdir(exist_ok=True)
            self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise cannot_write(path, error) from error
        self.before = os.fstat(self.descriptor).st_size
        self.beginnings = 0

    def begin(self, names: Iterable[str]) -> None:
        """Say whose text follows."""
        self.beginnings += self.write(f"--- {time.strftime('%F %T')} {', '.join(names)}\n")

    def write(self, text: str) -> int:
        """Append text; how many bytes. A log that cannot be written stops no run."""
        with contextlib.suppress(OSError):
            return os.write(self.descriptor, text.encode(errors="backslashreplace"))
        return 0

    def named(self, reason: str) -> str:
        """A reason, and where the rest is told."""
        return f"{reason}; see {self.path}"

    def close(self) -> None:
        """Close it, and remove what tells nothing."""
        with contextlib.suppress(OSError):  # the folder may be gone
            if os.fstat(self.descriptor).st_size == self.before + self.beginnings:
                os.ftruncate(self.descriptor, self.before)
                if self.before == 0:
                    self.path.unlink()
                    self.path.parent.rmdir()  # if it is empty
        os.close(self.descriptor)


MOST_DEATHS = 3
"""How often a run is begun again after its worker died. Then it is to blame, or its machine."""


class Retries:
    """Counts the deaths of workers, and tells of them."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.deaths: Counter[str] = Counter()

    def after_death(self, names: Collection[str], how: str) -> bool:
        """Whether runs whose worker died are to be begun again; if not, they have crashed."""
        self.deaths.update(list(names))  # of a dict it would add up the values
        deaths = max(self.deaths[name] for name in names)
        if deaths > MOST_DEATHS:
            for name in names:
                self.report(Crashed(name, how))
            return False
        which = f"time {deaths} of at most {MOST_DEATHS}"
        self.report(Note(f"from the last checkpoint again ({which}): {', '.join(names)}: {how}"))
        return True
