"""TRPO, PPO and LCPO-P against the published code's updates, with its faults on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden_files import (
    assert_params,
    batch_of,
    cases,
    close,
    close_vector,
    estimate,
    flat,
    load,
    rounding,
    settings,
    start,
)
from jax.flatten_util import ravel_pytree

from lcpo.agents import lcpo_p, on_policy, ppo, trpo
from lcpo.agents.anchors import ADD_BEFORE_SAMPLE, Anchors
from lcpo.core import trust_region

LEAKS = on_policy.TRUNCATION_LEAKS


def trpo_settings(g: dict[str, np.ndarray], *faults: str) -> Any:
    assert g["kl_accept_factor"] == trpo.SLACK
    kl, damping = jnp.float32(g["trpo_kl"]), jnp.float32(g["damping"])
    return settings(g, trpo.Config, max_kl=kl, damping=damping, faults=(LEAKS, *faults))


@cases("update_trpo_*")
def test_trpo_update(case: Path) -> None:
    g = load(case)
    config = trpo_settings(g, trpo.KL_SLACK)
    spec, state = start(g, config)
    update = jax.jit(trpo.update, static_argnums=1)
    for k in range(len(g["obs"])):
        state, metrics = update(config, spec, state, batch_of(g, k), jax.random.key(0))
        close(metrics["value_loss"], g["v_loss"][k], rtol=1e-5, atol=2e-5)
        assert metrics["step_fraction"] == g["accepted_fraction"][k]
        close(metrics["recent_kl"], g["kl_in_after"][k], rtol=1e-2, atol=1e-7)
        if k == 0:
            assert_params(state.policy, g, "step1_policy", rounding(g, "step1_policy", 2e-6))
            assert_params(state.value, g, "step1_value", 1e-6)
    if len(g["obs"]) > 1:
        assert_params(state.policy, g, "final_policy", rounding(g, "final_policy", 2e-6))
        assert_params(state.value, g, "final_value", 1e-6)


@pytest.mark.learn
@cases("update_trpo_*")
def test_trpo_step_by_step(case: Path) -> None:
    """Gradient, Fisher product, conjugate gradient and the full step of one update."""
    g = load(case)
    config = trpo_settings(g)
    spec, state = start(g, config)
    _, data = estimate(config, spec, state, batch_of(g, 0))
    close(data.target, g["returns"][0], rtol=1e-5, atol=2e-5)
    close(data.advantage, g["advantages"][0], rtol=1e-5, atol=2e-5)
    policy = on_policy.make_networks(config, spec).policy
    found = on_policy.policy_gradient(config, spec, policy, state, data)
    surrogate = on_policy.surrogate(spec.actions, found.old, found.old, data, found.bonus)
    close(surrogate, g["loss_before"][0], rtol=1e-5, atol=2e-5)
    close(-ravel_pytree(found.grads)[0], flat(g, "neg_grad"), rtol=0, atol=3e-6)
    product, _ = trust_region.fisher_product(
        spec.actions, policy, state.policy, data.obs, config.damping
    )
    close(product(flat(g, "fvp_vec")), flat(g, "fvp_out"), rtol=0, atol=3e-6)
    step = trust_region.constrained_step(product, ravel_pytree(found.grads)[0], config.max_kl)
    close_vector(step, g, "full_step", 2e-4)


def ppo_settings(g: dict[str, np.ndarray], cls: type, **more: Any) -> Any:
    assert g["kl_stop_factor"] == ppo.STOP_FACTOR
    return settings(
        {"grad_clip": g["grad_clip_value"], **g},
        cls,
        policy_max_grad_norm=jnp.float32(g["grad_clip_policy"]),
        clip=jnp.float32(g["ppo_clip"]),
        max_kl=jnp.float32(g["ppo_kl"]),
        passes=int(g["passes"]),
        minibatches=int(g["ppo_iters"]) // int(g["passes"]),
        **more,
    )


@cases("update_ppo_*")
def test_ppo_update(case: Path) -> None:
    g = load(case)
    config = ppo_settings(g, ppo.Config, faults=(LEAKS,))
    spec, state = start(g, config)
    learn = jax.jit(ppo.learn, static_argnums=1)
    for k, order in enumerate(g["permutation"]):
        _, data = estimate(config, spec, state, batch_of(g, k))
        close(data.advantage, g["advantages"][k], rtol=1e-5, atol=2e-5)
        state, metrics = learn(config, spec, state, data, jnp.asarray(order))
        assert_ppo(g, k, state, metrics)


@cases("update_lcppo_*")
def test_lcpo_p_update(case: Path) -> None:
    g = load(case)
    faults = (LEAKS, ADD_BEFORE_SAMPLE, lcpo_p.LONG_WINDOW)
    config = ppo_settings(g, lcpo_p.Config, kappa=jnp.float32(g["kappa"]), faults=faults)
    spec, state = start(g, config)
    learn = jax.jit(lcpo_p.learn, static_argnums=1)
    for k, order in enumerate(g["permutation"]):
        _, data = estimate(config, spec, state, batch_of(g, k))
        anchors = Anchors(jnp.asarray(g["ood_obs"][k]), jnp.bool_(True))
        state, metrics = learn(config, spec, state, data, jnp.asarray(order), anchors)
        close(metrics["anchor_kl"], g["monitor_kl_out_of_d"][k], rtol=1e-2, atol=1e-7)
        assert_ppo(g, k, state, metrics)


def assert_ppo(g: dict[str, np.ndarray], k: int, state: on_policy.State, metrics: Any) -> None:
    """What PPO and LCPO-P share after update k."""
    assert int(metrics["policy_steps"]) == g["n_opt_steps"][k]
    close(metrics["value_loss"], g["v_loss"][k], rtol=1e-5, atol=2e-5)
    close(metrics["recent_kl"], g["monitor_kl_in_d"][k], rtol=1e-2, atol=1e-7)
    if k in (0, len(g["obs"]) - 1):
        stage = "final" if k else "step1"
        assert_params(state.policy, g, f"{stage}_policy", 1e-5)
        assert_params(state.value, g, f"{stage}_value", 1e-6)
