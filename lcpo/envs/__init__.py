"""Environments driven by an observed, exogenous context. They know nothing of agents."""

from __future__ import annotations

from lcpo.envs.gridworld import GridWorld
from lcpo.envs.pendulum import Pendulum, PlainPendulum

ENVS: dict[str, type] = {
    "grid-world": GridWorld,
    "pendulum": Pendulum,
    "pendulum-v1": PlainPendulum,
}
