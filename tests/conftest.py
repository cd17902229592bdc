"""Tests run on the CPU unless $JAX_PLATFORMS says otherwise."""

from __future__ import annotations

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
