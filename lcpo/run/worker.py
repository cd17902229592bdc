"""A process that runs planned jobs: `python -m lcpo.run.worker JOBS.json`.

Needs nothing but jax, optax and numpy. JOBS.json is as `lcpo train --plan-only` writes it; its
results go beside it. Agents and environments that are no part of lcpo need the word --trust.
Progress goes to standard output, one JSON object a line. With `--feed`, the worker waits for job
numbers on standard input and runs those of a line together, as they come.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from lcpo.errors import InputError

IDLE = {"event": "idle"}
"""What a fed worker says when it has run what it was given."""


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code: 2 for bad input, 1 if a run failed."""
    parser = argparse.ArgumentParser(prog="python -m lcpo.run.worker", description=__doc__)
    parser.add_argument("jobs", type=Path, help="the planned jobs")
    parser.add_argument("--out", type=Path, help="folder for results, instead of the planned one")
    parser.add_argument("--checkpoint-seconds", type=float, default=60.0)
    parser.add_argument("--feed", action="store_true", help="read job numbers from stdin")
    parser.add_argument(
        "--trust", action="store_true", help="run agents and environments outside lcpo, too"
    )
    parser.add_argument("--core", type=int, help="run on this core alone")
    options = parser.parse_args(arguments)
    if options.core is not None:
        pin(options.core)

    from lcpo.run import events
    from lcpo.run.drive import execute
    from lcpo.run.plan.job import check_trust
    from lcpo.run.store.plans import load_plan

    failed = False

    def report(event: events.Event) -> None:
        nonlocal failed
        failed |= isinstance(event, events.Failed | events.Crashed)
        print(json.dumps(events.to_json(event)), flush=True)

    try:
        jobs, planned_out = load_plan(options.jobs)
        check_trust(jobs, options.trust, str(options.jobs))
        out = options.out or planned_out
        if options.feed:
            for numbers in _shares_from_stdin():
                share = [jobs[number] for number in numbers]
                execute.run_jobs(share, out, report, options.checkpoint_seconds)
                print(json.dumps(IDLE), flush=True)
        else:
            execute.run_jobs(jobs, out, report, options.checkpoint_seconds)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return int(failed)


def _shares_from_stdin() -> Iterator[list[int]]:
    """Job numbers from standard input. Its end means that the parent is gone: stop at once."""
    numbers: queue.Queue[list[int]] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            numbers.put([int(number) for number in line.split()])
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield numbers.get()


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
