"""Where a result comes from: versions, commit and device, for manifests."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np


def provenance() -> dict[str, Any]:
    """Of this process."""
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
    """Commit of the checkout that this package lies in; "+" behind it: with changes.

    A copy without its history, or with another's (on a cluster, in a container), is told by
    LCPO_COMMIT, which comes first.
    """
    here = Path(__file__).resolve().parents[3]
    told = os.environ.get("LCPO_COMMIT")
    if told or not (here / ".git").exists():
        return told
    try:
        commit = _git(here, "rev-parse", "--short=12", "HEAD")
        return commit + ("+" if _git(here, "status", "--porcelain", "--", "lcpo") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
