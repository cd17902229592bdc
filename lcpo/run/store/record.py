"""The metrics of a run: a thinned table, and the sums over it.

A row is a block of updates: the mean of each metric, and for episodes the exact sums, so that
lifelong returns are exact although few rows are kept: 4000 during a run, 400 when it has finished,
unless reports need the time of events.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

MAX_ROWS = 4000
"""Most rows during a run, and of finished runs whose reports need the times of events."""
KEPT_ROWS = 400
"""Most rows of other finished runs: a hundred of them fit into 20 MB, with their policies."""
SUMS = ("episodes", "episode_return_sum", "episode_length_sum")
TOTAL = "total_"
"""Metrics with this prefix are summed, too: `Spec.readings`."""
Record = dict[str, np.ndarray]


def block_size(num_updates: int) -> int:
    """Updates per row."""
    return -(-num_updates // MAX_ROWS)


def thin(
    metrics: Mapping[str, np.ndarray], first: int, block: int, steps_per_update: int
) -> Record:
    """Rows of `block` updates each, for the metrics of the updates `first`, `first + 1`, ...

    `first` is a multiple of `block`. Columns: `step` (of the environment, at the end of the row),
    `updates`; the mean of each metric; sums over the episodes that ended in the row and of the
    environment's readings (`TOTAL`); and `epoch_return`, the mean over the `epochs` (updates) in
    which an episode ended of their mean episode return: the paper's lifelong return, unaveraged.
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
        summed = name in SUMS or name.startswith(TOTAL)
        rows[name] = totals(values) if summed else (totals(values) / sizes).astype("f4")
    return rows


def means(record: Record) -> dict[str, float]:
    """A number for each metric of some rows: its mean over updates; sums of episodes and readings.

    `episode_return` is the mean over the episodes that ended, or NaN.
    """
    updates = record["updates"]
    found = {"episode_return": mean_episode_return(record)}
    for name, values in record.items():
        if name in SUMS or name.startswith(TOTAL):
            found[name] = float(values.sum())
        elif name not in ("step", "updates", "epochs", "epoch_return"):
            found[name] = float(np.sum(values * updates) / np.sum(updates))
    return found


def join(parts: list[Record]) -> Record:
    """One record of consecutive ones."""
    return {k: np.concatenate([p[k] for p in parts]) for k in parts[0]} if parts else {}


def shorten(record: Record) -> Record:
    """The same in at most `KEPT_ROWS` rows, each of equally many updates; the last may be
    shorter."""
    count = len(record["step"])
    cuts = np.arange(0, count, -(-count // KEPT_ROWS))
    rows: Record = {"step": record["step"][np.append(cuts[1:], count) - 1]}
    for name, values in record.items():
        if name in ("updates", "epochs", *SUMS) or name.startswith(TOTAL):
            rows[name] = np.add.reduceat(values, cuts)
        elif name != "step":
            weight = record["epochs" if name == "epoch_return" else "updates"]
            total = np.maximum(np.add.reduceat(weight, cuts), 1)
            rows[name] = (np.add.reduceat(values * weight, cuts) / total).astype(values.dtype)
    return rows


def lifelong_return(
    record: Record, after_step: int = 0, before_step: float = float("inf")
) -> float:
    """Mean over epochs after `after_step` of the mean return of the episodes that ended in each.

    Whole rows count: a warm-up ends with a row. `before_step`: only rows that end before it.
    """
    late = (record["step"] > after_step) & (record["step"] < before_step)
    epochs = record["epochs"][late]
    total = np.sum(record["epoch_return"][late] * epochs)
    return float(total / epochs.sum()) if epochs.any() else float("nan")


def mean_episode_return(record: Record, after_step: int = 0) -> float:
    """Mean over the episodes that ended after `after_step`, each with the same weight."""
    late = record["step"] > after_step
    count = record["episodes"][late].sum()
    return float(record["episode_return_sum"][late].sum() / count) if count else float("nan")


def mean_reward(record: Record, after_step: int = 0) -> float:
    """Mean reward per step: for tasks without episodes."""
    reward = mean_metric(record, "reward", after_step)
    assert reward is not None, "every record has it"
    return reward


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
