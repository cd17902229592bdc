"""Defaults are the paper's, or the published code's where the paper says nothing.

First every row of the paper's table of hyper-parameters; then every field of every agent, so that
no default changes unseen.
"""

from __future__ import annotations

import ast
import csv
import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from each import for_each

from lcpo.agents import AGENTS, lcpo_p, ppo, presets, trpo
from lcpo.config import resolve, to_json
from lcpo.core import nets, ood, optim, stats, trust_region

EPOCH = 200  # steps
TABLE = Path(__file__).parent / "data" / "hyperparameters-gym.csv"
ROWS = {
    (row["agent"], row["hyperparameter"]): row["value"]
    for row in csv.DictReader(TABLE.read_text().splitlines())
}

NETWORKS = (
    "a2c", "trpo", "ddqn", "bfdqn", "pt-dqn", "sac", "online-ewc", "clear", "lcpo", "lcpo-p",
)  # fmt: skip
ACTORS = ("a2c", "trpo", "sac", "online-ewc", "clear", "lcpo", "lcpo-p")
ADAM_ACTORS = ("a2c", "sac", "online-ewc", "clear", "lcpo", "lcpo-p")
"""TRPO's policy has no learning rate: its limit on the KL sets the length of a step."""
ON_POLICY = ("a2c", "trpo", "lcpo", "lcpo-p")

NOT_A_FIELD = {
    ("", "Hidden layer activation"): "core.nets: always ReLU",
    ("", "Output layer activation"): "core.nets: always linear; lcpo.distributions has the softmax",
    ("", "Optimizer"): "core.optim: Adam with optax's betas, which are these",
    ("", "Random seeds"): "an option of every command",
    ("mbpo", "k (rollout length)"): "agents.mbpo: always one step",
}


def number(text: str) -> float:
    """The last number of a text such as "1 to 0 in 5000 epochs"; a logarithm is not one."""
    return float(re.findall(r"[\d.]+(?:e-?\d+)?", re.sub(r" ln\(15\)", "", text))[-1])


def first_number(text: str) -> float:
    return number(text.split()[0])


def epochs(text: str) -> float:
    assert text.endswith("epochs")
    return number(text) * EPOCH


def rate(kind: str) -> Callable[[str], float]:
    """The actors' learning rate, or that of critics and DDQN."""
    return lambda text: number(dict(part.split(": ") for part in text.split(", "))[kind])


def share(text: str) -> float:
    """What a buffer holds of all samples."""
    return 1.0 if text.startswith("All samples") else number(text.split("%")[0]) / 100


def kept(config: Any) -> float:
    """The share of the run's steps that the buffer holds by default."""
    field = next(f for f in dataclasses.fields(config) if f.name == "buffer_size")
    assert config.buffer_size is None
    return field.metadata["share"]


