"""The tables of a configuration file, by type: what is in it, and the defaults."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from lcpo.live import Switchback


class _Table(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A table of the file; an unknown name in it is an error."""


class AgentTable(_Table, frozen=True):
    """What a new folder begins with; an old folder must agree."""

    name: str | None = None
    seed: int = 0
    steps: int | None = None
    policy: str | None = None
    mode: Literal["frozen", "shadow", "switchback", "live"] = "shadow"
    config: dict[str, Any] = {}
    advance: Literal["step", "episode", "own"] = "step"
    normalise: Any = None


class ContextTable(_Table, frozen=True):
    """`lcpo.ContextSlice`."""

    start: int
    channels: int
    lags: int


class SpecTable(_Table, frozen=True):
    """`lcpo.Spec`."""

    obs_size: int
    num_actions: tuple[int, ...]
    context: ContextTable = ContextTable(0, 0, 0)
    obs_levels: tuple[int, ...] | None = None
    elements: tuple[int, int] | None = None
    readings: tuple[str, ...] = ()


class LiveTable(_Table, frozen=True):
    """`lcpo.live.Options`, and how long rewards may take."""

    fallback: Any = None
    incumbent: Any = None
    durability: Literal["process", "power"] = "process"
    learn: Literal["background", "now"] = "background"
    late: int | None = None
    late_seconds: float | None = None
    missing: float | Literal["cut"] = "cut"
    checkpoint_every: int = 10_000
    version_every: int = 10
    keep_versions: int = 5
    keep_log: bool = True
    max_drops: int = 3


class BudgetTable(_Table, frozen=True):
    """`lcpo.live.Budget`."""

    load: list[Any]
    limit: float
    window: int


class GuardTable(_Table, frozen=True):
    """`lcpo.live.Limits`."""

    low: float | list[float] | None = None
    high: float | list[float] | None = None
    change: float | list[float] | None = None
    budget: BudgetTable | None = None


class RollbackTable(_Table, frozen=True):
    """`lcpo.live.Rule`."""

    margin: float
    window: int = 1000


class SwitchbackTable(_Table, frozen=True):
    """`lcpo.live.Switchback`."""

    length: float
    share: float = 0.5
    burn_in: float = 0.0
    seed: int = 0

    def design(self) -> Switchback:
        """The design, checked."""
        return Switchback(self.length, self.share, self.burn_in, self.seed)


class ServeTable(_Table, frozen=True):
    """The address, who may call, and limits."""

    address: str = "127.0.0.1:8080"
    token_file: str | None = None
    hosts: tuple[str, ...] | None = None
    max_body: int = 65536
    max_connections: int = 4096
    max_streams: int = 1000
    request_seconds: float = 10.0
    idle_seconds: float = 75.0
    drain_seconds: float = 0.0


class File(_Table, frozen=True):
    """The whole file."""

    folder: str
    agent: AgentTable = AgentTable()
    spec: SpecTable | None = None
    live: LiveTable = LiveTable()
    guard: GuardTable | None = None
    rollback: RollbackTable | None = None
    switchback: SwitchbackTable | None = None
    serve: ServeTable = ServeTable()
