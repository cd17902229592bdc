"""Tabular A2C: A2C with one row of logits, and one value, per observation.

For finite observation spaces (`spec.obs_levels`), where it shows what forgetting is not: a table
keeps the rows that it does not visit, so a context that comes back finds its policy as it was left.

The paper says that both functions are tables. In the code behind its figure the value function is
an MLP (`value="mlp"`). Tables are not decayed towards zero; the MLP is, as everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from lcpo.agents import a2c
from lcpo.config import config, static, traced
from lcpo.core import optim
from lcpo.errors import InputError
from lcpo.types import Agent, Array, Spec


@config
class Config(a2c.Config):
    """Tabular A2C. Defaults are the paper's, but for the value table and its learning rate."""

    learning_rate: float = traced(0.1, "policy learning rate (Adam)", low=0.0)
    value_learning_rate: float = traced(0.1, "value learning rate (Adam); MLP: 1e-3", low=0.0)
    gamma: float = traced(0.9, "discount per unit of time", low=0.0, high=1.0)
    lam: float = traced(0.95, "GAE lambda", low=0.0, high=1.0)
    reward_var_offset: float = traced(1e-8, "added to that variance before the root", low=0.0)
    value: str = static("table", "value function", choices=("table", "mlp"))
    hidden: tuple[int, ...] = static((32, 32), "hidden layer sizes of an MLP value", low=1)


class Table(NamedTuple):
    """One row of outputs per observation: parameters that apply themselves (`a2c.outputs`)."""

    entries: Array  # [*levels, outputs]

    weight_decay = 0.0

    def __call__(self, obs: Array) -> Array:
        """[..., D] -> [..., outputs]."""
        *levels, num_outputs = self.entries.shape
        return self.entries.reshape(-1, num_outputs)[row_number(obs, levels)]


def row_number(obs: Array, levels: Sequence[int]) -> Array:
    """Rows [...] of obs [..., D]; entry d of an observation is one of 0 .. levels[d] - 1."""
    stride = [math.prod(levels[d + 1 :]) for d in range(len(levels))]
    return obs.astype(jnp.int32) @ jnp.asarray(stride, jnp.int32)


State = a2c.State
"""A2C's, with a `Table` for the policy, and for the value unless it is an MLP."""


def init(config: Config, spec: Spec, key: Array) -> State:
    """Tables of zeros: the uniform policy."""
    assert spec.obs_levels is not None, "checked by `check`"
    state = a2c.init(config, spec, key)
    empty = optim.adam(0.0, 1.0)
    width = spec.action_size * max(spec.num_actions)
    policy = Table(jnp.zeros((*spec.obs_levels, width)))
    state = state._replace(policy=policy, policy_opt=empty.init(policy))
    if config.value == "table":
        value = Table(jnp.zeros((*spec.obs_levels, 1)))
        state = state._replace(value=value, value_opt=empty.init(value))
    return state


def check(config: Any, spec: Spec) -> None:
    """A table needs a finite observation space."""
    del config
    if spec.obs_levels is None:
        raise InputError(
            f"tables: the environment's {spec.obs_size} observation entries have no finite "
            "levels (spec.obs_levels is None): use an agent with networks, such as a2c"
        )


agent = Agent(
    "tabular-a2c", Config, init, a2c.act, a2c.update, check=check, probabilities=a2c.probabilities
)
