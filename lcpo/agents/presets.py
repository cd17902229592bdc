"""Config values that depend on the environment, as tables. One rule of precedence:

    the agent's defaults  <  (agent, env)  <  the variant's  <  (variant, env)  <  the user's

`SETTINGS` holds ours, `PUBLISHED` those of the published code where they differ from ours. An
environment may bring values of its own (`lcpo.envs.base.agent_settings_of`), which come last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lcpo import config as configs
from lcpo.types import AnyAgent

Values = dict[str, Any]

_GRID: Values = {"hidden": (32, 32), "gamma": 0.95, "lam": 0.8, "reward_var_offset": 1e-8}
_REPLAY_GRID: Values = {"hidden": (32, 32), "gamma": 0.95, "reward_var_offset": 1e-8}

# The probe: small networks, quick steps. The entropy bonus is fixed and the same for all: a policy
# that has become deterministic in A may never learn B, and would have nothing to forget for.
_PROBE: Values = {"rollout_length": 40, "hidden": (32, 32)}
_RATES: Values = {"learning_rate": 3e-3, "value_learning_rate": 3e-3}
_SOFT: Values = {"entropy_coef": 0.2, "entropy_target": 0.0}
_REPLAY_PROBE: Values = {
    **_PROBE, "updates_per_rollout": 4, "batch_size": 64, "random_steps": 400,
}  # fmt: skip
_MODEL_PROBE: Values = {
    "model_hidden": (32, 32), "ensemble_size": 3, "model_passes": 2, "model_batch_size": 64,
}  # fmt: skip
# Q-learning explores until late in B: where the old answer pays nothing, the other is not tried
# otherwise.
_Q_PROBE: Values = {**_REPLAY_PROBE, "learning_rate": 3e-3, "epsilon_steps": 20_000}

SETTINGS: dict[tuple[str, str], Values] = {
    # The grid world: docs/envs/grid_world.md says why gamma and c_anchor are not the published
    # 0.9 and 1e-5, with which LCPO learns on 11 of 16 seeds only.
    ("a2c", "grid-world"): {**_GRID, "learning_rate": 1e-3},
    ("a2c-entropy", "grid-world"): {"entropy_coef": 0.1},  # LCPO's
    ("lcpo", "grid-world"): {
        **_GRID, "c_anchor": 3e-7, "sigma": 0.5**0.5, "entropy_coef": 0.1,
    },
    ("trpo", "grid-world"): _GRID,
    ("ppo", "grid-world"): _GRID,
    ("ppo-entropy", "grid-world"): {"entropy_coef": 0.1},  # LCPO-P's
    ("lcpo-p", "grid-world"): {**_GRID, "sigma": 0.5**0.5, "entropy_coef": 0.1},
    ("tabular-a2c", "grid-world"): {"learning_rate": 0.03, "gamma": 0.95},
    ("clear", "grid-world"): _REPLAY_GRID,
    ("ddqn", "grid-world"): _REPLAY_GRID,
    ("bfdqn", "grid-world"): _REPLAY_GRID,
    ("pt-dqn", "grid-world"): _REPLAY_GRID,
    ("sac", "grid-world"): _REPLAY_GRID,
    ("mbcd", "grid-world"): _REPLAY_GRID,
    ("online-ewc", "grid-world"): _REPLAY_GRID,
    ("sliding-ogd", "grid-world"): _REPLAY_GRID,
    ("mbpo", "grid-world"): _REPLAY_GRID,
    ("tabular-q", "grid-world"): {"gamma": 0.95},
    # docs/probes.md. Variants keep what makes them variants: their automatic entropy, or none.
    ("a2c", "probe-two-contexts"): {**_PROBE, **_RATES, **_SOFT},
    ("lcpo", "probe-two-contexts"): {**_PROBE, **_RATES, **_SOFT},
    ("lcpo-p", "probe-two-contexts"): {**_PROBE, **_RATES, **_SOFT, "learning_rate": 1e-3},
    ("trpo", "probe-two-contexts"): {**_PROBE, **_SOFT, "value_learning_rate": 3e-3},
    ("ppo", "probe-two-contexts"): {**_PROBE, **_RATES, **_SOFT},
    ("clear", "probe-two-contexts"): {**_PROBE, **_RATES, **_SOFT},
    ("ddqn", "probe-two-contexts"): {**_Q_PROBE, "target_rate": 0.05},
    ("bfdqn", "probe-two-contexts"): {**_Q_PROBE, "target_rate": 0.05},
    ("pt-dqn", "probe-two-contexts"): {
        **_Q_PROBE, "target_period": 200, "permanent_period": 1000, "permanent_learning_rate": 1e-3,
    },
    ("sac", "probe-two-contexts"): {**_REPLAY_PROBE, **_RATES, "target_rate": 0.05},
    ("mbcd", "probe-two-contexts"): {
        **_REPLAY_PROBE, **_RATES, "target_rate": 0.05, **_MODEL_PROBE, "min_steps": 1000,
        "forget": 20,
    },
    ("online-ewc", "probe-two-contexts"): {**_REPLAY_PROBE, **_RATES, "target_rate": 0.05},
    ("sliding-ogd", "probe-two-contexts"): {
        **_REPLAY_PROBE, "target_rate": 0.05, "learning_rate": 0.1, "value_learning_rate": 0.1,
        "window": 50,
    },
    ("mbpo", "probe-two-contexts"): {
        **_REPLAY_PROBE, **_RATES, **_SOFT, "target_rate": 0.05, "model_hidden": (32, 32),
        "model_passes": 2, "model_batches": 4, "model_batch_size": 64, "model_samples": 64,
    },
}  # fmt: skip

PUBLISHED: dict[tuple[str, str], Values] = {
    ("a2c", "grid-world"): {"gamma": 0.9},
    ("lcpo", "grid-world"): {"gamma": 0.9, "c_anchor": 1e-5, "buffer_size": 4_000_000},
    ("tabular-a2c", "grid-world"): {
        "gamma": 0.9, "learning_rate": 0.1, "value": "mlp", "value_learning_rate": 1e-3,
    },
}  # fmt: skip


def settings(agent: AnyAgent, env: str, own: Mapping[str, Mapping[str, Any]] = {}) -> Values:
    """Config values of `agent` on the environment called `env`, where they are not defaults.

    `own`: what the environment itself says of agents, by name.
    """
    inherited = settings(agent.parent, env, own) if agent.parent else {}
    ours, theirs = SETTINGS.get((agent.name, env), {}), own.get(agent.name, {})
    return {**inherited, **agent.preset, **ours, **theirs}


def published(agent: AnyAgent, env: str) -> Values:
    """Config values of the published code: its own values and every fault that it has.

    A fault of an option that is off does nothing.
    """
    inherited = published(agent.parent, env) if agent.parent else {}
    faults = configs.published_faults(agent.Config)
    return {**inherited, **faults, **PUBLISHED.get((agent.name, env), {})}
