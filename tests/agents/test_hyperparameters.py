"""Defaults are the paper's: every row of its table of hyper-parameters, against the configs."""

from __future__ import annotations

import ast
import csv
import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lcpo.agents import AGENTS
from lcpo.core import optim

EPOCH = 200  # steps
TABLE = Path(__file__).parent / "data" / "hyperparameters-gym.csv"
ROWS = {
    (row["agent"], row["hyperparameter"]): row["value"]
    for row in csv.DictReader(TABLE.read_text().splitlines())
}

NETWORKS = ("a2c", "trpo", "ddqn", "sac", "lcpo", "lcpo-p")
ACTORS = ("a2c", "trpo", "sac", "lcpo", "lcpo-p")
ADAM_ACTORS = ("a2c", "sac", "lcpo", "lcpo-p")
"""TRPO's policy has no learning rate: its limit on the KL sets the length of a step."""
ON_POLICY = ("a2c", "trpo", "lcpo", "lcpo-p")

NOT_YET = {"mbcd", "mbpo", "online-ewc", "sliding-ogd", "clear", "bfdqn", "pt-dqn"}
"""Agents of the table that the library does not have."""
NOT_A_FIELD = {
    ("", "Hidden layer activation"): "core.nets: always ReLU",
    ("", "Output layer activation"): "core.nets: always linear; core.dists has the softmax",
    ("", "Optimizer"): "core.optim: Adam with optax's betas, which are these",
    ("", "Random seeds"): "an option of every command",
}


def number(text: str) -> float:
    """The last number of a text such as "1 to 0 in 5000 epochs"; a logarithm is not one."""
    return float(re.findall(r"[\d.]+(?:e-?\d+)?", re.sub(r" ln\(15\)", "", text))[-1])


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
        (("ddqn",), "learning_rate", rate("Critic and DDQN")),
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
            "lcpo-p": {
                "PPO Clipping epsilon": "clip",
                "PPO Iterations (Max)": (lambda config: config.passes * config.minibatches, number),
                "PPO Max KL": "max_kl",
                "kappa": "kappa",
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


@pytest.mark.parametrize(
    ("row", "agent", "field", "parse"),
    CASES,
    ids=[f"{agent}: {row[1]}" for row, agent, *_ in CASES],
)
def test_default_is_the_papers(
    row: tuple[str, str], agent: str, field: Field, parse: Callable[[str], Any]
) -> None:
    if agent not in AGENTS:
        pytest.skip(f"no agent {agent}")
    config = AGENTS[agent].config()
    found = getattr(config, field) if isinstance(field, str) else field(config)
    assert found == parse(ROWS[row]), f"{agent}: the paper has {ROWS[row]!r}"


def test_no_row_is_left_out() -> None:
    known = CHECKS.keys() | NOT_A_FIELD.keys()
    left = [row for row in ROWS if row not in known and row[0] not in NOT_YET]
    assert not left, "neither checked nor exempt"
    assert known <= ROWS.keys(), "names that the table does not have"
    assert not CHECKS.keys() & NOT_A_FIELD.keys()
    assert not NOT_YET & AGENTS.keys(), "agents that are there now: check their rows"
