"""Does a run fit into memory? It is refused before it starts rather than killed later."""

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
"""Memory of Python, JAX and a compiled program, in bytes."""


def run_bytes(job: Job) -> int:
    """State of one run, twice because a checkpoint holds a copy; rows of replays, once."""

    def size(tree: Any) -> int:
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))

    setup = Setup(job)
    program = setup.statics()
    if program not in _sizes:
        state = state_shapes(setup)
        rows = [size(replay.rows) for replay in segments.replays(state, False)]
        slim = size(segments.without_rows(state, False))
        _sizes[program] = 2 * slim + sum(rows) + len(rows) * segments.SEGMENT_BYTES
    return _sizes[program]


_sizes: dict[Hashable, int] = {}
"""Cached by program: a study has hundreds of runs of each, and computing shapes takes 0.1 s."""


def available_bytes() -> int | None:
    """Free memory of the device that runs would use; None if it is unknown."""
    device = jax.devices()[0]
    if device.platform != "cpu":
        stats = device.memory_stats() or {}
        return stats["bytes_limit"] - stats["bytes_in_use"] if "bytes_limit" in stats else None
    found, meminfo = _free_of_groups(), Path("/proc/meminfo")
    if meminfo.exists():
        lines = dict(line.split(":") for line in meminfo.read_text().splitlines())
        found = [*found, int(lines["MemAvailable"].split()[0]) * 1024]
    return min(found, default=None)


def largest_bytes(program: Any) -> int:
    """Size of the largest array in a jaxpr, and in those within it."""
    found, inner = [*program.invars, *program.constvars], []
    for step in program.eqns:
        found += step.outvars
        inner += _inner(step)
    sizes = [x.aval.size * getattr(x.aval.dtype, "itemsize", 4) for x in found]
    return max([0, *sizes, *map(largest_bytes, inner)])


def num_operations(program: Any) -> int:
    """Number of operations in a jaxpr, with those within it."""
    return sum(sum(map(num_operations, _inner(step))) or 1 for step in program.eqns)


def _inner(step: Any) -> list[Any]:
    """The jaxprs within one operation of a jaxpr: the body of a loop, a function."""
    found = []
    for value in step.params.values():
        parts = value if isinstance(value, (tuple, list)) else [value]
        found += [p for p in (getattr(p, "jaxpr", p) for p in parts) if hasattr(p, "eqns")]
    return found


_GROUPS = {
    "": ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    "memory": (
        "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
        "total_inactive_file",
    ),
}  # fmt: skip
"""Folder, limit, use and reclaimable cache of control groups, versions 2 and 1, by controller."""


def _free_of_groups(root: Path = Path("/")) -> list[int]:
    """What the control groups of this process have left: a container or a batch job has a limit.

    Each limit on the way up counts. `root`: of the files, for tests.
    """
    listed, found = root / "proc/self/cgroup", []
    for line in listed.read_text().splitlines() if listed.exists() else []:
        _, controllers, group = line.split(":", 2)
        for name in _GROUPS.keys() & controllers.split(","):
            top, limit, used, cache = _GROUPS[name]
            folder = root / top / group.lstrip("/")
            # In a container the path may be the host's and not exist: its top is the container's.
            for place in (folder, *folder.parents):
                # Raises for no such group, or no limit ("max").
                with contextlib.suppress(OSError, ValueError):
                    if place.is_relative_to(root / top):
                        most, taken = (int((place / file).read_text()) for file in (limit, used))
                        lines = (place / "memory.stat").read_text().splitlines()
                        # Cached files are dropped as soon as memory is needed.
                        found.append(most - taken + int(dict(map(str.split, lines)).get(cache, 0)))
    return found


def share_bytes(share: list[Job]) -> int:
    """What a process needs to run these jobs together; all are of one size."""
    job = share[0]
    total = run_bytes(job) * len(share)
    if jax.default_backend() == "cpu":
        total += PROCESS_BYTES
        if job.trace is not None:
            rows, channels = job.trace.shape(Setup(job).trace_rows, job.scale)
            copies = 2 if job.training else 1  # random starts need all of it on the device
            total += copies * 4 * rows * channels
    return total


def largest_share(job: Job, processes: int) -> int:
    """How many runs like `job` fit into memory in each of this many processes."""
    free = available_bytes()
    if free is None:
        return 10**9
    alone, two = share_bytes([job]), share_bytes([job, job])
    return max(1, 1 + int((free / processes - alone) // max(two - alone, 1)))


def check_memory(shares: list[list[Job]], processes: int) -> None:
    """Raise InputError if the `processes` largest shares do not fit into memory at the same
    time."""
    free = available_bytes()
    if free is None:
        return
    sizes = [share_bytes(share) for share in shares]
    largest = sorted(range(len(shares)), key=lambda i: sizes[i])[-processes:]
    needed, worst = sum(sizes[i] for i in largest), largest[-1]
    if needed > free:
        each = sizes[worst] // len(shares[worst])
        total, one, left = (f"{count / 2**30:.1f} GiB" for count in (needed, each, free))
        raise InputError(
            f"{sum(len(shares[i]) for i in largest)} run(s) at a time need about {total} "
            f"({one} for {shares[worst][0].name}), {left} are free: run fewer at a time "
            "(--workers), or use smaller buffers"
        )


KEPT_BYTES = 2**28
"""Memory that an update frees and the next one needs again is kept up to this size."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as <malloc.h> calls them


def settle() -> None:
    """Call after compiling: return its freed memory to the system, and keep what updates free.

    By default glibc keeps some 0.4 GiB after compiling, but returns arrays above 32 MB to the
    system at each update, page by page: half of an update's time with rollouts of thousands of
    steps.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library
        libc = ctypes.CDLL("libc.so.6")
        libc.malloc_trim(0)
        libc.mallopt(_MMAP_THRESHOLD, KEPT_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
