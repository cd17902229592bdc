"""A process that runs planned jobs: `python -m lcpo.run.worker JOBS.json`.

It needs nothing but jax, optax and numpy. JOBS.json is as `lcpo train --plan-only` writes it; its
results go into its folder. Agents and environments that are not part of lcpo need --trust, or the
digest of the plan (--plan-digest), which the command that planned the jobs knows.
Events go to standard output, one JSON object a line, and nothing else does: what agents and
environments print goes to standard error. With `--part 3/20`, it runs the third of twenty parts of
the plan, alongside other workers on the same folder. With `--feed`, it waits for job numbers on
standard input and runs those of a line together; its driver holds the lock of the folder then.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import faulthandler
import io
import itertools
import json
import os
import queue
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lcpo.errors import InputError, RunError, no_space
from lcpo.run import stop
from lcpo.run.events import IDLE, STOP, Crashed, Event, Failed, Note, to_json

STOPPED, NOT_READ = 130, 141
"""Exit codes, as those of the command: Ctrl-C, and events that nobody reads any more."""


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code: 2 for bad input, 1 if a run failed or crashed."""
    parser = argparse.ArgumentParser(prog="python -m lcpo.run.worker", description=__doc__)
    add, flag = parser.add_argument, dict[str, Any](action="store_true")
    add("jobs", type=Path, help="the planned jobs")
    add("--out", type=Path, help="folder for results, instead of the planned one")
    add("--checkpoint-seconds", type=float, default=60.0)
    add("--feed", **flag, help="read job numbers from stdin")
    add("--trust", **flag, help="also run agents and environments outside lcpo")
    add("--plan-digest", help="run and trust only the plan with this digest")
    add("--one-core", **flag, help="pin this worker to one core that no other worker uses")
    add("--part", help="run a part of the plan: 3/20 is the third of twenty")
    add("--lock", type=int, help="with --feed: descriptor of the folder's lock")
    open_standard_streams()
    options = parser.parse_args(arguments)
    try:
        with own_channel() as channel:
            return _run(options, channel)
    except (InputError, RunError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except KeyboardInterrupt as stopped:
        print(f"stopped: {str(stopped) or 'nothing is saved'}", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:
        return NOT_READ


def _run(options: argparse.Namespace, channel: Channel) -> int:
    part = read_part(options.part)
    if options.one_core:
        pin(free_core())

    from lcpo.run.drive import execute
    from lcpo.run.plan.job import check_trust
    from lcpo.run.store import lock
    from lcpo.run.store.outputs import check_workers_folder
    from lcpo.run.store.plans import load_plan

    failed, last = False, ""

    def report(event: Event) -> None:
        nonlocal failed, last
        failed |= isinstance(event, Failed | Crashed)
        if isinstance(event, Crashed):
            details = event.details or f"{event.reason}\n"
            text = "as above\n" if details == last else details
            last = details
            with contextlib.suppress(OSError):  # a log on a disk that is full
                print(f"{event.job} stopped: {text}", file=sys.stderr, flush=True, end="")
        channel.send(event)
        if isinstance(event, Crashed) and event.no_space and not options.feed:
            raise no_space(out)

    plan = load_plan(options.jobs, options.plan_digest)
    jobs, trust = plan.jobs, options.trust or options.plan_digest is not None
    check_trust(jobs, trust, str(options.jobs))
    out = options.out or plan.out
    if not options.feed:
        mine = jobs[part or slice(None)]
        check_workers_folder(out, [job.name for job in jobs])
        with lock.locked(out, lambda text: report(Note(text)), shared=part is not None):
            try:
                with stop.on_signals():
                    execute.run_jobs(mine, out, report, options.checkpoint_seconds)
            except (stop.Asked, KeyboardInterrupt) as stopped:
                text = f"{execute.tell_saved(mine, out)}; the same command resumes"
                raise stop.Stopped(text, out) from stopped
        return int(failed)
    if options.lock is not None:
        lock.inherit(out, options.lock)
    faulthandler.enable()  # if a signal ends this process, the log says in which line
    # Ctrl-C in a terminal is for the driver, which ends its workers. Not SIG_IGN: child processes
    # would inherit that.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: stop.asked.set())
    try:
        for numbers in channel.shares():
            share = [jobs[number] for number in numbers]
            execute.run_jobs(share, out, report, options.checkpoint_seconds)
            stop.check()
            _flush()
            channel.send(None)
    except stop.Asked:
        _flush()
        return STOPPED
    return int(failed)


class Channel:
    """A worker's pipes from and to its driver, which are closed in its child processes.

    They are the standard input and output that it was started with. From then on, what agents,
    environments and their child processes print goes to standard error, which is a log, and
    standard input is empty.
    """

    def __init__(self, source: int, target: int) -> None:
        self.source, self.target = source, target
        # A process that is forked and runs on without exec would keep the pipes open.
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.close)

    def send(self, event: Event | None) -> None:
        """Pass an event to the driver; None asks for the next share."""
        values = IDLE if event is None else to_json(event)
        line = f"{json.dumps(values)}\n".encode()
        while line:
            line = line[os.write(self.target, line) :]

    def shares(self) -> Iterator[list[int]]:
        """Job numbers, share by share. At their end the driver is gone: the process exits."""
        numbers: queue.Queue[list[int]] = queue.Queue()

        def read() -> None:
            try:
                with open(self.source, "rb", closefd=False) as lines:
                    for line in lines:
                        if line == STOP:
                            stop.asked.set()
                        else:
                            numbers.put([int(number) for number in line.split()])
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(1)

        threading.Thread(target=read, daemon=True).start()
        while True:
            yield numbers.get()

    def close(self) -> None:
        for descriptor in (self.source, self.target):
            if descriptor >= 0:
                os.close(descriptor)
        self.source = self.target = -1


@contextlib.contextmanager
def own_channel() -> Iterator[Channel]:
    """Use standard input and output as a channel; at the end they are as before."""
    sys.stdout.flush()
    channel = Channel(os.dup(0), os.dup(1))
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    # A log is not a terminal: Python would buffer its text, and lose it if the process dies.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    try:
        yield channel
    finally:
        sys.stdout.flush()
        os.dup2(channel.source, 0)
        os.dup2(channel.target, 1)
        channel.close()


def open_standard_streams() -> None:
    """Replace each standard stream that is closed (`>&-`) with an empty one.

    Otherwise the next file that is opened has the number of the stream, and is written to as such.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:  # what is opened gets the lowest free number: this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def _flush() -> None:
    """Write what was printed to the log: the driver may kill this process at any time."""
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).fflush(None)


def read_part(text: str | None) -> slice | None:
    """Every Nth job of a plan from the Kth on, so that parts are alike."""
    if text is None:
        return None
    number, _, count = text.partition("/")
    if number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return slice(int(number) - 1, None, int(count))
    raise InputError(f"--part {text!r}: needs K/N with K from 1 to N, such as 3/20")


_cores_taken: list[int] = []  # descriptors: this process has its core until it ends


def free_core() -> int:
    """A core that no other worker of this user on this machine has, or that the fewest have.

    Each worker locks a file in a folder that is local to the machine; if it cannot, any core.
    """
    try:
        import fcntl

        folder = Path(tempfile.gettempdir()) / f"lcpo-cores-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        for turn, core in ((turn, core) for turn in itertools.count() for core in cores()):
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            descriptor = os.open(folder / f"{core}-{turn}", flags, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            _cores_taken.append(descriptor)
            return core
    except (ImportError, OSError):
        pass
    return cores()[os.getpid() % len(cores())]


def cores() -> list[int]:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def pin(core: int) -> None:
    """Keep this process on one core, and XLA from starting threads for others.

    Must be called before JAX starts. Results do not depend on the number of cores then.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    # On one core another thread only adds the way to it and back. JAX reads this setting from its
    # config alone: an environment variable of that name does nothing.
    jax.config.update("jax_cpu_enable_async_dispatch", False)


if __name__ == "__main__":
    sys.exit(main())
