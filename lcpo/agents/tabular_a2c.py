"""Tabular A2C: A2C with one row of logits, and one value, per observation.

For finite observation spaces (`spec.obs_levels`), where it shows what forgetting is not: a table
keeps the rows that it does not visit, so a context that comes back finds its policy as it was left.

The paper says that both functions are tables. In the code behind its figure the value function is
an MLP (`value="mlp"`). Tables are not decayed towards zero; the MLP is, as everywhere.
"""

from __future__ import annotations

from typing import Any

from lcpo.agents import a2c, on_policy
from lcpo.agents.on_policy import Networks, State
from lcpo.config import config, static, traced, with_default
from lcpo.core import nets
from lcpo.errors import InputError
from lcpo.types import Agent, Array, Metrics, Spec, Transition


@config
class Config(a2c.Config):
    """Tabular A2C. Defaults are the paper's, but for the value table and its learning rate."""

    learning_rate: float = with_default(a2c.Config, "learning_rate", 0.1)
    value_learning_rate: float = traced(0.1, "value learning rate (Adam); MLP: 1e-3", low=0.0)
    gamma: float = with_default(a2c.Config, "gamma", 0.9)
    lam: float = with_default(a2c.Config, "lam", 0.95)
    reward_var_offset: float = with_default(a2c.Config, "reward_var_offset", 1e-8)
    value: str = static("table", "value function", choices=("table", "mlp"))
    hidden: tuple[int, ...] = static((32, 32), "hidden layer sizes of an MLP value", low=1)


def make_networks(config: Config, spec: Spec) -> Networks:
    """Tables: of zeros, which is the uniform policy."""
    assert spec.obs_levels is not None, "checked by `check`"
    logits = nets.table(spec.obs_levels, spec.actions.num_outputs)
    value = nets.table(spec.obs_levels, 1)
    if config.value == "mlp":
        value = nets.for_spec(spec, config.hidden, 1)
    return Networks(nets.per_action(logits, spec.actions), value)


def init(config: Config, spec: Spec, key: Array) -> State:
    """Empty tables."""
    return on_policy.init(config, spec, key, make_networks(config, spec))


def act(config: Config, spec: Spec, state: State, obs: Array, key: Array) -> tuple[Array, tuple]:
    """Sample from the policy."""
    return on_policy.act(config, spec, state, obs, key, make_networks(config, spec))


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """A2C's."""
    return a2c.update(config, spec, state, batch, key, make_networks(config, spec))


def check(config: Any, spec: Spec) -> None:
    """A table needs a finite observation space."""
    del config
    if spec.obs_levels is None:
        raise InputError(
            f"tables: the environment's {spec.obs_size} observation entries have no finite "
            "levels (spec.obs_levels is None): use an agent with networks, such as a2c"
        )


def probabilities(config: Config, spec: Spec, state: State, obs: Array) -> Array:
    """Action probabilities [N, A, K]."""
    return on_policy.probabilities(config, spec, state, obs, make_networks(config, spec))


agent = Agent(
    "tabular-a2c", Config, init, act, update, check=check, probabilities=probabilities, raw=True
)
