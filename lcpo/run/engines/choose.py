"""Engines by name."""

from __future__ import annotations

from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.run.engines.base import Engine
from lcpo.run.engines.local import LocalEngine

ENGINES = ("local",)


def make_engine(name: str, workers: int | None, address: str | None) -> Engine:
    """The engine called `name`, with so many processes at a time; `address`: of a cluster."""
    if name not in ENGINES:
        raise InputError(unknown("engine", name, ENGINES))
    if address is not None:
        raise InputError(f"address = {address!r}: the engine {name!r} runs here, leave it out")
    return LocalEngine(workers)
