"""Run a command of `lcpo` in this process."""

from __future__ import annotations

from lcpo.cli.main import main

QUICK = ["--hidden", "8", "8", "--rollout-length", "20", "--workers", "0"]
"""Small networks, short rollouts, no other processes."""


def run(*arguments: str) -> int:
    """Exit code of a command."""
    try:
        return main(list(arguments))
    except SystemExit as stop:
        return int(stop.code or 0)