Field = str | Callable[[Any], Any]
CHECKS: dict[tuple[str, str], list[tuple[tuple[str, ...], Field, Callable[[str], Any]]]] = {
    ("", "Hidden layers"): [(NETWORKS, "hidden", ast.literal_eval)],
    ("", "Learning rate"): [
        (ADAM_ACTORS, "learning_rate", rate("Actor")),
        (ACTORS, "value_learning_rate", rate("Critic and DDQN")),
        (("ddqn", "bfdqn"), "learning_rate", rate("Critic and DDQN")),
    ],
    ("", "Weight decay"): [(NETWORKS, lambda config: optim.WEIGHT_DECAY, number)],
    ("", "lambda (for GAE in A2C and TRPO)"): [(ON_POLICY, "lam", number)],
    ("", "gamma"): [(NETWORKS, "gamma", number)],
    **{
        (agent, name): [((agent,), field, parse)]
        for agent, fields in {
            "a2c": {"Rollout per epoch": "rollout_length"},
            "trpo": {
                "Rollout per epoch": "rollout_length",
                "Damping coefficient": "damping",
                "Stepsize": "max_kl",
            },
            "ddqn": {
                "Rollout per epoch": "rollout_length",
                "Batch Size": "batch_size",
                "Initial fully random period": ("random_steps", epochs),
                "epsilon-greedy schedule": ("epsilon_steps", epochs),
                "Polyak alpha": "target_rate",
                "Buffer size N": (kept, share),
            },
            "sac": {
                "Rollout per epoch": "rollout_length",
                "Batch Size": "batch_size",
                "Initial fully random period": ("random_steps", epochs),
                "Base Entropy": "entropy_coef",
                "Entropy Target": "entropy_target",
                "Log-Entropy Learning Rate": "entropy_learning_rate",
                "Polyak alpha": "target_rate",
                "Buffer size N": (kept, share),
            },
            "lcpo": {
                "Rollout per epoch": "rollout_length",
                "Base Entropy": "entropy_coef",
                "Entropy Target": "entropy_target",
                "Log-Entropy Learning Rate": "entropy_learning_rate",
                "Buffer Size n_b": (kept, share),
                "Damping coefficient": "damping",
                "c_anchor": "c_anchor",
                "c_recent": "c_recent",
                "sigma": "sigma",
            },
            "clear": {
                "Value Clone Coefficient": "value_clone_coef",
                "Policy Clone Coefficient": "policy_clone_coef",
                "Entropy Coefficient": "entropy_coef",
                "V-Trace rho": "max_rho",
                "V-Trace c": "max_c",
            },
            "lcpo-p": {
                "PPO Clipping epsilon": "clip",
                "PPO Iterations (Max)": (lambda config: config.passes * config.minibatches, number),
                "PPO Max KL": "max_kl",
                "kappa": "kappa",
            },
            "mbpo": {
                "M (model rollouts)": "model_samples",
                "N (ensemble size)": "ensemble_size",
                "G (gradient steps)": "updates_per_rollout",
            },
            "mbcd": {
                "h": ("threshold", first_number),
                "max_std": ("max_disagreement", first_number),
                "N (ensemble size)": "ensemble_size",
                "NN hidden layers": ("model_hidden", ast.literal_eval),
            },
            "bfdqn": {
                "Depth": "chain_length",
                "Benna Fusi Buffer Length": "buffer_size",
                "g_1_2": "flow",
            },
            "online-ewc": {
                "averaging weight beta": ("averaging_rate", first_number),
                "scaling factor alpha": "penalty_coef",
            },
            "sliding-ogd": {
                "learning rate alpha": "learning_rate",
                "N (window size)": "window",
            },
            "pt-dqn": {
                "Permanent Learning Rate": "permanent_learning_rate",
                "Transient Learning Rate": "learning_rate",
                "Target Update Period N": "target_period",
                "Permanent Update period K": "permanent_period",
                "Transient Forget Factor lambda": "forget_factor",
            },
        }.items()
        for name, entry in fields.items()
        for field, parse in [entry if isinstance(entry, tuple) else (entry, number)]
    },
}


CASES = [
    (row, agent, field, parse)
    for row, checks in CHECKS.items()
    for agents, field, parse in checks
    for agent in agents
]


@for_each("row, agent, field, parse", CASES)
def test_default_is_the_papers(
    row: tuple[str, str], agent: str, field: Field, parse: Callable[[str], Any]
) -> None:
    config = AGENTS[agent].config()
    if isinstance(field, str) and getattr(config, field) is None:
        config = resolve(config, 8_000_000)
    found = getattr(config, field) if isinstance(field, str) else field(config)
    assert found == parse(ROWS[row]), f"{agent}: the paper has {ROWS[row]!r}"


def test_no_row_is_left_out() -> None:
    known = CHECKS.keys() | NOT_A_FIELD.keys()
    left = [row for row in ROWS if row not in known]
    assert not left, "neither checked nor exempt"
    assert known <= ROWS.keys(), "names that the table does not have"
    assert not CHECKS.keys() & NOT_A_FIELD.keys()


