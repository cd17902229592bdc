"""Workloads from files: a user's own jobs, ServeGen, the Azure LLM trace of 2023, WorldCup98.

Public data are not part of this library: docs/workloads.md says which arrays a file needs. Tokens
represent the duration of a request: 1 token is 1 ms, which `scale` changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from lcpo.archives import read_archive
from lcpo.contexts import files
from lcpo.errors import InputError, message
from lcpo.straggler.workloads.base import SECOND, Given, Profile, Workload
from lcpo.straggler.workloads.clients import ClientRows, Clients, Histograms, expect
from lcpo.straggler.workloads.drawn import Poisson, alike, lognormal
from lcpo.values import whole

MOST_UNPACKED = 2**28
"""Bytes of all arrays of a compressed file; an uncompressed one may be as large as it is."""
SIZE, GAP, TIME = "size_ms", "gap_ms", "time_ms"
NEEDS = (
    f"needs two columns, size and gap in ms; or columns called {SIZE!r} and {GAP!r} (time until "
    f"the next job) or {TIME!r} (of arrival)"
)

Arrays = Mapping[str, np.ndarray]

AZURE = ("arrival_s", "generated_tokens")
WORLD_CUP = ("count", "bin_s")
SERVEGEN = ("client", "t_start_s", "n_requests", "family", "shape", "n_windows", "window_s")
TOKENS = ("client", "t_start_s", "ptr", "token", "count", "period_s", "clients_without_file")
POOLED = -1  # the client of histograms for clients without their own
WORLD_CUP_SIZE, WORLD_CUP_CV = 28.0, 2.0
"""Sizes if none are given: mean in ms, and coefficient of variation. The logs have no
times of service."""


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name; pickled objects are not read."""
    files.find(str(path), (".npz",), "workload")
    try:
        with open(path, "rb") as file:
            return read_archive(file, MOST_UNPACKED)
    except Exception as error:  # of a parser of unknown bytes
        raise InputError(
            f"workload file {path} is not an .npz archive of plain arrays ({message(error)}): "
            "write it with np.savez"
        ) from error


def read_jobs(path: Path) -> Given:
    """The jobs in a .csv or .npy file."""
    found = files.read(str(path), keep_time=True)
    table, names = found.values, list(found.names)
    if not names and table.shape[1] == 2:
        names = [SIZE, GAP]
    if not names:
        raise InputError(
            f"workload file {path} has {table.shape[1]} columns without names: {NEEDS}"
        )
    return jobs_of(dict(zip(names, table.T, strict=False)), path)


def jobs_of(columns: Mapping[str, np.ndarray], path: Path) -> Given:
    """Jobs from columns by name: sizes, and gaps or times of arrival."""
    if SIZE not in columns or (GAP in columns) == (TIME in columns):
        found = ", ".join(map(repr, columns)) or "nothing"
        raise InputError(f"workload file {path} has {found}: {NEEDS}")
    kind = GAP if GAP in columns else TIME
    size, time = (_numbers(columns[name], name, path) for name in (SIZE, kind))
    if len(size) != len(time):
        raise InputError(
            f"workload file {path}: {len(size):,} sizes but {len(time):,} entries of {kind!r}: "
            "give both for every job"
        )
    if len(size) < 2:
        raise InputError(f"workload file {path} has {len(size)} jobs: needs at least 2")
    need(size > 0, size, SIZE, path, "every size must be above 0")
    gap = gaps_of(time, str(path)) if kind == TIME else time
    need(gap >= 0, gap, GAP, path, "no gap may be below 0")
    if not gap.sum() > 0:
        raise InputError(f"workload file {path}: all gaps are 0: needs at least one gap above 0")
    return Given(str(path), size, gap)


def gaps_of(times: np.ndarray, name: str) -> np.ndarray:
    """Times between arrivals. After the last one, the mean of the others, until the first again."""
    gaps = np.diff(times)
    back = np.flatnonzero(gaps < 0)
    if len(back):
        row = back[0] + 1
        raise InputError(
            f"workload file {name}: job {row + 1} (counted from 1) arrives at {times[row]:g}, "
            f"before the one above it, at {times[row - 1]:g}: sort the jobs by time"
        )
    return np.append(gaps, gaps.mean())


def _numbers(values: np.ndarray, name: str, path: Path) -> np.ndarray:
    if values.dtype.kind not in "fiu" or values.ndim != 1:
        raise InputError(
            f"workload file {path}: {name!r} has {values.dtype} entries and shape {values.shape}: "
            "needs real numbers in one dimension"
        )
    values = np.ascontiguousarray(values, np.float64)
    need(np.isfinite(values), values, name, path, "every entry must be finite")
    return values


def need(good: np.ndarray, values: np.ndarray, name: str, path: Path, needed: str) -> None:
    """Raise InputError unless all values are good [N]."""
    if not good.all():
        row = int(np.argmin(good))
        raise InputError(
            f"workload file {path}: {name!r} of job {row + 1} (counted from 1) is {values[row]:g}: "
            f"{needed}"
        )


def _read(path: Path, names: Iterable[str], what: str) -> Arrays:
    arrays = read_arrays(path)
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InputError(
            f"workload file {path}: {what} need the arrays {', '.join(names)}; "
            f"{', '.join(map(repr, missing))} is missing"
        )
    return arrays


def _above(values: np.ndarray, low: float, name: str, path: Path) -> None:
    good = (values >= low) & np.isfinite(values)  # NaN is below everything
    need(good, values, name, path, f"needs numbers from {low:g}")


