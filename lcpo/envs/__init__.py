"""Environments driven by an observed, exogenous context. They know nothing of agents.

base              the protocols of both kinds of environments, and the layout of observations
pendulum          compiled: the windy Pendulum, and the plain one
gridworld         compiled: the paper's grid world with a trap
probes            compiled: tiny tasks whose answers are known
mujoco            host: four robots in a wind
compiled_worlds   a compiled environment played with as a host one
actions           what an environment takes as an action, as plain values
history           the context history of a stream that has no trace
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
        # The only probe with a name: it asks whether a method forgets, which is what this library
        # is about (docs/probes.md). The others look for faults of an agent, and serve tests.
        "probe-two-contexts": TwoContexts,
    }
)
"""By the names that `--env` takes."""
