"""Config values of agents on the straggler task, at the scale of the paper: 20.7M windows.

The environment scales its rewards, and gamma is per window of 500 ms. Most values are those of the
published code (docs/envs/straggler.md).
"""

from __future__ import annotations

from typing import Any

Values = dict[str, Any]

_ALL: Values = {"hidden": (32, 16), "gamma": 0.9, "scale_rewards": False}
_RATES: Values = {"learning_rate": 1e-3, "value_learning_rate": 1e-3}
_ON: Values = {
    **_ALL, "rollout_length": 4608, "lam": 0.95, "value_learning_rate": 1e-3,
    "max_grad_norm": 1.0,
}  # fmt: skip
_A2C: Values = {**_ON, "learning_rate": 1e-3}
# D^2 > 28 in two dimensions, the paper's LCPO Cons; Med has 12 and Agg 10 for the 14.
_ANCHORS: Values = {
    "detector": "mahalanobis", "sigma": 14**0.5, "recent_batches": 5, "entropy_coef": 0.01,
}  # fmt: skip
_REPLAY: Values = {**_ALL, "rollout_length": 128, "random_steps": 128_000}
_Q: Values = {**_REPLAY, "epsilon_steps": 640_000}
_SAC: Values = {**_REPLAY, "target_rate": 0.005, "entropy_coef": 0.01}
_PRESCIENT: Values = {"rollout_length": 512, "random_steps": 512_000}

SETTINGS: dict[str, Values] = {
    "a2c": _A2C,
    "a2c-entropy": {"entropy_coef": 0.01},  # LCPO's
    "trpo": {**_ON, "rollout_length": 10_240},
    "ppo": {**_A2C, "minibatches": 9},
    "ppo-entropy": {"entropy_coef": 0.01},  # LCPO-P's
    "lcpo": {**_A2C, **_ANCHORS},
    "lcpo-p": {**_A2C, **_ANCHORS, "minibatches": 9},
    "clear": {
        **_ALL, **_RATES, "rollout_length": 4608, "max_grad_norm": 1.0,
    },
    "ddqn": _Q,
    "bfdqn": _Q,
    "pt-dqn": {
        **_Q, "target_period": 1280, "permanent_period": 12_800,
    },
    "sac": {**_SAC, **_RATES},
    "online-ewc": {**_SAC, **_RATES},
    "mbcd": {**_SAC, **_RATES, "threshold": 300_000.0},
    "mbpo": {**_SAC, **_RATES},
    "sliding-ogd": _SAC,  # its rates are lengths of steps
    # Random for 1000 updates; DDQN's epsilon falls in the 5000 after them.
    "prescient-a2c": {"rollout_length": 512},
    "prescient-trpo": {"rollout_length": 8192},
    "prescient-ddqn": {**_PRESCIENT, "epsilon_steps": 2_560_000},
    "prescient-sac": _PRESCIENT,
}  # fmt: skip
"""By agent."""