# The published code: rewards / sqrt(Var + 1); gradient norms of 0.5 (A2C's policy, all value
# functions) and 1 (DDQN, SAC, PPO's policy); no entropy bonus but for LCPO, LCPO-P and SAC.
COMMON = {
    "rollout_length": 200, "hidden": [64, 64], "gamma": 0.99, "scale_rewards": True,
    "reward_var_offset": 1.0,
}  # fmt: skip
FIXED_ENTROPY = {"entropy_coef": 0.0, "entropy_target": 0.0, "entropy_learning_rate": 1e-3}
ACTOR_CRITIC = {
    **COMMON, **FIXED_ENTROPY, "value_learning_rate": 1e-3, "max_grad_norm": 0.5, "faults": [],
}  # fmt: skip
ON = {**ACTOR_CRITIC, "lam": 0.9, "value_steps": 1}
A2C = {**ON, "learning_rate": 4e-4}
TUNED_ENTROPY = {"entropy_coef": 0.03, "entropy_target": 0.1}
PAST = {
    **TUNED_ENTROPY, "sigma": 1.0, "detector": "l2", "buffer_size": None, "sampling_rounds": 5,
    "recent_batches": 1,
}  # fmt: skip
LCPO = {
    **A2C, **PAST, "c_anchor": 1e-4, "c_recent": 0.1, "damping": 0.1, "cg_iterations": 15,
    "dual": False,
}  # fmt: skip
LCPO_PLUS = {
    **LCPO, "detector": "everything", "value_steps": 5, "cg_iterations": 8, "c_0": 3e-3,
    "tau": 333.0, "w_v": 4.0, "w_pi": 0.25, "entropy_floor": True,
}  # fmt: skip
TRPO = {**ON, "rollout_length": 3200, "max_kl": 0.01, "damping": 0.1}
PPO = {
    **A2C, "policy_max_grad_norm": 1.0, "clip": 0.2, "max_kl": 0.01, "passes": 3, "minibatches": 10,
}  # fmt: skip
REPLAY = {
    **COMMON, "max_grad_norm": 1.0, "updates_per_rollout": 1, "batch_size": 512,
    "buffer_size": None, "random_steps": None,
}  # fmt: skip
EPSILON = {**REPLAY, "learning_rate": 1e-3, "epsilon_steps": None}
DDQN = {**EPSILON, "target_rate": 0.01}
SAC = {
    **REPLAY, "target_rate": 0.01, "learning_rate": 4e-4, "value_learning_rate": 1e-3,
    "entropy_coef": 0.1, "entropy_target": 0.1, "entropy_learning_rate": 1e-3, "faults": [],
}  # fmt: skip
EWC = {**SAC, "penalty_coef": 0.1, "averaging_rate": 7e-5}
OGD = {**SAC, "learning_rate": 1e-4, "value_learning_rate": 1e-4, "window": 1000}
CLEAR = {
    **ACTOR_CRITIC, "learning_rate": 4e-4, "entropy_coef": 5e-3, "updates_per_rollout": 1,
    "buffer_size": None, "max_rho": 1.0, "max_c": 1.0, "policy_clone_coef": 1e-3,
    "value_clone_coef": 1e-2,
}  # fmt: skip
PT_DQN = {
    **EPSILON, "permanent_learning_rate": 1e-5, "permanent_optimiser": "adam",
    "permanent_period": 20_000, "forget_factor": 0.999, "target_period": 2000,
}  # fmt: skip
IDEAL_MBPO = {**SAC, "model_samples": 512}
MODEL = {
    "ensemble_size": 5, "model_hidden": [64, 64, 64], "model_passes": 5, "model_batches": 5,
    "model_batch_size": 256,
}  # fmt: skip
HEDGE = {
    "rollout_length": 10, "quantile": 0.95, "memory": 120.0, "budget": 0.05, "refill": 1.0,
    "capacity": 100.0,
}  # fmt: skip
HEDGES = {
    "never-hedge": 8, "hedge-3ms": 0, "hedge-10ms": 1, "hedge-30ms": 2, "hedge-60ms": 3,
    "hedge-100ms": 4, "hedge-300ms": 5, "hedge-600ms": 6, "hedge-1000ms": 7,
}  # fmt: skip
DEFAULTS: dict[str, dict[str, Any]] = {
    "a2c": A2C,
    "a2c-entropy": {**A2C, **TUNED_ENTROPY},
    "lcpo": LCPO,
    "lcpo-noent": {**LCPO, "entropy_coef": 0.0, "entropy_target": 0.0},
    "lcpo-uniform": {**LCPO, "detector": "everything"},
    "lcpo-mhd": {**LCPO, "detector": "mahalanobis-full", "sigma": 12**0.5},
    "lcpo-p": {**PPO, **PAST, "kappa": 10.0},
    # Of no paper: docs/agents/lcpo-plus.md.
    "lcpo-plus": LCPO_PLUS,
    "lcpo-plus-ood": {**LCPO_PLUS, "detector": "l2"},
    "trpo": TRPO,
    "ppo": PPO,
    "ppo-entropy": {**PPO, **TUNED_ENTROPY},
    "clear": CLEAR,
    "ddqn": DDQN,
    "bfdqn": {**DDQN, "buffer_size": 2000, "chain_length": 13, "flow": 1e-3},
    # The permanent optimiser is the paper's for all networks, not that of PT-DQN's authors.
    "pt-dqn": PT_DQN,
    "pt-dqn-sgd": {**PT_DQN, "permanent_optimiser": "sgd"},
    "sac": SAC,
    "online-ewc": EWC,
    "sliding-ogd": OGD,
    "ideal-mbpo": IDEAL_MBPO,
    "mbpo": {**IDEAL_MBPO, **MODEL},
    "mbcd": {
        **SAC, **MODEL, "threshold": 1000.0, "new_stds": 2.0, "max_disagreement": 3.0,
        "min_steps": 5000, "max_models": 7, "forget": 100, "model_memory": 100_000,
        "max_trainings": 2, "train_every": [10, 100, 250, 5000, 2000],
        "train_until": [250, 5000, 40_000, 60_000],
    },
    # The value table and its rate are ours; the rest is the published grid world's.
    "tabular-a2c": {
        **A2C, "learning_rate": 0.1, "value_learning_rate": 0.1, "gamma": 0.9, "lam": 0.95,
        "reward_var_offset": 1e-8, "value": "table", "hidden": [32, 32],
    },
    # Of no paper: docs/agents/tabular-q.md.
    "tabular-q": {
        "rollout_length": 200, "learning_rate": 1.0, "omega": 0.7, "epsilon": 0.1, "gamma": 0.99,
    },
    # Of no paper: docs/agents/constant.md, docs/agents/hedging.md.
    "random": {"rollout_length": 200},
    "constant": {"rollout_length": 200, "action": -1.0, "actions": []},
    **{
        name: {"rollout_length": 200, "action": float(i), "actions": []}
        for name, i in HEDGES.items()
    },
    "hedge-p95": HEDGE,
    "hedge-cap": {"rollout_length": 10, "cap": 0.05, "memory": 120.0, "capacity": 100.0},
    "hedge-sketch": {**HEDGE, "quantile": 0.9, "memory": 2400.0, "budget": 1.0, "refill": 0.1},
    "hedge-table": {
        "rollout_length": 10, "memory": 100.0,
        "loads": [0.125, 0.175, 0.225, 0.275, 0.325, 0.425],
        "multiples": [0.02, 0.066, 0.197, 0.395, 0.658, 1.974],
    },
    "hedge-hourly": {"rollout_length": 10, "schedule": [], "num_windows": 7200},
    "prescient-a2c": {**A2C, "rollout_length": 3200},
    "prescient-trpo": {**TRPO, "rollout_length": 10_000},
    "prescient-ddqn": {
        **DDQN, "rollout_length": 3200, "random_steps": 3_200_000, "epsilon_steps": 16_000_000,
    },
    "prescient-sac": {**SAC, "rollout_length": 3200, "random_steps": 3_200_000},
}  # fmt: skip


