"""Will it fit? Refuse a run before it starts rather than let it be killed."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import jax

from lcpo.errors import InputError
from lcpo.run.drive.base import state_shapes
from lcpo.run.plan.job import Job, Setup
from lcpo.run.store import segments

PROCESS_BYTES = 400 * 2**20
"""What Python, JAX and a compiled program take on their own."""


def run_bytes(job: Job) -> int:
    """State of one run, twice because a checkpoint holds a copy; rows of replays, once."""
    setup = Setup(job)
    program = setup.statics()
    if program not in _sizes:
        state = state_shapes(setup)
        rows = [_bytes(replay.rows) for replay in segments.replays(state, False)]
        slim = _bytes(segments.without_rows(state, False))
        _sizes[program] = 2 * slim + sum(rows) + len(rows) * segments.SEGMENT_BYTES
    return _sizes[program]


_sizes: dict[Hashable, int] = {}
"""By program: a study has hundreds of runs of each, and shapes take a tenth of a second."""


def _bytes(tree: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def available_bytes() -> int | None:
    """Free memory of the device that runs would use; None where it cannot be told."""
    device = jax.devices()[0]
    if device.platform != "cpu":
        stats = device.memory_stats() or {}
        return stats["bytes_limit"] - stats["bytes_in_use"] if "bytes_limit" in stats else None
    found = [*_free_of_machine(), *_free_of_groups()]
    return min(found, default=None)


def _free_of_machine(meminfo: Path = Path("/proc/meminfo")) -> list[int]:
    """Free memory of this machine; nothing where it cannot be told."""
    if not meminfo.exists():
        return []
    lines = dict(line.split(":") for line in meminfo.read_text().splitlines())
    return [int(lines["MemAvailable"].split()[0]) * 1024]


def _free_of_groups(root: Path = Path("/")) -> list[int]:
    """What the control groups of this process have left: a container or a batch job has a limit.

    Version 2 has one tree of groups, version 1 one for memory; each limit on the way up counts.
    `root`: of the files, for tests.
    """
    listed, found = root / "proc/self/cgroup", []
    for line in listed.read_text().splitlines() if listed.exists() else []:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            top, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        folder = top / group.lstrip("/")
        # In a container the path may be the host's, which is not there: then its top is ours.
        for place in (folder, *folder.parents):
            if place.is_relative_to(top):
                found += _free_of_group(place, *names)
    return found


def _free_of_group(folder: Path, limit: str, used: str, cache: str) -> list[int]:
    try:
        most = (folder / limit).read_text().strip()
        if most == "max":
            return []
        stats = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        # Files that were read and not used since are dropped as soon as memory is needed.
        return [int(most) - int((folder / used).read_text()) + int(stats.get(cache, 0))]
    except (OSError, ValueError):  # no such group, or no limit in it
        return []


def share_bytes(share: list[Job]) -> int:
    """What a process needs that runs these jobs together; all are of one size."""
    job = share[0]
    total = run_bytes(job) * len(share)
    if jax.default_backend() == "cpu":
        copies = 2 if job.training else 1  # random starts need all of it on the device
        total += PROCESS_BYTES + copies * _trace_bytes(job)
    return total


def _trace_bytes(job: Job) -> int:
    if job.trace is None:
        return 0
    rows, channels = job.trace.shape(Setup(job).trace_rows, job.scale)
    return 4 * rows * channels


def largest_share(job: Job, processes: int) -> int:
    """How many runs like `job` fit memory together, in each of so many processes."""
    free = available_bytes()
    if free is None:
        return 10**9
    alone, two = share_bytes([job]), share_bytes([job, job])
    return max(1, 1 + int((free / processes - alone) // max(two - alone, 1)))


def check_memory(shares: list[list[Job]], processes: int) -> None:
    """Raise InputError if the `processes` largest shares will not fit memory at the same time."""
    free = available_bytes()
    if free is None:
        return
    sizes = [share_bytes(share) for share in shares]
    largest = sorted(range(len(shares)), key=lambda i: sizes[i])[-processes:]
    needed, worst = sum(sizes[i] for i in largest), largest[-1]
    if needed > free:
        each = sizes[worst] // len(shares[worst])
        raise InputError(
            f"{sum(len(shares[i]) for i in largest)} run(s) at a time need about {_gib(needed)} "
            f"({_gib(each)} for {shares[worst][0].name}), {_gib(free)} are free: run fewer at a "
            "time (--workers) or make the buffers smaller"
        )


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


KEPT_BYTES = 2**28
"""What an update frees and the next one takes again is kept up to this size."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as <malloc.h> calls them


def settle() -> None:
    """After compiling: hand back what that freed, and keep what updates free for the next ones.

    Some 0.4 GiB are free after compiling, which glibc would keep. Arrays above 32 MB it would get
    from the system at each update and give back, page by page: half of the time of an update where
    a rollout has thousands of steps.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library
        libc = ctypes.CDLL("libc.so.6")
        libc.malloc_trim(0)
        libc.mallopt(_MMAP_THRESHOLD, KEPT_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
