"""Environments driven by an observed, exogenous context. They know nothing of agents.

base              protocols of both kinds of environments, and the layout of observations
entries           names and lags of the entries of an observation
pendulum          compiled: the windy Pendulum, and the plain one
gridworld         compiled: the paper's grid world with a trap
probes            compiled: tiny tasks whose answers are known
mujoco            four robots in a wind: host, and three of them compiled
planar            equations of motion of rigid bodies in a plane
compiled_worlds   a compiled environment stepped as a host one
checked           checks of arguments that host environments share
"""

from __future__ import annotations

from typing import Any

from lcpo.envs.gridworld import GridWorld
from lcpo.envs.mujoco.tasks import Hopper, InvertedDoublePendulum, InvertedPendulum, Reacher
from lcpo.envs.pendulum import Pendulum, PlainPendulum
from lcpo.envs.probes import TwoContexts
from lcpo.names import Registry

__all__ = ["ENVS"]

ENVS: Registry[type[Any]] = Registry(
    {
        "grid-world": GridWorld,
        "pendulum": Pendulum,
        "pendulum-v1": PlainPendulum,
        "inverted-pendulum": InvertedPendulum,
        "inverted-double-pendulum": InvertedDoublePendulum,
        "reacher": Reacher,
        "hopper": Hopper,
        "straggler": "lcpo.straggler.task:Straggler",
        # The only probe with a name: it measures forgetting (docs/probes.md). The others help to
        # find faults of an agent.
        "probe-two-contexts": TwoContexts,
    }
)
"""By the names that `--env` takes."""
