"""MBPO: SAC on transitions that a learned model of the environment imagines (Janner et al. 2019).

After each rollout, which enters a replay of all history,

    the model learns from draws of that replay                                  `dynamics.train`
    s  ~ the same replay, `model_samples` states
    a  ~ pi(.|s), the policy as it is now
    r, s' - s ~ one member of the ensemble, the same for all s              `dynamics.one_member`
    (s, a, r, s') enters a second replay                                                `learn`
    SAC learns from draws of the second replay                                   `sac.descend`

The model predicts one step ahead, but not the ends of episodes: they are copied from the real
transition from s, and so is its weight. Where a guard holds in s, the imagined action is the
guard's. SAC tunes its entropy on the drawn s. With `updates_per_rollout` > 1, SAC takes that many
steps, each on a new draw, after the model has imagined once.

The second replay keeps all that was imagined, and early states have been drawn more often:
`sample_age` reports how old the states are that SAC learns from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.agents import common, off_policy, sac
from lcpo.config import config, static
from lcpo.core import dynamics, replay
from lcpo.core.dynamics import Model
from lcpo.core.nets import Network
from lcpo.core.replay import Replay
from lcpo.types import Agent, Array, Metrics, Spec, Transition


@config
class ImagineConfig(sac.Config):
    """SAC on imagined transitions. Defaults are the paper's."""

    model_samples: int = static(512, "transitions that are imagined per update", low=1)


@config
class Config(common.ModelConfig, ImagineConfig):
    """MBPO. Defaults are the paper's."""


class Replays(NamedTuple):
    """Real and imagined transitions."""

    real: Replay
    imagined: Replay


class State(NamedTuple):
    """SAC's learner, interactions so far (all worlds), and what it learns from."""

    learner: sac.ActorCritics
    num_steps: Array
    memory: Replays
    model: Any  # `dynamics.Model`, or nothing where the dynamics are known


def init(config: Config, spec: Spec, key: Array) -> State:
    """Fresh networks, and two empty replays."""
    sac_key, model_key = jax.random.split(key)
    model = dynamics.model_init(config.model(spec), spec, model_key)
    return state_init(config, spec, sac_key, model)


def state_init(config: ImagineConfig, spec: Spec, key: Array, model: Any) -> State:
    """A fresh SAC, two empty replays and this model."""
    state = sac.init(config, spec, key)
    imagined = replay.replay_init(
        imagined_spec(spec), config.buffer_size, config.model_samples, num_extra=1
    )
    return State(state.learner, state.num_steps, Replays(state.memory, imagined), model)


def imagined_spec(spec: Spec) -> Spec:
    """Spec of the second replay: one world, whose steps are independent of each other."""
    return spec._replace(num_worlds=1, contiguous_contexts=False)


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Store the batch, train the model, imagine, then SAC's steps."""
    keys = jax.random.split(key, 4)
    network, model = config.model(spec), state.model
    real = replay.replay_add(state.memory.real, spec, batch)
    draws = replay.replay_sample(real, spec, config.model_draws, keys[0])
    metrics = errors(spec, network, model, batch, draws)
    model, metrics["model_loss"] = dynamics.train(
        network, spec, model, draws, config.model_passes, config.model_batches
    )
    index = jax.random.randint(keys[1], (), 0, config.ensemble_size)
    member = dynamics.one_member(model, index)

    def predict(data: Transition, key: Array) -> tuple[Array, Array]:
        one = config.model(spec, 1)
        found = dynamics.predict(one, spec, member, data.obs, data.action)
        normal = dynamics.Normal(found.mean[0], found.var[0])
        return dynamics.imagine(normal, data.obs, jax.random.normal(key, normal.mean.shape))

    state = state._replace(memory=state.memory._replace(real=real), model=model)
    state, more = learn(config, spec, state, batch.reward.size, keys[2], predict)
    return state, {**metrics, **more}


def learn(
    config: ImagineConfig,
    spec: Spec,
    state: State,
    num_new: int,
    key: Array,
    predict: Callable[[Transition, Array], tuple[Array, Array]],
) -> tuple[State, Metrics]:
    """Imagine `model_samples` transitions, then SAC's steps; `num_new` steps were just stored.

    `predict(data, key)`: reward [B] and next_obs [B, D] of real transitions with other actions.
    """
    draw_key, action_key, predict_key, learn_key = jax.random.split(key, 4)
    real, imagined = state.memory
    step, world = replay.replay_draw(real, spec, config.model_samples, draw_key)
    data = replay.replay_rows(real, spec, step % real.num_rows, world)
    logits = off_policy.make_network(config, spec).apply(state.learner.policy, data.obs)
    action = spec.actions.sample(logits, action_key)
    data = data._replace(action=off_policy.guarded_action(spec, data.obs, action))
    reward, next_obs = predict(data, predict_key)
    seen = (step * spec.num_worlds).astype(jnp.float32)[:, None]
    data = data._replace(reward=reward, next_obs=next_obs, extra=seen)
    num_steps = state.num_steps + num_new

    def sac_step(
        config: Any, spec: Spec, learner: sac.ActorCritics, drawn: Transition
    ) -> tuple[sac.ActorCritics, Metrics]:
        learner, y, metrics = sac.descend(config, spec, learner, drawn)
        learner, more = sac.finish(config, spec, learner, data.obs, y)
        age = 1.0 - jnp.mean(drawn.extra) / num_steps.astype(jnp.float32)
        return learner, {**more, **metrics, "sample_age": age}

    # To SAC the second replay is the world, and the imagined transitions are its newest rollout.
    before = off_policy.State(state.learner, state.num_steps, imagined)
    rollout = jax.tree.map(lambda x: x[:, None], data)
    after, metrics = off_policy.learn(
        config, imagined_spec(spec), before, rollout, learn_key, sac_step
    )
    return State(after.learner, num_steps, Replays(real, after.memory), state.model), metrics


def errors(
    spec: Spec, network: Network, model: Model, batch: Transition, draws: Transition
) -> Metrics:
    """Errors of the model's mean on a rollout that it has not learned from.

    As shares of the variance among `draws` of all history: 0 is perfect, 1 as bad as a constant.
    Entries that never vary count as if their variance were 1; contexts are left out.
    """
    found = dynamics.predict(network, spec, model, batch.obs, batch.action)
    error = jnp.mean(jnp.square(jnp.mean(found.mean, axis=0) - dynamics.outputs(batch)), (0, 1))
    spread = jnp.var(dynamics.outputs(draws), axis=0)
    share = error / jnp.where(spread < 1e-12, 1.0, spread)
    own = spec.context.remove(share[1:])
    return {
        "model_reward_error": share[0],
        "model_obs_error": jnp.mean(own if own.size else share[1:]),
    }


agent = Agent("mbpo", Config, init, sac.act, update, probabilities=sac.probabilities)