def azure(path: Path) -> Given:
    """Requests as they came: the tokens that were generated are their sizes."""
    arrays = _read(path, AZURE, "an Azure LLM trace")
    times, tokens = (arrays[name].astype(np.float64) for name in AZURE)
    if len(times) != len(tokens) or len(times) < 2:
        raise InputError(
            f"workload file {path}: {len(times):,} arrivals, {len(tokens):,} token counts: needs "
            "the same number of both, and at least 2"
        )
    _above(tokens, 1, "generated_tokens", path)
    return Given(str(path), tokens, gaps_of(times * SECOND, str(path)))


def world_cup_98(
    path: Path, sizes: np.ndarray | None = None, first: int = 0, count: int | None = None
) -> Poisson:
    """Requests per minute as rates: `count` minutes from `first` on, or all.

    `sizes` in ms: drawn from these, with replacement; None: lognormal ones.
    """
    arrays = _read(path, WORLD_CUP, "WorldCup98 counts")
    jobs = arrays["count"].astype(np.float64)
    _above(jobs, 0, "count", path)
    first = whole("first", first, 0, max(len(jobs) - 1, 0))
    count = len(jobs) - first if count is None else whole("count", count, 1, len(jobs) - first)
    mean, factor = WORLD_CUP_SIZE, lognormal(WORLD_CUP_CV)
    if sizes is not None:
        _above(sizes, 1e-9, "sizes", path)
        mean, factor = float(np.mean(sizes)), alike(sizes)
    window = float(arrays["bin_s"]) * SECOND
    profile = Profile(window, jobs[first : first + count], np.full(count, mean))
    return Poisson(str(path), profile, factor)


def servegen(path: Path, tokens: Path | None = None) -> Clients:
    """Clients from a file of arrivals, and their sizes from a file of output tokens.

    The name of the second defaults to that of the first, with `output_tokens` for `arrivals`.
    """
    arrays = _read(path, SERVEGEN, "ServeGen arrivals")
    if tokens is None:
        if "arrivals" not in path.name:
            raise InputError(
                f"workload file {path}: its sizes are in a second file: name the two "
                "NAME_arrivals.npz and NAME_output_tokens.npz"
            )
        tokens = path.with_name(path.name.replace("arrivals", "output_tokens"))
    lengths = _read(tokens, TOKENS, "ServeGen output tokens")
    window_s, num_windows = (whole(n, arrays[n]) for n in ("window_s", "n_windows"))
    window = arrays["t_start_s"] // window_s
    _above(arrays["n_requests"], 0, "n_requests", path)
    _above(arrays["shape"], 1e-6, "shape", path)
    if len(window) == 0 or not 0 <= window.min() <= window.max() < num_windows:
        raise InputError(
            f"workload file {path}: its windows must be numbered from 0 to {num_windows - 1}"
        )
    order = np.argsort(window, kind="stable")
    rows = ClientRows(
        window,
        arrays["n_requests"].astype(np.float64),
        arrays["shape"].astype(np.float64),
        arrays["family"] == 1,
        _rows_histograms(arrays, lengths, path),
    )
    rows = ClientRows(*(values[order] for values in rows))
    histograms = _histograms(lengths, tokens)
    expected = expect(rows, histograms, num_windows, window_s * SECOND)
    return Clients(str(path), expected, rows, histograms)


def _histograms(lengths: Arrays, path: Path) -> Histograms:
    """Values of 0 tokens count as 1: a job has some size."""
    pointer, count = lengths["ptr"].astype(np.int64), lengths["count"].astype(np.int64)
    _above(count, 1, "count", path)
    total = np.cumsum(count)
    starts = pointer[:-1]
    if (
        len(pointer) != len(lengths["client"]) + 1
        or np.any(np.diff(pointer) < 1)
        or (pointer[0] != 0 or pointer[-1] != len(count) or len(count) != len(lengths["token"]))
    ):
        raise InputError(
            f"workload file {path}: 'ptr' must rise from 0 to the number of entries, one more of "
            "them than clients"
        )
    before = np.repeat(total[starts] - count[starts], np.diff(pointer))
    value = np.maximum(lengths["token"].astype(np.float64), 1.0)
    return Histograms(pointer, value, total - before)


def _rows_histograms(arrays: Arrays, lengths: Arrays, path: Path) -> np.ndarray:
    """For each client in a window, the number of the histogram of its period."""
    period_s = whole("period_s", lengths["period_s"])
    known = {
        (int(client), int(start) // period_s): number
        for number, (client, start) in enumerate(
            zip(lengths["client"], lengths["t_start_s"], strict=True)
        )
    }
    client = np.where(
        np.isin(arrays["client"], lengths["clients_without_file"]), POOLED, arrays["client"]
    )
    wanted = zip(client.tolist(), (arrays["t_start_s"] // period_s).tolist(), strict=True)
    found = np.array([known.get(pair, -1) for pair in wanted])
    if (found < 0).any():
        row = int(np.argmax(found < 0))
        raise InputError(
            f"workload file {path}: client {arrays['client'][row]} sends requests at "
            f"{arrays['t_start_s'][row]} s, but no histogram of tokens is of that time: needs one "
            "for every client and period, or client -1 for those in 'clients_without_file'"
        )
    return found


FORMATS: dict[tuple[str, ...], Callable[[Path], Workload]] = {
    AZURE: azure,
    WORLD_CUP: world_cup_98,
    SERVEGEN: servegen,
}
"""How to load a file, by the arrays that identify it."""
