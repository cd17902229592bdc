"""Agents with replay against the published code's updates, to its float32 spread."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from golden_files import assert_params, cases, load, mlp_params
from jax.flatten_util import ravel_pytree

from lcpo.agents import bfdqn, ddqn, off_policy, online_ewc, sac, sliding_ogd
from lcpo.core import optim, stats
from lcpo.core.nets import Layers
from lcpo.types import ContextSlice, Spec, Transition

close = np.testing.assert_allclose
empty = optim.adam(0.0, 1.0)


@cases("rms_offpolicy_*")
def test_target_statistics(case: Path) -> None:
    g = load(case)
    moments = stats.moments_init()
    for i, targets in enumerate(g["targets"]):
        moments = stats.moments_add(moments, jnp.asarray(targets))
        close(moments, [g["mean"][i], g["var"][i], g["count"][i]], rtol=1e-5)


def settings(g: dict[str, np.ndarray], cls: type, **more: Any) -> Any:
    """The config of a case; its rewards are scaled already."""
    common = {"gamma": g["gamma"], "target_rate": g["tau"], "max_grad_norm": g["grad_clip"]}
    values = {k: jnp.float32(v) for k, v in {**common, **more}.items() if k != "faults"}
    return cls(scale_rewards=False, **values, **{k: v for k, v in more.items() if k == "faults"})


def params_of(g: dict[str, np.ndarray], name: str) -> Layers:
    return jax.tree.map(jnp.asarray, mlp_params(g, f"init_{name}"))


def spec_of(g: dict[str, np.ndarray], net: Layers) -> Spec:
    dims = g["actions"].shape[-1]
    return Spec(g["obs"].shape[-1], ContextSlice(0, 0, 0), (net[-1].w.shape[1] // dims,) * dims)


def data_of(g: dict[str, np.ndarray], k: int) -> Transition:
    """The transitions of gradient step k."""
    ones = jnp.ones(g["rewards"][k].shape)
    fields = (g["obs"], g["actions"], g["rewards"], g["next_obs"], g["terminated"], g["truncated"])
    obs, action, reward, next_obs, terminated, truncated = (jnp.asarray(f[k]) for f in fields)
    reward = reward.astype(jnp.float32)
    return Transition(obs, action, reward, next_obs, terminated, truncated, ones, ones, ())


def compare(found: dict[str, Layers], g: dict[str, np.ndarray], k: int) -> None:
    """Networks after the first step, and after the last."""
    last = len(g["obs"]) - 1
    for stage in ["step1"] * (k == 0) + ["final"] * (0 < k == last):
        for name, params in found.items():
            assert_params(params, g, f"{stage}_{name}", 1e-6)


@cases("update_ddqn_*")
def test_ddqn_update(case: Path) -> None:
    g = load(case)
    config = settings(g, ddqn.Config, learning_rate=g["lr"])
    q, target = params_of(g, "q"), params_of(g, "target")
    spec, learner = spec_of(g, q), ddqn.QLearner(q, target, empty.init(q), stats.moments_init())
    network = off_policy.make_network(config, spec)
    step = jax.jit(ddqn.step, static_argnums=1)
    for k in range(len(g["obs"])):
        data = data_of(g, k)
        y = ddqn.target(config, spec, learner, data)
        close(y, g["td_target"][k], rtol=1e-5, atol=2e-5)
        q_value = ddqn.gradient(network, learner.q, data, y)[1]
        close(q_value, g["q_selected"][k], rtol=1e-5, atol=2e-5)
        moments = stats.moments_add(learner.target_stats, y)
        learner, metrics = step(config, spec, learner, data)
        close(metrics["value_loss"], g["v_loss"][k], rtol=1e-5, atol=2e-5)
        close(learner.target_stats, moments, rtol=1e-5)
        compare({"q": learner.q, "target": learner.target}, g, k)


@cases("bf_chain_*")
def test_the_chain_behind_the_weights(case: Path) -> None:
    """Five steps of their own, from t = 0, when every vessel is filling, to where all are full."""
    g = load(case)
    volume = bfdqn.volumes(len(g["bf_c"]))[:, 0]
    close(volume, g["bf_c"])
    close(g["bf_g"][0] / volume, g["bf_g"], rtol=1e-6)
    for k, t in enumerate(g["it"]):
        chain, change = jnp.asarray(g["chain_before"][k]), jnp.asarray(g["w_ext"][k])
        found = bfdqn.seep(chain, change, jnp.float32(g["bf_g"][0]), jnp.int32(t))
        close(found, g["chain_after"][k], rtol=1e-6, atol=1e-7)


@cases("update_bfdqn_*")
def test_bfdqn_update(case: Path) -> None:
    g = load(case)
    config = settings(g, bfdqn.Config, learning_rate=g["lr"], flow=g["bf_g1"])
    q, target = params_of(g, "q"), params_of(g, "target")
    deeper = [ravel_pytree(mlp_params(g, f"chain_init{i}"))[0] for i in range(1, int(g["bf_n"]))]
    start = ddqn.QLearner(q, target, empty.init(q), stats.moments_init())
    learner = bfdqn.ChainedQ(*start, jnp.stack(deeper), jnp.int32(0))
    spec, step = spec_of(g, q), jax.jit(bfdqn.step, static_argnums=1)
    for k, t in enumerate(g["it"]):
        learner, data = learner._replace(num_updates=jnp.int32(t)), data_of(g, k)
        y = bfdqn.target(config, spec, learner, data)
        close(y, g["td_target"][k], rtol=1e-5, atol=2e-5)
        learner, metrics = step(config, spec, learner, data)
        assert learner.num_updates == t + 1
        close(metrics["value_loss"], g["v_loss"][k], rtol=1e-5, atol=2e-5)
        compare({"q": learner.q, "target": learner.target}, g, k)
        chain = jnp.stack([ravel_pytree(learner.q)[0], *learner.deeper])
        for name, i in (("chain_var0", 0), ("chain_var1", 1), ("chain_last", -1)):
            layers = {key: x[k] for key, x in g.items() if key.startswith(name)}
            close(chain[i], ravel_pytree(mlp_params(layers, name))[0], rtol=0, atol=1e-6)
        close(jnp.linalg.norm(chain, axis=1), g["chain_norms"][k], rtol=1e-5)


def sac_start(g: dict[str, np.ndarray]) -> tuple[Spec, sac.ActorCritics]:
    policy = params_of(g, "policy")
    critics = params_of(g, "critic1"), params_of(g, "critic2")
    return spec_of(g, policy), sac.ActorCritics(
        policy,
        critics,
        (params_of(g, "target1"), params_of(g, "target2")),
        empty.init(policy),
        (empty.init(critics[0]), empty.init(critics[1])),
        optim.entropy_init(),
        stats.moments_init(),
    )


def sac_settings(
    g: dict[str, np.ndarray], faults: tuple[str, ...], cls: type = sac.Config, **more: Any
) -> Any:
    return settings(
        g,
        cls,
        learning_rate=g["lr_policy"],
        value_learning_rate=g["lr_value"],
        entropy_coef=g["entropy_factor"],
        entropy_target=0.0,
        faults=faults,
        **more,
    )


def networks_of(learner: sac.ActorCritics) -> dict[str, Layers]:
    found = {"policy": learner.policy}
    pairs = zip(learner.critics, learner.targets, strict=True)
    for i, (critic, target) in enumerate(pairs, start=1):
        found |= {f"critic{i}": critic, f"target{i}": target}
    return found


@cases("update_sac_*")
def test_sac_update(case: Path) -> None:
    g = load(case)
    config = sac_settings(g, (sac.TARGET_AT_S,))
    spec, learner = sac_start(g)
    network = off_policy.make_network(config, spec)
    step = jax.jit(sac.step, static_argnums=1)
    for k in range(len(g["obs"])):
        data, before = data_of(g, k), learner
        learner, metrics = step(config, spec, learner, data)
        close(metrics["policy_loss"], g["pg_loss"][k], rtol=1e-5, atol=2e-5)
        y = sac.target(config, spec, before._replace(policy=learner.policy), data)
        close(y, g["q_target"][k], rtol=1e-5, atol=2e-5)
        for i, critic in enumerate(before.critics, start=1):
            loss, q_value, _ = ddqn.gradient(network, critic, data, y)
            close(loss, g[f"v_loss_{i}"][k], rtol=1e-5, atol=2e-5)
            close(q_value, g[f"q_local_{i}"][k], rtol=1e-5, atol=2e-5)
        compare(networks_of(learner), g, k)


@cases("update_sac_*")
def test_sac_without_the_fault_takes_the_policy_of_the_successor(case: Path) -> None:
    """y from the definition, in NumPy, and unlike the published one."""
    g = load(case)
    spec, learner = sac_start(g)
    data = data_of(g, 0)
    found = sac.target(sac_settings(g, ()), spec, learner, data)

    def outputs(net: Layers, obs: jax.Array) -> np.ndarray:
        x = np.asarray(obs, np.float64)
        for i, layer in enumerate(net):
            x = x @ np.asarray(layer.w, np.float64) + np.asarray(layer.b, np.float64)
            x = np.maximum(x, 0.0) if i < len(net) - 1 else x
        return x.reshape(len(x), len(spec.num_actions), -1)

    logits = outputs(learner.policy, data.next_obs)
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    q = np.minimum(*(outputs(net, data.next_obs) for net in learner.targets))
    value = (p * (q - g["entropy_factor"] * np.log(p))).sum((-2, -1))
    expected = g["rewards"][0] + g["gamma"] * ~g["terminated"][0] * value
    close(found, expected, rtol=1e-5, atol=2e-5)
    faulty = sac.target(sac_settings(g, (sac.TARGET_AT_S,)), spec, learner, data)
    assert np.abs(found - faulty).max() > 1e-3


@cases("update_ewc_*", later=("update_ewc_1",))
def test_online_ewc_update(case: Path) -> None:
    """Weights, averages of weights and importances, and the losses with their penalties."""
    g = load(case)
    extra = {"penalty_coef": g["ewc_alpha"], "averaging_rate": 1.0 - g["ewc_gamma"]}
    config = sac_settings(g, online_ewc.FAULTS, online_ewc.Config, **extra)
    spec, start = sac_start(g)
    make = config.optimisers(off_policy.make_network(config, spec))
    one, other = (o.init(p) for o, p in zip(make.critics, start.critics, strict=True))
    learner = start._replace(policy_opt=make.policy.init(start.policy), critic_opts=(one, other))
    step, last = jax.jit(online_ewc.step, static_argnums=1), len(g["obs"]) - 1
    for k in range(last + 1):
        held = online_ewc.penalties(config, learner)
        learner, metrics = step(config, spec, learner, data_of(g, k), g["sample_uniforms"][k])
        close(metrics["policy_loss"] + held[0], g["pg_loss"][k], rtol=1e-5, atol=2e-5)
        compare(networks_of(learner), g, k)
        opts = (learner.policy_opt, *learner.critic_opts)
        for name, (past, *_) in zip(("policy", "critic1", "critic2"), opts, strict=True):
            for stage in ["step1"] * (k == 0) + ["final"] * (k == last):
                assert_params(past.weights, g, f"{stage}_past_{name}", 1e-6)
                for i, layer in enumerate(past.importance):
                    for kind, x in (("w", layer.w), ("b", layer.b)):
                        published = g[f"{stage}_importance_{name}_{kind}{i}"]
                        scale = np.abs(published).max()
                        close(x / scale, published / scale, rtol=0, atol=5e-6)


@cases("update_ogd_*")
def test_sliding_ogd_update(case: Path) -> None:
    g = load(case)
    rates = {"lr_policy": g["ogd_alpha"], "lr_value": g["ogd_alpha"], "grad_clip": np.float32(1.0)}
    config = sac_settings({**g, **rates}, (sac.TARGET_AT_S, sliding_ogd.ASCENT), sliding_ogd.Config)
    config = dataclasses.replace(config, window=int(g["ogd_n"]))
    spec, start = sac_start(g)
    make = config.optimisers(off_policy.make_network(config, spec))
    one, other = (o.init(p) for o, p in zip(make.critics, start.critics, strict=True))
    learner = start._replace(policy_opt=make.policy.init(start.policy), critic_opts=(one, other))
    step = jax.jit(sliding_ogd.step, static_argnums=1)
    for k in range(len(g["obs"])):
        learner, metrics = step(config, spec, learner, data_of(g, k))
        close(metrics["policy_loss"], g["pg_loss"][k], rtol=1e-5, atol=2e-5)
        assert float(metrics["num_directions"]) == g["n_stored"][k][0]
        for name, past in zip(
            ("policy", "critic1", "critic2"),
            (learner.policy_opt, *learner.critic_opts),
            strict=True,
        ):
            newest = past.rows[k % (config.window - 1)]
            layers = {key: x[k] for key, x in g.items() if key.startswith(f"direction_{name}")}
            published = ravel_pytree(mlp_params(layers, f"direction_{name}"))[0]
            close(newest, published, rtol=0, atol=2e-6)
        compare(networks_of(learner), g, k)
