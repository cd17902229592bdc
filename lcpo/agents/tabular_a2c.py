"""Tabular A2C: A2C with one row of logits, and one value, per observation.

For finite observation spaces (`spec.obs_levels`). A table does not forget: rows that are not
visited stay as they are, so a recurring context finds its policy unchanged.

The paper says that both functions are tables. In the code behind its figure the value function is
an MLP (`value="mlp"`). Tables have no weight decay; the MLP does.
"""

from __future__ import annotations

from typing import Any

from lcpo.agents import a2c, on_policy
from lcpo.agents.on_policy import Networks
from lcpo.config import config, static, traced, with_default
from lcpo.core import nets
from lcpo.errors import InputError
from lcpo.types import Agent, Spec


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

    def networks(self, spec: Spec) -> Networks:
        """Tables of zeros: a uniform policy."""
        assert spec.obs_levels is not None, "checked by `check`"
        logits = nets.table(spec.obs_levels, spec.actions.num_outputs)
        value = nets.table(spec.obs_levels, 1)
        if self.value == "mlp":
            value = nets.for_spec(spec, self.hidden, 1)
        return Networks(nets.per_action(logits, spec.actions), value)


def check(config: Any, spec: Spec) -> None:
    """A table needs a finite observation space."""
    del config
    if spec.obs_levels is None:
        raise InputError(
            f"tables: the environment's {spec.obs_size} observation entries have no finite "
            "levels (spec.obs_levels is None): use an agent with networks, such as a2c"
        )


agent = Agent(
    "tabular-a2c", Config, on_policy.init, on_policy.act, a2c.update, check=check,
    probabilities=on_policy.probabilities, raw=True,
)  # fmt: skip
