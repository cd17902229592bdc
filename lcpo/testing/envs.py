"""The contracts of environments: what `lcpo check-env` checks."""

from __future__ import annotations

import sys

from lcpo.envs.base import AnyEnv
from lcpo.errors import InputError
from lcpo.study.advice.examine import NUM_STEPS, examine
from lcpo.testing.contracts import ContractError


def check_env(env: AnyEnv, *, num_steps: int = NUM_STEPS) -> None:
    """Raise ContractError with every problem that `lcpo check-env` would print.

    Args:
      env: an environment for lcpo; wrap one of Gymnasium's kind with `lcpo.from_gymnasium`.
      num_steps: to play, with random actions in three worlds.
    """
    gymnasium, name = sys.modules.get("gymnasium"), type(env).__name__
    if gymnasium is not None and isinstance(env, gymnasium.Env):
        raise InputError(
            f"{name} is a Gymnasium environment: pass lcpo.from_gymnasium({name}, context=...)"
        )
    findings = examine(env, name, num_steps=num_steps)
    problems = [text for level, text in findings if level == "problem"]
    if problems:
        raise ContractError(
            "\n  ".join([f"environment {name!r} breaks {len(problems)} contract(s).", *problems])
        )
