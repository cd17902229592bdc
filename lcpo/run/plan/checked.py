"""Contracts that were found kept: a study asks for the same agents and worlds a thousand times."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import jax

from lcpo import config as configs
from lcpo.envs.base import AnyEnv, is_host
from lcpo.run.plan.check import check_agent, check_env, check_service
from lcpo.types import AnyAgent, Spec

_kept: set[Hashable] = set()


def check_agent_once(agent: AnyAgent, config: Any, spec: Spec) -> None:
    """`check_agent`; its shapes not again where only values differ that no program depends on."""
    program = (agent, jax.tree.structure(config), spec)
    if program in _kept:
        check_service(agent, config, spec)
    else:
        check_agent(agent, config, spec)
    _kept.add(program)


def check_env_once(env: AnyEnv, name: str) -> None:
    """`check_env`; not again for a compiled environment with the same values."""
    title, cls = f"environment {name!r}", type(env)
    if is_host(env):
        check_env(env, title)
        return
    functions = (getattr(cls, "reset", None), getattr(cls, "step", None))
    known = (cls, functions, repr(configs.to_json(env)))
    if known not in _kept:
        check_env(env, title)
    _kept.add(known)
