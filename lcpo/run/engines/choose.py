"""Engines by name, for commands."""

from __future__ import annotations

from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.run.engines.base import Engine
from lcpo.run.engines.local import LocalEngine
from lcpo.run.engines.ray import RayEngine
from lcpo.run.engines.slurm import SlurmEngine

ENGINES = ("local", "ray", "slurm")


def make_engine(
    name: str,
    workers: int | None = None,
    address: str | None = None,
    checkpoint_seconds: float = 60.0,
) -> Engine:
    """The engine called `name`; `address`: of a Ray cluster. InputError where there is none."""
    if name not in ENGINES:
        raise InputError(unknown("engine", name, ENGINES))
    if name == "ray":
        return RayEngine(address, workers, checkpoint_seconds)
    if address is not None:
        raise InputError(f"address {address!r} is that of a Ray cluster: it needs --engine ray")
    kind = LocalEngine if name == "local" else SlurmEngine
    return kind(workers, checkpoint_seconds)
