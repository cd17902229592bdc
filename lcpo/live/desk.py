"""What a live agent keeps besides its learner's state: a `Desk`, and the words for who decides."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from lcpo.live.guard import Memory
from lcpo.live.keys import Keys
from lcpo.live.switchback import Switchback, Total
from lcpo.live.versions import Rule, Watch

FROZEN, SHADOW, SWITCHBACK, LIVE = "frozen", "shadow", "switchback", "live"
MODES = (FROZEN, SHADOW, SWITCHBACK, LIVE)
POLICY, INCUMBENT, GUARD, FALLBACK = "policy", "incumbent", "guard", "fallback"
SOURCES = (POLICY, INCUMBENT, GUARD, FALLBACK)
Decider = Callable[[np.ndarray], Any]
"""From a whole observation [D] to an action."""


class Made(NamedTuple):
    """What is kept of a decision until its reward is known."""

    source: str
    version: int
    time: float
    policys: bool
    """Whether it was the policy's turn, whoever decided in the end."""
    counts: bool = False
    """Whether its reward belongs to the current switchback experiment."""


@dataclasses.dataclass
class Desk:
    """What changes besides the learner's state."""

    mode: str = SHADOW
    switchback: Switchback | None = None
    made: dict[int, Made] = dataclasses.field(default_factory=dict)
    memories: dict[str, Memory] = dataclasses.field(default_factory=dict)
    """What guards must know, by stream."""
    blocks: dict[int, Total] = dataclasses.field(default_factory=dict)
    """Rewards of the blocks of the current switchback experiment."""
    decided: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    """Decisions by source."""
    rewards: dict[str, Total] = dataclasses.field(default_factory=dict)
    """Rewards by source."""
    drops: int = 0
    """Updates that were dropped since the last one that was not."""
    watch: Watch | None = None
    due: bool = False
    """Whether the watch asks for a rollback."""
    keys: Keys = dataclasses.field(default_factory=Keys)
    """Decisions that may be asked for again."""
    returns: dict[int, int] = dataclasses.field(default_factory=dict)
    """Versions that recovery may need, and the sequence of the newest return to each."""
    untrained: set[int] = dataclasses.field(default_factory=lambda: {0})
    """Versions whose policy is the one that the agent began with."""

    def is_policys(self, time: float) -> bool:
        """Whether it is the policy's turn."""
        if self.mode == SWITCHBACK and self.switchback is not None:
            return self.switchback.is_policys(self.switchback.block(time))
        return self.mode in (LIVE, FROZEN)

    def begin_experiment(self, design: Switchback) -> None:
        """Count from nothing. Rewards that decisions before wait for belong to no block of it."""
        self.switchback, self.blocks = design, {}
        self.made = {number: made._replace(counts=False) for number, made in self.made.items()}

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        return {
            "mode": self.mode,
            "switchback": self.switchback and dataclasses.asdict(self.switchback),
            "made": {str(number): list(made) for number, made in self.made.items()},
            "memories": {name: list(memory) for name, memory in self.memories.items()},
            "blocks": {str(number): list(total) for number, total in self.blocks.items()},
            "decided": dict(self.decided),
            "rewards": {source: list(total) for source, total in self.rewards.items()},
            "drops": self.drops,
            "watch": self.watch and self.watch.to_json(),
            "due": self.due,
            "keys": self.keys.to_json(),
            "returns": [list(pair) for pair in self.returns.items()],
            "untrained": sorted(self.untrained),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any], rule: Rule | None) -> Desk:
        """The inverse of `to_json`; the rule may be another."""
        design, watch = found["switchback"], found["watch"]
        memories = {
            name: Memory(None if action is None else tuple(action), tuple(loads))
            for name, (action, loads) in found["memories"].items()
        }
        desk = cls(
            found["mode"],
            None if design is None else Switchback(**design),
            {int(number): Made(*made) for number, made in found["made"].items()},
            memories,
            {int(number): Total(*total) for number, total in found["blocks"].items()},
            collections.Counter(found["decided"]),
            {source: Total(*total) for source, total in found["rewards"].items()},
            found["drops"],
            keys=Keys(found.get("keys", ())),
            returns={version: sequence for version, sequence in found.get("returns", ())},
            untrained=set(found.get("untrained", (0,))),
        )
        if rule is not None:
            desk.watch = Watch(rule) if watch is None else Watch.from_json(rule, watch)
            desk.due = found["due"]
        return desk
