"""Tests run on the CPU unless $JAX_PLATFORMS says otherwise, and compile in haste.

Most of the suite's time would be XLA optimising programs that run for milliseconds.
"""

from __future__ import annotations

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)
