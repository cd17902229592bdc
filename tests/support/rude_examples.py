"""Environments and an agent that do what no one should in a worker process."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from host_examples import Drift, Worlds

from lcpo.agents import AGENTS
from lcpo.config import config, static
from lcpo.types import Step

MANNERS = ("", "talks", "raises", "exits", "dies", "closes")


@config
class Rude(Drift):
    """A drift that behaves until its third step."""

    manner: str = static("", "what it does then", choices=MANNERS)

    def open(self, num_worlds: int, seeds: Sequence[int], threads: int | None = None) -> RudeWorlds:
        del threads
        return RudeWorlds(self, np.array(seeds, np.uint64))


class RudeWorlds(Worlds):
    env: Rude

    def step(self, action: np.ndarray, context: np.ndarray) -> Step:
        if self.steps[0] == 2:
            misbehave(self.env.manner)
        return super().step(action, context)

    def close(self) -> None:
        if self.env.manner == "closes" and self.steps[0] > 2:
            raise OSError("the door is jammed")


def misbehave(manner: str) -> None:
    if manner == "talks":
        print("python prints")
        os.write(1, b"written to descriptor 1\n")
        subprocess.run(["echo", "a child speaks"], check=True)
        try:
            input()
        except EOFError:
            print("no answer", file=sys.stderr)
    if manner == "raises":
        raise OSError("[/data/x.csv] is gone\n[red]for ever")
    if manner == "exits":
        sys.exit(3)
    if manner == "dies":
        print("its last words")
        os._exit(7)


def loud_update(*arguments: Any) -> Any:
    jax.debug.print("jax prints")
    return AGENTS["a2c"].update(*arguments)


loud = dataclasses.replace(AGENTS["a2c"], name="loud", update=loud_update)
