"""Environments driven by an observed, exogenous context. They know nothing of agents."""

from __future__ import annotations

from lcpo.envs.gridworld import GridWorld
from lcpo.envs.mujoco.tasks import Hopper, InvertedDoublePendulum, InvertedPendulum, Reacher
from lcpo.envs.pendulum import Pendulum, PlainPendulum
from lcpo.gym.from_gym import from_gymnasium

__all__ = ["ENVS", "from_gymnasium"]

ENVS: dict[str, type] = {
    "grid-world": GridWorld,
    "pendulum": Pendulum,
    "pendulum-v1": PlainPendulum,
    "inverted-pendulum": InvertedPendulum,
    "inverted-double-pendulum": InvertedDoublePendulum,
    "reacher": Reacher,
    "hopper": Hopper,
}
