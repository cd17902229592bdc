"""What a run leaves behind: a thinned table of metrics and a manifest. NumPy and JSON only.

A row is a block of updates: the mean of each metric, and for episodes the exact sums, so that
lifelong returns are exact although at most 4000 rows are kept.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lcpo.errors import InputError

MAX_ROWS = 4000
SUMS = ("episodes", "episode_return_sum", "episode_length_sum")
Record = dict[str, np.ndarray]


def block_size(num_updates: int) -> int:
    """Updates per row."""
    return -(-num_updates // MAX_ROWS)


def thin(
    metrics: Mapping[str, np.ndarray], first: int, block: int, steps_per_update: int
) -> Record:
    """Rows for the updates `first`, `first + 1`, ... whose metrics are given.

    `first` is a multiple of `block`. Columns: `step` (of the environment, at the end of the row),
    `updates`; the mean of each metric; sums over the episodes that ended in the row; and
    `epoch_return`, the mean over the `epochs` (updates) in which an episode ended of their mean
    episode return, which is the paper's lifelong return before it is averaged.
    """
    count = len(metrics["episodes"])
    cuts = np.arange(0, count, block)
    sizes = np.diff(np.append(cuts, count))

    def totals(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(np.asarray(values, np.float64), cuts)

    episodes = np.asarray(metrics["episodes"], np.float64)
    has = episodes > 0
    means = np.where(has, metrics["episode_return_sum"] / np.maximum(episodes, 1), 0.0)
    rows: Record = {
        "step": (first + cuts + sizes) * steps_per_update,
        "updates": sizes,
        "epochs": totals(has).astype(np.int64),
    }
    rows["epoch_return"] = totals(means) / np.maximum(rows["epochs"], 1)
    for name, values in metrics.items():
        rows[name] = totals(values) if name in SUMS else (totals(values) / sizes).astype("f4")
    return rows


def join(parts: list[Record]) -> Record:
    """One record of consecutive ones."""
    return {k: np.concatenate([p[k] for p in parts]) for k in parts[0]} if parts else {}


def lifelong_return(
    record: Record, after_step: int = 0, before_step: float = float("inf")
) -> float:
    """Mean over epochs after `after_step` of the mean return of the episodes that ended in each.

    Whole rows count: a warm-up that is no multiple of a row's length ends at the next row. With
    `before_step`, those count that end before it.
    """
    late = (record["step"] > after_step) & (record["step"] < before_step)
    epochs = record["epochs"][late]
    if epochs.sum() == 0:
        return float("nan")
    return float(np.sum(record["epoch_return"][late] * epochs) / epochs.sum())


def activity(record: Record, after_step: int = 0) -> float | None:
    """Share of updates in which LCPO's constraint was active; None for other agents."""
    return mean_metric(record, "constraint_active", after_step)


def mean_metric(
    record: Record, name: str, after_step: int = 0, among: str | None = None
) -> float | None:
    """Mean of a metric over updates; `among`: over those in which that 0/1 metric was 1."""
    if name not in record:
        return None
    weight = record["updates"] * (record["step"] > after_step)
    total = np.sum(record[name] * weight)
    count = np.sum(weight if among is None else record[among] * weight)
    return float(total / count) if count > 0 else float("nan")


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz so that a reader sees the old file or the new one, never a part."""
    _replace(path, lambda file: np.savez(file, allow_pickle=False, **arrays))  # pyright: ignore


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read an .npz; a damaged file gives a ValueError that says so."""
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {k: file[k] for k in file.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} is damaged or no array file ({error})") from error


def save_json(path: Path, value: Any) -> None:
    """Write JSON atomically."""
    save_bytes(path, json.dumps(value, indent=1).encode())


def save_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    _replace(path, lambda file: file.write(content))


def load_json(path: Path) -> Any:
    """Read JSON; a damaged file gives a ValueError that says so."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged or no JSON file ({error})") from error


def _replace(path: Path, write: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp's files are their owner's alone
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def digest(values: np.ndarray) -> str:
    """A fingerprint of an array."""
    return f"{zlib.crc32(np.ascontiguousarray(values).data):08x}"


def provenance() -> dict[str, Any]:
    """Versions and device, for the manifest."""
    import jax
    import optax

    import lcpo

    device = jax.devices()[0]
    return {
        "lcpo": lcpo.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "optax": optax.__version__,
        "numpy": np.__version__,
        "device": f"{device.platform}:{device.device_kind}",
    }


def _commit() -> str | None:
    """Commit of the checkout that this package lies in, if it does."""
    here = Path(__file__).resolve().parents[3]
    if not (here / ".git").exists():
        return None
    command = ["git", "-C", str(here), "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
