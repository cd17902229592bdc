"""`lcpo.live.open`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from lcpo import values
from lcpo.envs.base import Advance
from lcpo.live import folder as folders
from lcpo.live.desk import MODES, SHADOW, SWITCHBACK, Desk
from lcpo.live.folder import Options
from lcpo.live.service import LiveAgent, ModeName
from lcpo.live.switchback import Switchback
from lcpo.run import compile_cache
from lcpo.types import AnyAgent, Spec


def open(
    folder: str | Path,
    agent: str | AnyAgent | None = None,
    spec: Spec | None = None,
    config: Mapping[str, Any] | Any = None,
    seed: int = 0,
    *,
    mode: ModeName | None = None,
    switchback: Switchback | None = None,
    policy: str | Path | None = None,
    steps: int | None = None,
    advance: Advance = "step",
    normalise: Any = None,
    late: int | None = None,
    late_seconds: float | None = None,
    missing: float | Literal["cut"] = "cut",
    trust: bool = False,
    **options: Any,
) -> LiveAgent:
    """Open the folder of a live agent, or begin one.

    Args:
      folder: of this agent alone. If there is one, it continues: omit the arguments up to
        `missing`, or give the same ones.
      agent, spec, config, seed, steps, advance, normalise, late, late_seconds, missing: as of
        `lcpo.Learner`.
      mode: "shadow" (the default of a new folder), "switchback", "live" or "frozen".
      switchback: the design of the experiment, for switchback mode.
      policy: a finished run, or its policy.npz, for a new folder that starts with its policy.
      trust: import an agent that is not part of this library.
      options: fields of `lcpo.live.Options`: guard, fallback, incumbent, rollback, learn, ...
    """
    path = values.path("folder", folder)
    known = [field.name for field in dataclasses.fields(Options)]
    for name in options.keys() - set(known):
        values.refuse(name, options[name], f"to be one of {', '.join(known)}")
    served = Options(**options)
    if mode is not None and mode not in MODES:
        values.refuse("mode", mode, f"one of {', '.join(MODES)}")
    if switchback is not None and not isinstance(switchback, Switchback):
        values.refuse("switchback", switchback, "a design, such as Switchback(length=3600)")
    given = {
        "agent": agent, "spec": spec, "config": config, "seed": seed, "steps": steps,
        "advance": advance, "normalise": normalise, "late": late, "late_seconds": late_seconds,
        "missing": missing,
    }  # fmt: skip
    compile_cache.use()
    if folders.is_begun(path):
        folders.check_given(path, given)
        with contextlib.ExitStack() as stack:
            made = LiveAgent(path, served, agent, trust)
            stack.push(made)
            if mode not in (None, made.mode) or _is_new(switchback, made):
                made.set_mode(mode or SWITCHBACK, switchback)
            stack.pop_all()  # it stays open
        return made
    first = mode or SHADOW
    if first == SWITCHBACK and switchback is None:
        values.refuse("switchback", switchback, "a design, such as Switchback(length=3600)")
    folders.begin(path, given, policy, Desk(first, switchback), trust, served)
    return LiveAgent(path, served, agent, trust)


def _is_new(switchback: Switchback | None, made: LiveAgent) -> bool:
    return made.mode == SWITCHBACK and switchback not in (None, made.design)
