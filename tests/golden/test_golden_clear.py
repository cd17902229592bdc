"""V-trace and CLEAR against the published code, and V-trace against its definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden_files import assert_params, cases, load, start

from lcpo.agents import clear
from lcpo.core import returns
from lcpo.types import Transition

close = np.testing.assert_allclose


@cases("vtrace_*")
@pytest.mark.parametrize("respected", [False, True])
def test_vtrace(case: Path, respected: bool) -> None:
    """Targets, and the value of the successor that the advantages are made of."""
    g = load(case)
    ratio = np.exp(g["policy_log_prob_action"] - g["behaviour_log_probs"].sum(-1))
    reward, value, next_value, gamma = g["rewards"], g["values"], g["next_values"], g["gamma"]
    zeros = np.zeros(len(reward), np.float32)
    ends = g["truncated"].astype(np.float32) if respected else zeros
    inputs = (reward, value, next_value, zeros + gamma, zeros, ends, ratio)
    columns = (jnp.asarray(x, jnp.float32)[:, None] for x in inputs)
    target, advantage = returns.vtrace(*columns, max_rho=float(g["rho"]), max_c=float(g["c"]))
    suffix = "_if_truncation_respected" if respected else ""
    close(target[:, 0], g[f"v_s{suffix}"], rtol=1e-5, atol=2e-5)
    expected = g["rho_clipped"] * (reward + gamma * g[f"next_v_s{suffix}"] - value)
    close(advantage[:, 0], expected, rtol=1e-5, atol=2e-5)


def block(g: dict[str, np.ndarray], k: int, half: slice, num_actions: int) -> Transition:
    """Half of the data of update k, one world: what mu did not choose shares what it left over."""
    data = {name: g[name][k][half][:, None] for name in ("obs", "actions", "next_obs")}
    reward, terminated, truncated, value = (
        g[name][k][half][:, None]
        for name in ("rewards", "terminated", "truncated", "behaviour_values")
    )
    chosen = np.exp(g["behaviour_log_probs"][k][half])[:, None, :, None]
    is_chosen = np.arange(num_actions) == data["actions"][..., None]
    mu = np.where(is_chosen, chosen, (1.0 - chosen) / (num_actions - 1))
    extra = np.concatenate([np.log(mu).reshape(*reward.shape, -1), value[..., None]], axis=-1)
    ones = np.ones(reward.shape)
    floats = [data["obs"], reward, data["next_obs"], ones, extra]
    obs, reward, next_obs, ones, extra = (jnp.asarray(x, jnp.float32) for x in floats)
    flags = jnp.asarray(terminated), jnp.asarray(truncated)
    return Transition(
        obs, jnp.asarray(data["actions"]), reward, next_obs, *flags, ones, ones, extra
    )


def settings(g: dict[str, np.ndarray], faults: tuple[str, ...]) -> clear.Config:
    """The config of a case; its rewards are scaled already and its entropy coefficient fixed."""
    values: dict[str, Any] = {
        "gamma": g["gamma"], "learning_rate": g["lr_policy"], "value_learning_rate": g["lr_value"],
        "max_grad_norm": g["grad_clip"], "entropy_coef": g["entropy_factor"],
        "max_rho": g["rho"], "max_c": g["c"], "policy_clone_coef": g["policy_clone_coeff"],
        "value_clone_coef": g["value_clone_coeff"],
    }  # fmt: skip
    values = {name: jnp.float32(value) for name, value in values.items()}
    return clear.Config(scale_rewards=False, faults=faults, **values)


@cases("update_clear_*", later=("update_clear_1",))
def test_clear_update(case: Path) -> None:
    g = load(case)
    config = settings(g, clear.FAULTS)
    spec, learner = start(g, config)
    half, last = g["obs"].shape[1] // 2, len(g["obs"]) - 1
    step = jax.jit(clear.step, static_argnums=1)
    for k in range(last + 1):
        fresh, past = (
            block(g, k, part, spec.num_actions[0]) for part in (slice(half), slice(half, None))
        )
        data, _ = clear.estimate(config, spec, learner, fresh, past)
        close(data.target, g["v_s"][k], rtol=1e-5, atol=2e-5)
        learner, metrics = step(config, spec, learner, fresh, past)
        close(metrics["value_loss"], g["v_loss"][k], rtol=1e-5, atol=2e-5)
        for stage in ["step1"] * (k == 0) + ["final"] * (k == last):
            assert_params(learner.policy, g, f"{stage}_policy", 1e-6)
            assert_params(learner.value, g, f"{stage}_value", 1e-6)
