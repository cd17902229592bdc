"""Agents of the straggler task against the published code: its networks, discounts and updates.

The record's Adam has an eps of 1e-8, ours 1e-5 (docs/deviations.md, row 18).
"""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden_files import assert_params, cases, close, estimate, load, mlp_params

from lcpo.agents import a2c, lcpo, on_policy
from lcpo.agents.anchors import Anchors
from lcpo.core import ood, optim, returns
from lcpo.core.nets import DeepSet
from lcpo.straggler.task import WINDOW_MS, Straggler
from lcpo.types import Transition

SPEC = Straggler().spec
SERVERS_TOGETHER = np.r_[np.arange(20).reshape(2, 10).T.ravel(), 20:32]
"""The record has ten queues and then ten averages; here those of a server stand together."""
UNSAFE = 31


def ours(obs: np.ndarray) -> jax.Array:
    return jnp.asarray(obs[..., SERVERS_TOGETHER])


def deep_set(g: dict[str, np.ndarray], prefix: str) -> DeepSet:
    return DeepSet(mlp_params(g, f"{prefix}_mapper"), mlp_params(g, f"{prefix}_reducer"))


def assert_networks(state: on_policy.State, g: dict[str, np.ndarray], stage: str) -> None:
    for name, found in {"policy": state.policy, "value": state.value}.items():
        assert_params(found.element, g, f"{stage}_{name}_mapper", 2e-6)
        assert_params(found.whole, g, f"{stage}_{name}_reducer", 2e-6)


@cases("straggler_net_gae_ood_*")
def test_networks(case: Path) -> None:
    """(queue, its average) of each server -> mean -> with the rest of the observation."""
    g = load(case)
    networks = on_policy.make_networks(a2c.Config(hidden=(32, 16)), SPEC)
    logits = networks.policy.apply(deep_set(g, "policy"), ours(g["obs"]))[:, 0]
    close(logits, g["logits"], rtol=1e-5, atol=1e-5)
    value = networks.value.apply(deep_set(g, "value"), ours(g["obs"]))[:, 0]
    close(value, g["value"], rtol=1e-5, atol=1e-5)


@cases("straggler_net_gae_ood_*")
def test_returns_of_steps_that_last(case: Path) -> None:
    """A rate per ms there is a discount per window of 500 ms here."""
    g = load(case)
    gamma = np.exp(g["gamma_rate"] * WINDOW_MS)
    close(gamma, 0.9, rtol=1e-6)
    discount = returns.discounts(jnp.float32(gamma), jnp.asarray(g["gae_times_ms"] / WINDOW_MS))
    reward, value, following = (
        jnp.asarray(g[f"gae_{k}"]) for k in ("rewards", "values", "next_values")
    )
    done = jnp.asarray(g["gae_done"], jnp.float32)
    never = jnp.zeros_like(done)
    found = returns.returns(reward, following, discount, done, never)
    close(found, g["gae_returns"], rtol=1e-5, atol=1e-5)
    found = returns.advantages(
        reward, value, following, discount, done, never, jnp.float32(g["lam"])
    )
    close(found, g["gae_advantages"][:, 0], rtol=1e-5, atol=1e-5)


@cases("straggler_net_gae_ood_*")
def test_ood(case: Path) -> None:
    """D^2 > 4 * threshold there; here the distance is per dimension, of which there are two."""
    g = load(case)
    found = ood.mahalanobis(SPEC.context, ours(g["ood_base"]), ours(g["ood_data"]))
    close(found, 2.0 * np.abs(g["ood_raw_independent"]), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found > 2.0 * abs(float(g["ood_threshold"])), g["ood_mask"])
    assert 0 < g["ood_mask"].sum() < g["ood_mask"].size