@for_each("name", AGENTS)
def test_every_default(name: str) -> None:
    assert to_json(AGENTS[name].config()) == DEFAULTS[name]


PRESCIENT_STEPS = {"a2c": 32_000_000, "trpo": 10_000_000, "ddqn": 32_000_000, "sac": 32_000_000}


def test_prescient_training_is_as_long_as_published() -> None:
    for name, steps in PRESCIENT_STEPS.items():
        training = AGENTS[f"prescient-{name}"].training
        assert training is not None
        assert training.steps == steps
        assert training.halve == (() if name == "trpo" else ("learning_rate",))
        assert training.halve_at == (0.5, 0.6, 0.7, 0.8, 0.9)


def test_constants_of_the_published_code() -> None:
    assert trust_region.CG_ITERATIONS == 15
    assert trust_region.CG_TOLERANCE == 1e-10
    assert trust_region.MAX_BACKTRACKS == 10
    assert trust_region.MIN_IMPROVEMENT_RATIO == 0.1
    assert (trpo.SLACK, ppo.STOP_FACTOR, lcpo_p.WINDOW) == (1.5, 1.5, 1000)
    assert optim.WEIGHT_DECAY == nets.mlp((1, 1)).weight_decay == 1e-4
    assert nets.table((2,), 1).weight_decay == 0.0
    assert [float(x) for x in stats.moments_init()] == pytest.approx([0.0, 1.0, 1e-4])
    assert ood.RIDGE == 1e-6  # ours: the published code has none


GRID = {"hidden": [32, 32], "reward_var_offset": 1e-8}
PUBLISHED_GRID: dict[str, dict[str, Any]] = {
    "a2c": {**GRID, "gamma": 0.9, "lam": 0.8, "learning_rate": 1e-3, "value_learning_rate": 1e-3},
    "lcpo": {
        **GRID, "gamma": 0.9, "lam": 0.8, "learning_rate": 4e-4, "value_learning_rate": 1e-3,
        "c_anchor": 1e-5, "c_recent": 0.1, "damping": 0.1, "sigma": 0.5**0.5, "entropy_coef": 0.1,
        "entropy_target": 0.1, "buffer_size": 4_000_000,
    },
    "tabular-a2c": {
        **GRID, "gamma": 0.9, "lam": 0.95, "learning_rate": 0.1, "value_learning_rate": 1e-3,
        "value": "mlp",
    },
}  # fmt: skip


@for_each("name", PUBLISHED_GRID)
def test_the_published_grid_world(name: str) -> None:
    agent = AGENTS[name]
    values = {**presets.settings(agent, "grid-world"), **presets.published(agent, "grid-world")}
    found = to_json(agent.config(**values))
    assert {field: found[field] for field in PUBLISHED_GRID[name]} == PUBLISHED_GRID[name]
