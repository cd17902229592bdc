"""Config values that depend on the environment (`lcpo.defaults`). One rule of precedence:

the agent's defaults  <  (agent, env)  <  the variant's  <  (variant, env)  <  the user's
"""

from __future__ import annotations

from typing import Any

from lcpo import config as configs
from lcpo import defaults
from lcpo.types import AnyAgent

Values = defaults.Values


def settings(agent: AnyAgent, env: str, env_class: Any = None) -> Values:
    """Config values of `agent` on the environment called `env`, where they are not defaults.

    `env_class`: of an environment that brings values of its own.
    """
    inherited = settings(agent.parent, env, env_class) if agent.parent else {}
    given = defaults.of(env, env_class).agents.get(agent.name, {})
    return {**inherited, **agent.preset, **given}


def published(agent: AnyAgent, env: str, env_class: Any = None) -> Values:
    """Config values of the published code: its own values and every fault that it has.

    A fault of an option that is off does nothing.
    """
    inherited = published(agent.parent, env, env_class) if agent.parent else {}
    faults = configs.published_faults(agent.Config)
    given = defaults.of(env, env_class).published.get(agent.name, {})
    return {**inherited, **faults, **given}
