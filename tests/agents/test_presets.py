"""Settings by environment: the one rule of precedence, and every entry of the tables."""

from __future__ import annotations

import dataclasses

import pytest

from lcpo.agents import AGENTS, a2c, on_policy, presets
from lcpo.config import config, make, with_default
from lcpo.errors import InputError
from lcpo.types import Agent


def test_one_rule_of_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Defaults < (agent, env) < the variant's < (variant, env) < the user's."""
    child = a2c.agent.variant("child", gamma=0.3, lam=0.3, entropy_coef=0.3)
    tables = {
        ("a2c", "here"): {"hidden": (2,), "gamma": 0.2, "lam": 0.2, "entropy_coef": 0.2},
        ("child", "here"): {"lam": 0.4, "entropy_coef": 0.4},
        ("child", "elsewhere"): {"gamma": 0.9},
    }
    monkeypatch.setattr(presets, "SETTINGS", tables)
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


@pytest.mark.parametrize("table", [presets.SETTINGS, presets.PUBLISHED], ids=["ours", "published"])
def test_every_entry_can_be_built(table: dict[tuple[str, str], presets.Values]) -> None:
    for (name, env), values in table.items():
        agent = AGENTS[name]
        published = presets.published(agent, env) if table is presets.PUBLISHED else {}
        config = agent.config(**{**presets.settings(agent, env), **published})
        for field, value in values.items():
            assert getattr(config, field) == value, (name, env, field)


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
