"""Shared by on-policy agents and agents with replay: sizes, scaled rewards, the entropy bonus.

r <- r / sqrt(Var + reward_var_offset)       Var: of running returns, or of replay's targets
c  = entropy_coef * exp(x)                   x follows Adam on c (H - entropy_target * max H)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from lcpo.config import config, static, traced
from lcpo.core import dynamics, optim, stats
from lcpo.core.nets import Network
from lcpo.types import Array, Spec


@config
class Config:
    """All agents with networks. Defaults are the paper's."""

    rollout_length: int = static(200, "interactions per update", low=1)
    hidden: tuple[int, ...] = static((64, 64), "hidden layer sizes", low=1)
    max_grad_norm: float = traced(1.0, "global gradient norm limit", low=0.0)
    gamma: float = traced(0.99, "discount per unit of time", low=0.0, high=1.0)
    scale_rewards: bool = static(True, "divide rewards by the std of returns (replay: of targets)")
    reward_var_offset: float = traced(1.0, "added to that variance before the root", low=0.0)


@config
class EntropyConfig:
    """The entropy bonus of a policy."""

    entropy_coef: float = traced(0.0, "entropy coefficient, or its start if tuned", low=0.0)
    entropy_target: float = traced(
        0.0, "tune the coefficient towards this share of the maximum; 0: fixed", low=0.0, high=1.0
    )
    entropy_learning_rate: float = traced(1e-3, "learning rate of the log coefficient", low=0.0)


@config
class ModelConfig:
    """A learned model of the environment (`core.dynamics`), and one training of it."""

    ensemble_size: int = static(5, "networks in a model", low=1)
    model_hidden: tuple[int, ...] = static((64, 64, 64), "a model's hidden layer sizes", low=1)
    model_passes: int = static(5, "passes over the draws in one training", low=1)
    model_batches: int = static(5, "gradient steps of a model per pass", low=1)
    model_batch_size: int = static(256, "transitions per gradient step of a model", low=1)

    @property
    def model_draws(self) -> int:
        """Transitions that one training draws."""
        return self.model_batches * self.model_batch_size

    def model(self, spec: Spec, count: int | None = None) -> Network:
        """The networks of a model: all of them, or `count`."""
        return dynamics.make_network(spec, self.model_hidden, count or self.ensemble_size)


def reward_scale(config: Config, moments: stats.RunningMoments) -> Array:
    """The factor on rewards, from the moments of returns or targets."""
    if not config.scale_rewards:
        return jnp.float32(1.0)
    return 1.0 / jnp.sqrt(moments.var + config.reward_var_offset)


def tune_entropy(
    config: EntropyConfig, spec: Spec, tuner: optim.EntropyTuner, entropy: Array
) -> optim.EntropyTuner:
    """One step of the coefficient, after a batch with this mean entropy; none without a target."""
    target, rate = config.entropy_target * spec.actions.max_entropy, config.entropy_learning_rate
    tuned = optim.entropy_step(tuner, config.entropy_coef, entropy, target, rate)
    has_target = config.entropy_target > 0.0
    return jax.tree.map(lambda new, old: jnp.where(has_target, new, old), tuned, tuner)
