"""Settings by environment: the one rule of precedence, and every entry of the tables."""

from __future__ import annotations

import dataclasses

import pytest

from lcpo import defaults
from lcpo.agents import AGENTS, a2c, on_policy, presets
from lcpo.config import config, make, with_default
from lcpo.defaults import Defaults
from lcpo.errors import InputError
from lcpo.straggler.task import Straggler
from lcpo.types import Agent


def test_one_rule_of_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Defaults < (agent, env) < the variant's < (variant, env) < the user's."""
    child = a2c.agent.variant("child", gamma=0.3, lam=0.3, entropy_coef=0.3)
    here = {
        "a2c": {"hidden": (2,), "gamma": 0.2, "lam": 0.2, "entropy_coef": 0.2},
        "child": {"lam": 0.4, "entropy_coef": 0.4},
    }
    tables = {"here": Defaults(agents=here), "elsewhere": Defaults(agents={"child": {"gamma": 1}})}
    monkeypatch.setattr(defaults, "ENVIRONMENTS", tables)
    found = child.config(**{**presets.settings(child, "here"), "entropy_coef": 0.5})
    assert found.max_grad_norm == a2c.Config().max_grad_norm
    assert (found.hidden, found.gamma, found.lam, found.entropy_coef) == ((2,), 0.3, 0.4, 0.5)


def test_a_variant_has_its_parents_settings() -> None:
    agent = AGENTS["ppo-entropy"]
    found = agent.config(**presets.settings(agent, "grid-world"))
    assert (found.hidden, found.gamma, found.entropy_coef) == ((32, 32), 0.95, 0.1)
    assert found.entropy_target == 0.1


def test_a_name_that_begins_alike_gets_nothing() -> None:
    mine = Agent("a2cx", a2c.Config, on_policy.init, on_policy.act, a2c.update)
    assert presets.settings(mine, "grid-world") == {}
    assert "gamma" not in presets.published(mine, "grid-world")


@pytest.mark.parametrize("kind", ["agents", "published"])
def test_every_entry_can_be_built(kind: str) -> None:
    entries = [
        (name, env, values)
        for env, known in defaults.ENVIRONMENTS.items()
        for name, values in getattr(known, kind).items()
    ]
    assert entries
    for name, env, values in entries:
        agent = AGENTS[name]
        published = presets.published(agent, env) if kind == "published" else {}
        config = agent.config(**{**presets.settings(agent, env), **published})
        for field, value in values.items():
            assert getattr(config, field) == value, (name, env, field)


STRAGGLER = {
    "a2c": {"rollout_length": 4608, "learning_rate": 1e-3, "lam": 0.95, "entropy_coef": 0.0},
    "a2c-entropy": {"entropy_coef": 0.01, "entropy_target": 0.1},
    "trpo": {"rollout_length": 10_240, "max_kl": 0.01, "damping": 0.1},
    "lcpo": {
        "rollout_length": 4608, "learning_rate": 1e-3, "max_grad_norm": 1.0, "c_anchor": 1e-4,
        "c_recent": 0.1, "damping": 0.1, "entropy_coef": 0.01, "entropy_target": 0.1,
        "recent_batches": 5, "sampling_rounds": 5, "buffer_size": None, "detector": "mahalanobis",
    },
    "lcpo-uniform": {"detector": "everything", "recent_batches": 5},
    "lcpo-plus": {"detector": "everything", "rollout_length": 4608, "entropy_coef": 0.01},
    "lcpo-plus-ood": {"detector": "mahalanobis", "recent_batches": 5, "rollout_length": 4608},
    "ddqn": {
        "rollout_length": 128, "batch_size": 512, "random_steps": 128_000, "target_rate": 0.01,
        "epsilon_steps": 640_000, "learning_rate": 1e-3, "max_grad_norm": 1.0,
    },
    "sac": {"target_rate": 0.005, "entropy_coef": 0.01, "entropy_target": 0.1},
    "online-ewc": {"learning_rate": 1e-3, "penalty_coef": 0.1, "averaging_rate": 7e-5},
    "mbcd": {
        "threshold": 300_000.0, "max_disagreement": 3.0, "new_stds": 2.0, "min_steps": 5000,
        "ensemble_size": 5, "model_hidden": (64, 64, 64), "model_memory": 100_000,
    },
    "mbpo": {"model_samples": 512, "rollout_length": 128, "random_steps": 128_000},
    "prescient-a2c": {"rollout_length": 512, "gamma": 0.9},
    "prescient-trpo": {"rollout_length": 8192},
    "prescient-ddqn": {"random_steps": 512_000, "epsilon_steps": 2_560_000},
    "prescient-sac": {"rollout_length": 512, "random_steps": 512_000, "target_rate": 0.005},
}  # fmt: skip
"""Values of the published runs, and LCPO+ like them; that some are defaults is no matter."""


def test_the_straggler_task_is_that_of_the_published_runs() -> None:
    for name, values in STRAGGLER.items():
        config = AGENTS[name].config(**presets.settings(AGENTS[name], "straggler", Straggler))
        for field, value in values.items():
            assert getattr(config, field) == value, (name, field)
    lcpo = AGENTS["lcpo"].config(**presets.settings(AGENTS["lcpo"], "straggler", Straggler))
    assert 2.0 * lcpo.sigma**2 == pytest.approx(28.0)  # per dimension here, of two


def test_all_agents_with_networks_can_take_the_straggler_task() -> None:
    spec = Straggler().spec
    for agent in AGENTS.values():
        fields = {f.name for f in dataclasses.fields(agent.Config)}
        if "hidden" not in fields or agent.name in ("ideal-mbpo", "tabular-a2c"):
            continue
        config = agent.config(**presets.settings(agent, "straggler", Straggler))
        assert (config.hidden, config.gamma, config.scale_rewards) == ((32, 16), 0.9, False)
        if agent.check is not None:
            agent.check(config, spec)


def test_published_means_all_faults() -> None:
    for agent in AGENTS.values():
        found = agent.config(**{**agent.presets, **presets.published(agent, "pendulum")})
        fields = {f.name: f for f in dataclasses.fields(agent.Config)}
        if "faults" in fields:
            assert found.faults == tuple(fields["faults"].metadata["choices"])


def test_another_default_keeps_help_and_bounds() -> None:
    @config
    class Mine(a2c.Config):
        gamma: float = with_default(a2c.Config, "gamma", 0.5)

    assert Mine().gamma == 0.5
    with pytest.raises(InputError, match="discount per unit of time"):
        make(Mine, {"gamma": 1.5})
