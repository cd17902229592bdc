"""Online reinforcement learning that does not forget.

import lcpo

results = lcpo.train("lcpo", "pendulum", trace="3", steps=1_000_000, seeds=4, out="out/demo")
action = lcpo.load("out/demo").act(obs)
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from lcpo.api import Policy, load, train

with contextlib.suppress(ImportError):  # a bare machine has no gymnasium
    from lcpo.gym.ids import register

    register()

__all__ = ["Policy", "__version__", "load", "train"]


def __getattr__(name: str) -> Any:
    # Loaded on first use: a worker on a bare machine needs none of it.
    if name in ("Policy", "load", "train"):
        from lcpo import api

        return getattr(api, name)
    raise AttributeError(f"module 'lcpo' has no attribute {name!r}")
