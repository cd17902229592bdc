"""Online reinforcement learning that does not forget."""

from __future__ import annotations

__version__ = "0.1.0"