def prepared(
    g: dict[str, np.ndarray], cls: type, monkeypatch: pytest.MonkeyPatch, **more: Any
) -> tuple[Any, on_policy.State]:
    """The config of a case, and its networks with fresh optimisers."""
    monkeypatch.setattr(optim, "adam", partial(optim.adam, eps=float(g["adam_eps"])))
    assert g["weight_decay"] == optim.WEIGHT_DECAY
    rate = jnp.float32(g["lr"])
    config = cls(
        hidden=(32, 16),
        gamma=jnp.float32(np.exp(g["gamma_rate"] * WINDOW_MS)),
        lam=jnp.float32(g["lam"]),
        learning_rate=rate,
        value_learning_rate=rate,
        max_grad_norm=jnp.float32(g["grad_clip"]),
        entropy_coef=jnp.float32(g["entropy_factor"]),
        entropy_target=jnp.float32(0.0),
        scale_rewards=False,
        **more,
    )
    policy, value = deep_set(g, "init_policy"), deep_set(g, "init_value")
    state = on_policy.init(config, SPEC, jax.random.key(0))
    return config, state._replace(policy=policy, value=value)


def data_of(
    g: dict[str, np.ndarray], k: int, config: Any, state: on_policy.State
) -> on_policy.Data:
    """What update k learns from; unsafe steps have weight 0."""
    obs = ours(g["obs"][k])
    batch = Transition(
        obs,
        jnp.asarray(g["actions"][k], jnp.int32),
        jnp.asarray(g["rewards"][k]),
        ours(g["next_obs"][k]),
        jnp.asarray(g["done"][k]),
        jnp.zeros(len(obs), bool),
        jnp.asarray(g["times_ms"][k] / WINDOW_MS),
        1.0 - obs[:, UNSAFE],
        (),
    )
    _, data = estimate(config, SPEC, state, jax.tree.map(lambda x: x[:, None], batch))
    close(data.target, g["returns"][k], rtol=1e-5, atol=2e-5)
    close(data.advantage, g["advantages"][k, :, 0], rtol=1e-5, atol=2e-5)
    assert 0.0 < data.weight.mean() < 1.0
    return data


@cases("straggler_update_a2c_*", later=("straggler_update_a2c_0",))
def test_a2c_update(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums over safe steps are divided by the number of *all* steps there, and here of safe ones.

    So their gradient is ours times the share of safe steps: equal where gains are scaled by it.
    """
    g = load(case)
    config, state = prepared(g, a2c.Config, monkeypatch)
    networks = on_policy.make_networks(config, SPEC)
    base = config.entropy_coef

    @jax.jit
    def learn(config: Any, state: on_policy.State, data: on_policy.Data) -> Any:
        gradient = on_policy.policy_gradient(config, SPEC, networks.policy, state, data)
        policy, opt = on_policy.adam_step(config, networks.policy, state, gradient.grads)
        state = state._replace(policy=policy, policy_opt=opt)
        return on_policy.finish(config, SPEC, networks, state, data, gradient)

    for k, stage in enumerate(("step1", "final")):
        data = data_of(g, k, config, state)
        share = data.weight.mean()
        scaled = data._replace(advantage=share * data.advantage)
        weaker = dataclasses.replace(config, entropy_coef=share * base)
        state, metrics = learn(weaker, state, scaled)
        without_entropy = metrics["policy_loss"] - base * g["neg_entropy"][k]
        close(without_entropy, g["pg_loss"][k], rtol=1e-5, atol=2e-5)
        close(metrics["value_loss"], g["v_loss"][k], rtol=1e-5, atol=2e-5)
        assert_networks(state, g, stage)


@cases("straggler_update_lcpo_*")
def test_lcpo_update(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unsafe steps are left out of the policy's loss, by whose number it is divided."""
    g = load(case)
    limits = {"c_anchor": "trpo_kl_out", "c_recent": "trpo_kl_in", "damping": "damping"}
    values = {name: jnp.float32(g[theirs]) for name, theirs in limits.items()}
    config, state = prepared(g, lcpo.Config, monkeypatch, **values)
    learn = jax.jit(lambda *a: lcpo.learn(config, SPEC, *a))
    for k, stage in enumerate(("step1", "final")):
        data = data_of(g, k, config, state)
        anchors = Anchors(ours(g["ood_obs"][k]), jnp.bool_(True))
        state, metrics = learn(state, data, anchors)
        close(metrics["value_loss"], g["v_loss"][k], rtol=1e-5, atol=2e-5)
        close(metrics["grad_norm"], g["monitor_pg_norm"][k], rtol=1e-4)
        close(metrics["anchor_kl"], g["monitor_kl_out_of_d"][k], rtol=1e-2, atol=1e-7)
        assert_networks(state, g, stage)
