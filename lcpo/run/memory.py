"""Will it fit? Refuse a run before it starts rather than let it be killed."""

from __future__ import annotations

from pathlib import Path

import jax

from lcpo.run.job import Job, Setup, job_trace
from lcpo.run.program import state_shapes

PROCESS_BYTES = 400 * 2**20
"""What Python, JAX and a compiled program take on their own."""


def run_bytes(job: Job) -> int:
    """State of one run."""
    leaves = jax.tree.leaves(state_shapes(Setup(job)))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


def available_bytes() -> int | None:
    """Free memory of the device that runs would use; None where it cannot be told."""
    device = jax.devices()[0]
    if device.platform != "cpu":
        stats = device.memory_stats() or {}
        return stats["bytes_limit"] - stats["bytes_in_use"] if "bytes_limit" in stats else None
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return None
    lines = dict(line.split(":") for line in meminfo.read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024


def check_memory(jobs: list[Job], together: int) -> None:
    """Raise ValueError if `together` of the jobs will not fit memory at the same time."""
    free = available_bytes()
    if free is None:
        return
    sizes = {job.name: run_bytes(job) for job in jobs}
    largest = max(sizes, key=lambda name: sizes[name])
    each = 2 * sizes[largest]  # a checkpoint holds a copy
    if jax.default_backend() == "cpu":
        job = next(j for j in jobs if j.name == largest)
        copies = 2 if job.training else 1  # random starts need all of it on the device
        each += PROCESS_BYTES + copies * job_trace(job).nbytes
    if each * together > free:
        raise ValueError(
            f"{together} run(s) at a time need about {_gib(each * together)} ({_gib(each)} for "
            f"{largest}), {_gib(free)} are free: run fewer at a time (--workers) or make the "
            "buffers smaller"
        )


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
