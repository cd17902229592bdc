"""Online reinforcement learning that does not forget.

import lcpo

results = lcpo.train("lcpo", "pendulum", trace="3", steps=1_000_000, seeds=4, out="out/demo")
action = lcpo.load("out/demo").act(obs)
print(lcpo.compare("lcpo,lcpo[sigma=2],a2c", "pendulum", trace="3", steps=1_000_000))
"""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any

from lcpo import moved

__version__ = "0.2.0"

if TYPE_CHECKING:
    from lcpo.api import train
    from lcpo.comparison import Comparison, compare
    from lcpo.errors import InputError, RunError
    from lcpo.gym import from_gymnasium
    from lcpo.live import Learner
    from lcpo.policy import Policy, load
    from lcpo.tuning import Tuning, tune
    from lcpo.types import ContextSlice, Spec

__all__ = [
    "Comparison",
    "ContextSlice",
    "InputError",
    "Learner",
    "Policy",
    "RunError",
    "Spec",
    "Tuning",
    "__version__",
    "compare",
    "from_gymnasium",
    "load",
    "train",
    "tune",
]

_HOMES = {
    "Comparison": "lcpo.comparison",
    "ContextSlice": "lcpo.types",
    "InputError": "lcpo.errors",
    "Learner": "lcpo.live",
    "Policy": "lcpo.policy",
    "RunError": "lcpo.errors",
    "Spec": "lcpo.types",
    "Tuning": "lcpo.tuning",
    "compare": "lcpo.comparison",
    "from_gymnasium": "lcpo.gym",
    "load": "lcpo.policy",
    "train": "lcpo.api",
    "tune": "lcpo.tuning",
}
"""Loaded on first use: workers on bare machines do not need them."""

moved.install()
with contextlib.suppress(ImportError):  # a bare machine has no gymnasium
    from lcpo.gym import register

    register()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lcpo' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
