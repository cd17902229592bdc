"""A process that runs planned jobs: `python -m lcpo.run.worker JOBS.json`.

Needs nothing but jax, optax and numpy. JOBS.json is as `lcpo train --plan-only` writes it; its
results go beside it. Agents and environments that are no part of lcpo need the word --trust, or
the digest of the plan (--plan-digest), which whoever planned the jobs knows.
Events go to standard output, one JSON object a line, and nothing else does: what agents and
environments print goes to standard error. With `--part 3/20`, it runs the third of twenty parts of
the plan, beside other workers on the same folder. With `--feed`, the worker waits for job numbers
on standard input and runs those of a line together, as they come; its driver holds the lock of the
folder then.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import faulthandler
import itertools
import os
import signal
import sys
import tempfile
from pathlib import Path

from lcpo.errors import InputError, RunError, no_space
from lcpo.run.channel import Channel, open_standard_streams, own_channel

STOPPED, NOT_READ = 130, 141
"""Exit codes, as those of the command: Ctrl-C, and events that nobody reads any more."""


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code: 2 for bad input, 1 if a run failed or crashed."""
    parser = argparse.ArgumentParser(prog="python -m lcpo.run.worker", description=__doc__)
    parser.add_argument("jobs", type=Path, help="the planned jobs")
    parser.add_argument("--out", type=Path, help="folder for results, instead of the planned one")
    parser.add_argument("--checkpoint-seconds", type=float, default=60.0)
    parser.add_argument("--feed", action="store_true", help="read job numbers from stdin")
    parser.add_argument(
        "--trust", action="store_true", help="run agents and environments outside lcpo, too"
    )
    parser.add_argument(
        "--plan-digest", help="refuse any other plan than that of this digest; trust this one"
    )
    parser.add_argument(
        "--one-core", action="store_true", help="run on one core alone, which no other worker has"
    )
    parser.add_argument("--part", help="run a part of the plan: 3/20 is the third of twenty")
    parser.add_argument("--lock", type=int, help="with --feed: descriptor of the folder's lock")
    open_standard_streams()
    options = parser.parse_args(arguments)
    try:
        with own_channel() as channel:
            return _run(options, channel)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except RunError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stopped:
        print(f"stopped: {str(stopped) or 'nothing is saved'}", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:
        return NOT_READ


def _run(options: argparse.Namespace, channel: Channel) -> int:
    """Run the jobs; the exit code."""
    part = read_part(options.part)
    if options.one_core:
        pin(free_core())

    from lcpo.run import events, stop
    from lcpo.run.drive import execute
    from lcpo.run.plan.job import check_trust
    from lcpo.run.store import lock
    from lcpo.run.store.outputs import check_workers_folder
    from lcpo.run.store.plans import load_plan

    failed, last = False, ""

    def report(event: events.Event) -> None:
        nonlocal failed, last
        failed |= isinstance(event, events.Failed | events.Crashed)
        if isinstance(event, events.Crashed):
            details = event.details or f"{event.reason}\n"
            text = "as above\n" if details == last else details
            last = details
            with contextlib.suppress(OSError):  # a log on a disk that is full
                print(f"{event.job} stopped: {text}", file=sys.stderr, flush=True, end="")
        channel.send(event)
        if isinstance(event, events.Crashed) and event.no_space and not options.feed:
            raise no_space(out)

    plan = load_plan(options.jobs, options.plan_digest)
    jobs, trust = plan.jobs, options.trust or options.plan_digest is not None
    check_trust(jobs, trust, str(options.jobs))
    out = options.out or plan.out
    if not options.feed:
        mine = jobs[part or slice(None)]
        check_workers_folder(out, [job.name for job in jobs])
        with lock.locked(out, lambda text: report(events.Note(text)), shared=part is not None):
            try:
                with stop.on_signals():
                    execute.run_jobs(mine, out, report, options.checkpoint_seconds)
            except (stop.Asked, KeyboardInterrupt) as stopped:
                text = f"{execute.tell_saved(mine, out)}; the same command goes on"
                raise stop.Stopped(text, out) from stopped
        return int(failed)
    if options.lock is not None:
        lock.inherit(out, options.lock)
    faulthandler.enable()  # where a signal ends this process, the log says in which line
    # Ctrl-C in a terminal is for the driver, which ends its workers. Not SIG_IGN: child processes
    # would inherit that.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: stop.ask())
    try:
        for numbers in channel.shares():
            share = [jobs[number] for number in numbers]
            execute.run_jobs(share, out, report, options.checkpoint_seconds)
            stop.check()
            _flush()
            channel.idle()
    except stop.Asked:
        _flush()
        return STOPPED
    return int(failed)


def _flush() -> None:
    """Let the log have what was printed: the driver ends this process without a warning."""
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).fflush(None)


def read_part(text: str | None) -> slice | None:
    """Which jobs of a plan are meant: every Nth from the Kth on, so that parts are alike."""
    if text is None:
        return None
    number, _, count = text.partition("/")
    if number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return slice(int(number) - 1, None, int(count))
    raise InputError(f"--part {text!r}: needs K/N with K from 1 to N, such as 3/20")


_cores_taken: list[int] = []  # descriptors: this process has its core until it ends


def free_core() -> int:
    """A core that no other worker of this user on this machine has, or that the fewest have.

    Each has locked a file in a folder of the machine's own. Where that cannot be, any core.
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

    Must come before JAX starts. Results do not depend on the number of cores then.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    # On one core a thread that computes only adds the way to it and back. (JAX reads this setting
    # from its config alone: an environment variable of that name does nothing.)
    jax.config.update("jax_cpu_enable_async_dispatch", False)


if __name__ == "__main__":
    sys.exit(main())
