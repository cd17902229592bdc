"""The models of MBPO and MBCD, learnt and true, against the published code."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from golden_files import cases, load, mlp_params

from lcpo.agents import ideal_mbpo, mbcd
from lcpo.core import dynamics, pendulum
from lcpo.types import ContextSlice, Spec, Transition

close = np.testing.assert_allclose
ENSEMBLE = 5


def spec_of(g: dict[str, np.ndarray]) -> Spec:
    size, dims = g["obs"].shape[-1], g["actions"].shape[-1]
    return Spec(size, ContextSlice(size - 6, 2, 3), (15,) * dims)


def transitions(g: dict[str, np.ndarray], rows: np.ndarray | slice) -> Transition:
    """Some of the interactions of a file."""
    floats = (jnp.asarray(g[name][rows], jnp.float32) for name in ("obs", "rewards", "next_obs"))
    obs, reward, next_obs = floats
    no, ones = jnp.zeros_like(reward, bool), jnp.ones_like(reward)
    return Transition(
        obs, jnp.asarray(g["actions"][rows]), reward, next_obs, no, no, ones, ones, ()
    )


def params(g: dict[str, np.ndarray], prefix: str) -> dynamics.Params:
    bounds = (jnp.asarray(g[f"{prefix}_{name}_logvar"]) for name in ("max", "min"))
    return dynamics.Params(mlp_params(g, prefix), *bounds)


@cases("mbpo_model_*", later=("mbpo_model_1",))
def test_model(case: Path) -> None:
    """A training of 25 steps, and what the trained members predict."""
    g = load(case)
    spec = spec_of(g)
    network = dynamics.make_network(spec, tuple(g["hidden"].tolist()), ENSEMBLE)
    model = dynamics.model_init(network, spec, jax.random.key(0))
    model = model._replace(params=params(g, "init"))
    data = transitions(g, g["batch_indices"][g["permutation"]])
    train = jax.jit(dynamics.train, static_argnums=(0, 1, 4, 5))
    scaled, _ = train(network, spec, model, data, 1, 1)
    close(scaled.mean, g["input_mean"], 0, 1e-6)
    close(scaled.std, g["input_std"], 2e-5)
    # With their scale to the last digit: a unit at the edge of its ReLU makes 1e-3 of 1e-6.
    model = model._replace(mean=jnp.asarray(g["input_mean"]), std=jnp.asarray(g["input_std"]))
    x, y = dynamics.inputs(spec, data.obs, data.action), dynamics.outputs(data)
    after, _ = jax.jit(dynamics.descend, static_argnums=(0, 4, 5))(
        network, model, x, y, int(g["epochs"]), len(x) // int(g["batch_size"])
    )
    jax.tree.map(lambda a, b: close(a, b, 0, 5e-5), after.params, params(g, "final"))
    obs = jnp.asarray(g["predict_obs"])
    hot = g["predict_onehot"].reshape(len(obs), spec.action_size, -1)
    action = jnp.asarray(hot.argmax(-1))
    predict = jax.jit(dynamics.predict, static_argnums=(0, 1))
    found = predict(network, spec, after, obs, action)
    close(found.mean, g["predict_mean"], 1e-4, 1e-5)
    close(found.var, g["predict_var"], 1e-4, 1e-5)
    alone = dynamics.make_network(spec, tuple(g["hidden"].tolist()), 1)
    member = dynamics.one_member(after, jnp.asarray(g["sample_member"][0]))
    each = predict(alone, spec, member, obs, jnp.asarray(g["sample_actions"]))
    one = dynamics.Normal(each.mean[0], each.var[0])
    reward, next_obs = dynamics.imagine(one, obs, jnp.asarray(g["sample_noise"]))
    close(reward, g["sample_reward"], 1e-4, 2e-5)
    close(next_obs, g["sample_next_obs"], 1e-4, 2e-5)


@cases("mbpo_oracle_*")
def test_true_dynamics(case: Path) -> None:
    """Of the Pendulum, with the wind of the real step and another action."""
    g = load(case)
    spec = pendulum.make_spec(15)
    g |= {"rewards": np.zeros(len(g["obs"])), "next_obs": g["real_next_obs"]}
    reward, next_obs = ideal_mbpo.predict(spec, transitions(g, slice(None)))
    close(reward, g["predicted_reward"], 1e-5, 1e-5)
    close(next_obs, g["predicted_next_obs"], 1e-5, 1e-5)


def mbcd_state(g: dict[str, np.ndarray], config: mbcd.Config, spec: Spec) -> mbcd.State:
    """The models of a file, the first in use."""
    state = jax.jit(mbcd.init, static_argnums=1)(config, spec, jax.random.key(0))
    count, models = 0, state.memory.models
    while f"model{count}_w0" in g:
        name = f"model{count}"
        scale = (jnp.asarray(g[f"{name}_input_{moment}"]) for moment in ("mean", "std"))
        mine = dynamics.Model(params(g, name), jax.tree.map(lambda x: x[0], models.opt), *scale)
        models = jax.tree.map(lambda x, new, i=count: x.at[i].set(new), models, mine)
        count += 1
    steps = state.steps.at[0].set(int(g["initial_counter"]))
    return state._replace(
        memory=state.memory._replace(models=models), steps=steps, num_models=jnp.int32(count)
    )


@cases("mbcd_cusum_*", later=("mbcd_cusum_2",))
def test_mbcd_finds_the_same_changes(case: Path) -> None:
    """Log densities, disagreement, the scores of every step, and what they lead to."""
    g = load(case)
    spec = spec_of(g)
    config = mbcd.Config(
        threshold=jnp.float32(g["threshold"]),
        max_disagreement=jnp.float32(g["max_std"]),
        new_stds=jnp.float32(g["num_stds"]),
        min_steps=int(g["min_steps"]),
        max_models=int(g["max_models"]) + 1,
        buffer_size=400,
        rollout_length=1,
        faults=mbcd.FAULTS,
    )
    state = mbcd_state(g, config, spec)
    functions = mbcd.observe, mbcd.find_change, mbcd.enter
    observe, find, enter = (jax.jit(function, static_argnums=1) for function in functions)
    known, data = int(state.num_models), transitions(g, slice(None))
    for t in range(len(g["obs"])):
        assert (int(state.current), int(state.num_models)) == (
            g["current_model_before"][t], g["num_models"][t - 1] if t else known,
        )  # fmt: skip
        one = jax.tree.map(lambda x, t=t: x[t : t + 1, None], data)
        seen = observe(config, spec, state, one)
        change = find(config, spec, state, seen)
        close(seen.log_density[:known, 0], g["log_prob"][t], 1e-4, 1e-3)
        close(seen.disagreement[0], g["disagreement"][t, int(state.current)], 1e-4, 1e-5)
        close(seen.log_density_new[0], g["new_model_log_pdf"][t], 1e-4, 1e-3)
        close(change.scores[:known], g["S_models"][t], 1e-4, 1e-3)
        close(change.scores[-1], g["S_new"][t], 1e-4, 1e-3)
        assert bool(change.found) == bool(g["changed"][t])
        assert int(change.context) == g["current_model_after"][t]
        state = enter(config, spec, state, one, change)
