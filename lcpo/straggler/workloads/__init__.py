"""Workloads: streams of jobs (size, gap to the next) for simulators of servers.

    workload = workloads.get("workload-1", shorten=20)
    sizes, gaps = workload.jobs(first=0, count=100_000, seed=0)  # milliseconds

`workload-1` and `workload-2` are twins of the paper's; any other name is a file: your own jobs,
or public data as in `lcpo.straggler.workloads.formats`.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from lcpo.contexts import files as trace_files
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.straggler.workloads import formats, paper
from lcpo.straggler.workloads.base import SECOND, Given, Means, Profile, Workload
from lcpo.values import name as checked_name
from lcpo.values import number

__all__ = ["WORKLOADS", "Given", "Means", "Profile", "Workload", "get"]

WORKLOADS = {"workload-1": partial(paper.twin, 1), "workload-2": partial(paper.twin, 2)}


def get(
    name: str | os.PathLike[str],
    *,
    shorten: float = 1.0,
    rate: float | None = None,
    size: float | None = None,
    cv: float | None = None,
) -> Workload:
    """The workload called `name`.

    `shorten`: how many times shorter a pass is, at the same rates and sizes. `rate` (jobs per
    second) and `size` (ms): the means of a pass; `cv`: standard deviation of the sizes over their
    mean, where jobs are drawn. None leaves them as they are.
    """
    found = _load(name, cv).shorten(shorten)
    means = found.means()
    by_rate = 1.0 if rate is None else number("rate", rate, 1e-6, 1e6) * means.gap / SECOND
    by_size = 1.0 if size is None else number("size", size, 1e-6, 1e9) / means.size
    return found if by_rate == by_size == 1.0 else found.scale(by_rate, by_size)


def _load(name: Any, cv: float | None) -> Workload:
    text = checked_name("workload", os.fspath(name) if isinstance(name, os.PathLike) else name)
    if text in WORKLOADS:
        return WORKLOADS[text]() if cv is None else WORKLOADS[text](cv=cv)
    if not trace_files.is_file(text):
        raise InputError(unknown("workload", text, WORKLOADS) + " (or a .csv, .npy or .npz file)")
    if cv is not None:
        raise InputError(
            f"workload {text}: cv = {cv:g}, but a file has its own sizes: leave cv out; it is for "
            f"{', '.join(WORKLOADS)}"
        )
    path = trace_files.find(text, (".csv", ".npy", ".npz"), "workload")
    if path.suffix.lower() != ".npz":
        return formats.read_jobs(path)
    arrays = formats.read_arrays(path)
    for needed, load in formats.FORMATS.items():
        if arrays.keys() >= set(needed):
            return load(path)
    return formats.jobs_of(arrays, path)
