"""Small made-up files in the formats of public request data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def azure(path: Path) -> Path:
    """Three requests, 0.5 and 1.5 s apart."""
    np.savez(path, arrival_s=[0.0, 0.5, 2.0], generated_tokens=[10, 20, 60], source="made up")
    return path


def world_cup(path: Path) -> Path:
    """Four minutes, of which the third is empty."""
    np.savez(path, count=np.array([600, 1200, 0, 6000], np.int32), bin_s=60, source="made up")
    return path


def servegen(folder: Path, **changes: dict[str, Any]) -> Path:
    """Two clients in two windows of 10 minutes, which are two periods; one has no histogram.

    `changes`: entries of the file `arrivals` or `tokens` that take the place of these.
    """
    arrivals: dict[str, Any] = {
        "client": np.array([0, 0, 1], np.int16), "t_start_s": np.array([0, 600, 600], np.int32),
        "n_requests": np.array([3000, 500, 1000], np.int32),
        "family": np.array([0, 1, 1], np.uint8), "shape": np.array([0.1, 2.0, 0.5], np.float32),
        "n_windows": 2, "window_s": 600,
    }  # fmt: skip
    tokens: dict[str, Any] = {
        "client": np.array([0, 0, -1], np.int16), "t_start_s": np.array([0, 600, 600], np.int32),
        "ptr": np.array([0, 2, 3, 5], np.int32), "token": np.array([10, 50, 7, 0, 3], np.uint16),
        "count": np.array([3, 1, 9, 1, 1], np.int32), "period_s": 600,
        "clients_without_file": np.array([1], np.int16),
    }  # fmt: skip
    np.savez(folder / "x_output_tokens.npz", **(tokens | changes.get("tokens", {})))
    np.savez(folder / "x_arrivals.npz", **(arrivals | changes.get("arrivals", {})))
    return folder / "x_arrivals.npz"
