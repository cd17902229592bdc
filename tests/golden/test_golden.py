"""Our units against the published code's, at the tolerances of its float32/float64 spread."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from golden_files import (
    amplified,
    assert_params,
    batch_of,
    cases,
    close,
    close_vector,
    estimate,
    flat,
    load,
    mlp_apply,
    mlp_params,
    rounding,
    settings,
    start,
)
from jax.flatten_util import ravel_pytree

from lcpo import distributions as dists
from lcpo.agents import a2c, lcpo, on_policy
from lcpo.agents.anchors import Anchors
from lcpo.core import ood, optim, returns, stats, trust_region
from lcpo.distributions import Categorical
from lcpo.envs.pendulum import Pendulum, state_at
from lcpo.types import ContextSlice


@cases("env_pendulum_*")
def test_pendulum(case: Path) -> None:
    """Step every recorded state and compare its successor, reward, flags and observation."""
    g = load(case)
    env = Pendulum()
    angle, speed = g["state"].T.astype(np.float32)
    time = np.zeros(len(angle), np.int32)
    for t in range(1, len(time)):
        time[t] = 0 if g["episode_start"][t] else time[t - 1] + 1
    wrapped = (angle + np.pi) % (2 * np.pi) - np.pi
    states = state_at(jnp.asarray(wrapped), jnp.asarray(speed), jnp.asarray(time))
    wind = jnp.asarray(g["wind_applied"], jnp.float32)
    keys = jax.random.split(jax.random.key(0), len(angle))
    after, step = jax.vmap(env.step)(states, jnp.asarray(g["action"]), wind, keys)
    close(step.obs, g["next_obs"][:, :3], rtol=1e-5, atol=1e-5)
    close(step.reward, g["reward"], rtol=1e-5, atol=1e-5)
    close(after.speed, g["next_state"][:, 1], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(step.terminated, g["terminated"])
    np.testing.assert_array_equal(step.truncated, g["truncated"])


@cases("env_pendulum_*")
def test_context_history(case: Path) -> None:
    """x then y, newest first; away from the ends of the trace, where we do not wrap."""
    from lcpo.run.drive.rollout import load_contexts

    g = load(case)
    contexts = load_contexts(g["wind"], 0, len(g["wind"]), 3)
    rows = np.flatnonzero(g["wind_index_after"] >= 2)
    history = jax.vmap(lambda c: contexts.history(c, 3))(g["wind_index_after"][rows])
    close(history.swapaxes(1, 2).reshape(len(rows), 6), g["next_obs"][rows, 3:], rtol=1e-6)


@cases("gae_*")
def test_returns_and_advantages(case: Path) -> None:
    g = load(case)
    reward, value, following = (jnp.asarray(g[k]) for k in ("rewards", "values", "next_values"))
    terminated = jnp.asarray(g["terminated"], jnp.float32)
    discount = jnp.full(reward.shape, jnp.float32(g["gamma"]))
    for name, cut in {"as_coded": 0.0, "intended": 1.0}.items():
        truncated = cut * jnp.asarray(g["truncated"], jnp.float32)
        found = returns.returns(reward, following, discount, terminated, truncated)
        close(found, g[f"returns_{name}"], rtol=1e-5, atol=1e-5)
        found = returns.advantages(
            reward, value, following, discount, terminated, truncated, float(g["lam"])
        )
        close(found, g[f"advantages_{name}"], rtol=1e-5, atol=1e-5)


@cases("ret_norm_*")
def test_return_statistics(case: Path) -> None:
    g = load(case)
    moments, carried = stats.moments_init(), jnp.float32(0.0)
    for i, reward in enumerate(g["rewards"]):
        reward = jnp.asarray(reward, jnp.float32)
        discount = jnp.full(reward.shape, jnp.float32(g["gamma"]))
        ended = jnp.asarray(g["done"][i], jnp.float32)
        running, carried = returns.running_returns(reward, discount, ended, carried)
        close(running, g["running_returns"][i], rtol=1e-5, atol=1e-5)
        moments = stats.moments_add(moments, running)
        close(moments, [g["mean"][i], g["var"][i], g["count"][i]], rtol=1e-5)
        close(reward / jnp.sqrt(moments.var + 1.0), g["normalized_rewards"][i], 1e-5, 1e-6)
        close(reward / jnp.sqrt(moments.var + 1e-8), g["normalized_rewards_grid"][i], 1e-5, 1e-6)


@cases("policy_*")
def test_policy(case: Path) -> None:
    g = load(case)
    num_actions, obs = (int(g["bins"]),) * int(g["act_dims"]), jnp.asarray(g["obs"])
    old = dists.to_logits(mlp_apply(mlp_params(g, "old"), obs), num_actions)
    new = dists.to_logits(mlp_apply(mlp_params(g, "new"), obs), num_actions)
    close(old, g["logits"], rtol=1e-5, atol=1e-5)
    close(dists.log_prob(old, jnp.asarray(g["actions"])), g["log_pi_act"], rtol=1e-5, atol=1e-5)
    close(dists.entropy(old), g["entropy"], rtol=1e-5, atol=1e-5)
    close(dists.kl(old, new), g["kl_old_new"], rtol=1e-5, atol=1e-5)
    close(mlp_apply(mlp_params(g, "value"), obs)[:, 0], g["value"], rtol=1e-5, atol=1e-5)
    sampled = dists.sample(old, jnp.asarray(g["sample_uniform"], jnp.float32))
    clear = g["sample_cdf_gap"] > 1e-6
    np.testing.assert_array_equal(sampled[clear], g["sample_action"][clear])


@cases("entropy_tune_*")
def test_entropy_coefficient(case: Path) -> None:
    g = load(case)
    num_actions = (int(g["bins"]),) * int(g["act_dims"])
    close(0.1 * Categorical(num_actions).max_entropy, g["target_entropy"], rtol=1e-6)
    tuner, base = optim.entropy_init(), float(g["entropy_max"])
    for i, obs in enumerate(g["obs"]):
        logits = dists.to_logits(mlp_apply(mlp_params(g, "policy"), obs), num_actions)
        entropy = jnp.mean(dists.entropy(logits))
        tuner = optim.entropy_step(tuner, base, entropy, float(g["target_entropy"]), 1e-3)
        close(tuner.log_scale, g["log_entropy"][i], rtol=1e-5, atol=1e-7)
        close(tuner.coefficient(base), g["entropy_factor"][i], rtol=1e-5)


@cases("ood_*_l2_*")
def test_ood_l2(case: Path) -> None:
    """`raw` is the squared distance."""
    g, context, recent, data = ood_inputs(case)
    found = ood.l2(context, recent, data)
    close(found, g["raw"], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found > float(g["threshold"]), g["mask"])


@cases("ood_*_mahala_[0-9]")
def test_ood_mahalanobis(case: Path) -> None:
    """`raw` is -d^2 / (2 D) for D entries of an observation; ours is d^2 per context entry."""
    g, context, recent, data = ood_inputs(case)
    unit = 2 * int(g["obs_dim"]) / context.size
    found = ood.mahalanobis(context, recent, data)
    close(found, -unit * g["raw"], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found > -unit * float(g["threshold"]), g["mask"])


@cases("ood_*_mahala_full_*")
def test_ood_mahalanobis_full(case: Path) -> None:
    """With the fault: `raw` is -1/2 of our distance, and every decision is the published one.

    Without it, the distance is that of all columns that vary, as float64 has it: the published one
    where all of them do, another where the published code leaves some out.
    """
    g, context, recent, data = ood_inputs(case)
    limit = -2.0 * float(g["threshold"])  # sigma^2
    found = ood.row_sum_filter(context, recent, data)
    close(found, -2.0 * g["raw"], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found > limit, g["mask"])
    ours = ood.mahalanobis_full(context, recent, data)
    exact = mahalanobis_in_float64(g["base"], g["data"])
    close(ours, exact, rtol=1e-3, atol=1e-5)
    is_clear = np.abs(exact - limit) > 2e-3 * limit
    np.testing.assert_array_equal((ours > limit)[is_clear], (exact > limit)[is_clear])
    if g["kept_columns"].all():
        close(ours, -2.0 * g["raw"], rtol=1e-4, atol=1e-5)
    else:
        assert ((exact > limit) != g["mask"])[is_clear].any(), "the fault has an effect"


def mahalanobis_in_float64(recent: np.ndarray, data: np.ndarray) -> np.ndarray:
    """d^2 per column of those that vary in `recent`."""
    varies = recent.std(axis=0, dtype=np.float64) > 1e-6
    recent, data = (x[:, varies].astype(np.float64) for x in (recent, data))
    mean, std = recent.mean(axis=0), recent.std(axis=0, ddof=1)
    recent, data = (recent - mean) / std, (data - mean) / std
    covariance = np.cov(recent.T) + ood.RIDGE * np.eye(len(std))
    return np.sum(data * np.linalg.solve(covariance, data.T).T, axis=1) / len(std)


def ood_inputs(case: Path) -> tuple[dict[str, np.ndarray], ContextSlice, jax.Array, jax.Array]:
    """(the case, where the context stands, the recent batch, the data to be judged)."""
    g = load(case)
    context = ContextSlice(int(g["context_start"]), channels=2, lags=3)
    return g, context, jnp.asarray(g["base"]), jnp.asarray(g["data"])


@cases("update_a2c_*")
def test_a2c_update(case: Path) -> None:
    g = load(case)
    config = settings(g, a2c.Config, faults=(on_policy.TRUNCATION_LEAKS,))
    spec, state = start(g, config)
    update = jax.jit(a2c.update, static_argnums=1)
    for k in range(len(g["obs"])):
        _, data = estimate(config, spec, state, batch_of(g, k))
        close(data.target, g["returns"][k], rtol=1e-5, atol=2e-5)
        close(data.advantage, g["advantages"][k], rtol=1e-5, atol=2e-5)
        state, metrics = update(config, spec, state, batch_of(g, k), jax.random.key(0))
        without_entropy = metrics["policy_loss"] + g["entropy_factor"] * g["entropy"][k]
        close(without_entropy, g["pg_loss"][k], rtol=1e-5, atol=2e-5)
        close(metrics["value_loss"], g["v_loss"][k], rtol=1e-5, atol=2e-5)
        if k == 0:
            assert_params(state.policy, g, "step1_policy", 1e-6)
            assert_params(state.value, g, "step1_value", 1e-6)
    if len(g["obs"]) > 1:
        assert_params(state.policy, g, "final_policy", 1e-6)
        assert_params(state.value, g, "final_value", 1e-6)


@cases("update_lcpo_*")
def test_lcpo_update(case: Path) -> None:
    g = load(case)
    config = settings(
        g,
        lcpo.Config,
        c_anchor=jnp.float32(g["trpo_kl_out"]),
        c_recent=jnp.float32(g["trpo_kl_in"]),
        damping=jnp.float32(g["damping"]),
        dual=bool(g["dual"]),
        faults=(on_policy.TRUNCATION_LEAKS, lcpo.DUAL_ALGEBRA),
    )
    spec, state = start(g, config)
    learn = jax.jit(lcpo.learn, static_argnums=1)
    for k, anchors in enumerate(g["ood_obs"]):
        found = jnp.bool_(len(anchors) > 0)
        anchors = jnp.asarray(anchors) if found else jnp.zeros_like(g["obs"][k])
        _, data = estimate(config, spec, state, batch_of(g, k))
        state, metrics = learn(config, spec, state, data, Anchors(anchors, found))
        close(metrics["value_loss"], g["v_loss"][k], rtol=1e-5, atol=2e-5)
        if found:
            assert metrics["constraint_active"] == 1.0
            fraction = g["accepted_fraction"][k] if g["line_search_success"][k] else 0.0
            assert metrics["step_fraction"] == np.nan_to_num(fraction)
            if fraction > 0.0:
                close(metrics["recent_kl"], g["kl_in_after"][k], rtol=1e-2, atol=1e-7)
                close(metrics["anchor_kl"], g["kl_out_after"][k], rtol=1e-2, atol=1e-7)
        if config.dual:
            close(metrics["dual_ratio"], g["monitor_lm"][k], rtol=1e-4)
        if k == 0:
            assert_params(state.policy, g, "step1_policy", rounding(g, "step1_policy", 2e-6))
            assert_params(state.value, g, "step1_value", 1e-6)
    if len(g["obs"]) > 1:
        assert_params(state.policy, g, "final_policy", rounding(g, "final_policy", 2e-6))
        assert_params(state.value, g, "final_value", 1e-6)


@cases(
    "update_lcpo_first_*",
    "update_lcpo_backtrack_*",
    "update_lcpo_fail_*",
    later=("update_lcpo_backtrack_d1", "update_lcpo_first_d3"),
)
def test_lcpo_step_by_step(case: Path) -> None:
    """Gradient, Fisher product, conjugate gradient and the full step of one update."""
    g = load(case)
    config = settings(g, lcpo.Config, faults=(on_policy.TRUNCATION_LEAKS,))
    spec, state = start(g, config)
    _, data = estimate(config, spec, state, batch_of(g, 0))
    policy = on_policy.make_networks(config, spec).policy
    found = on_policy.policy_gradient(config, spec, policy, state, data)
    surrogate = on_policy.surrogate(spec.actions, found.old, found.old, data, found.bonus)
    close(surrogate, g["loss_before"][0], rtol=1e-5, atol=2e-5)
    gradient = ravel_pytree(found.grads)[0]
    close(-gradient, flat(g, "neg_grad"), rtol=0, atol=3e-6)
    anchors = jnp.asarray(g["ood_obs"][0])
    product, _ = trust_region.fisher_product(
        spec.actions, policy, state.policy, anchors, jnp.float32(g["damping"])
    )
    close(product(flat(g, "fvp_vec")), flat(g, "fvp_out"), rtol=0, atol=3e-6)
    solve = jax.jit(lambda target: trust_region.conjugate_gradient(product, target))
    share = max(2e-5, amplified(solve, -gradient))
    close_vector(solve(-gradient), g, "cg", share)
    step = trust_region.constrained_step(product, gradient, jnp.float32(g["trpo_kl_out"]))
    close_vector(step, g, "full_step", share)
