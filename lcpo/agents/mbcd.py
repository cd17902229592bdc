"""MBCD: a model and a policy for each context that a detector finds (Alegre et al. 2021), on SAC.

A model predicts reward and successor. When the predictions of the model in use suddenly become
poor, the context has changed. With l_m the log density of a step's outcome under model m
(`core.dynamics`):

    l_0  = log density of a point `new_stds` standard deviations off, by the model in use
    S_m <- max(0, S_m + l_m - l)          for every model m, and m = 0, "a context not met yet"
    max S > threshold: a change, to the best m (Page's CUSUM)                      `find_change`

S moves at steps where the members of the model in use agree, from `min_steps` on. A new context
gets the next model and policy, up to `max_models`; all are created at the start. Then, for the
context that the rollout ended in:

    model   trained on the newest `model_memory` of its transitions, when due         `num_due`
    policy  a step of SAC on all its transitions; none in a rollout with a change    `sac.step`

Detection runs inside `update`: a rollout has at most one change, which takes effect at the next
rollout. One replay holds the rollouts of all contexts (`replay.OwnedReplay`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.agents import common, off_policy, sac
from lcpo.config import config, faults, static, traced
from lcpo.core import changepoint, dynamics, replay
from lcpo.errors import InputError
from lcpo.types import Agent, Array, Metrics, Spec, Transition

INHERITS_POLICY = "inherits-policy"
"""Fault: the policy and critics of a new context start as copies of those in use."""
ENTROPY_TWICE = "entropy-twice"
"""Fault: the entropy coefficient takes two steps where there should be one."""
MEMORY_STAYS = "memory-stays"
"""Fault: back in a context, its model is trained on the transitions of the one just left."""
TIES_GO_FIRST = "ties-go-first"
"""Fault: if `max_models` is reached and no model does better, the first one is used."""
FAULTS = (sac.TARGET_AT_S, INHERITS_POLICY, ENTROPY_TWICE, MEMORY_STAYS, TIES_GO_FIRST)


@config
class Config(common.ModelConfig, sac.Config):
    """MBCD. Defaults are the paper's."""

    threshold: float = traced(1000.0, "a CUSUM above this is a change (h)", low=0.0)
    new_stds: float = traced(2.0, "errors of a new context, in standard deviations", low=0.0)
    max_disagreement: float = traced(3.0, "ignore steps with more disagreement (max_std)", low=0.0)
    min_steps: int = static(5000, "interactions in a context before it can change", low=0)
    max_models: int = static(7, "contexts that can be distinguished", low=1)
    forget: int = static(100, "transitions before a change that belong to no context", low=0)
    model_memory: int = static(100_000, "newest transitions that a model is trained on", low=1)
    train_every: tuple[int, ...] = static(
        (10, 100, 250, 5_000, 2_000), "interactions of a context between model trainings", low=1
    )
    train_until: tuple[int, ...] = static(
        (250, 5_000, 40_000, 60_000), "interactions until the next of `train_every` applies", low=1
    )
    max_trainings: int = static(2, "trainings of a model per update", low=1)
    faults: tuple[str, ...] = faults(*FAULTS)


class ContextMemory(NamedTuple):
    """What only `update` reads."""

    rollouts: replay.OwnedReplay
    models: dynamics.Model  # leaves [max_models, ...]


class State(NamedTuple):
    """A learner for every context, met or not."""

    learner: sac.ActorCritics  # leaves [max_models, ...]
    steps: Array  # [max_models] int32, interactions in each context
    current: Array  # the context in use, int32
    num_models: Array  # contexts met so far, int32
    scores: Array  # [max_models + 1], the CUSUMs; the last one's context is not met yet
    since: Array  # rollouts before the last new context was met, int32
    memory: ContextMemory


def init(config: Config, spec: Spec, key: Array) -> State:
    """Networks for every possible context; the first is in use."""
    assert config.buffer_size is not None, "resolve the config first: lcpo.config.resolve"
    network, count = config.model(spec), config.max_models
    policy_keys, model_keys = (jax.random.split(k, count) for k in jax.random.split(key))
    learner = jax.vmap(lambda k: sac.learner_init(config, spec, k))(policy_keys)
    models = jax.vmap(lambda k: dynamics.model_init(network, spec, k))(model_keys)
    rollouts = replay.owned_init(spec, config.buffer_size, config.rollout_length)
    return State(
        learner,
        jnp.zeros(count, jnp.int32),
        current=jnp.int32(0),
        num_models=jnp.int32(1),
        scores=jnp.zeros(count + 1),
        since=jnp.int32(0),
        memory=ContextMemory(rollouts, models),
    )


def act(config: Config, spec: Spec, state: State, obs: Array, key: Array) -> tuple[Array, tuple]:
    """Sample from the policy in use; at first in each context, uniformly."""
    return spec.actions.sample(_logits(config, spec, state, obs), key), ()


def probabilities(config: Config, spec: Spec, state: State, obs: Array) -> Array:
    """Action probabilities [N, A, K], as `act` draws them."""
    return spec.actions.summary(_logits(config, spec, state, obs))


def _logits(config: Config, spec: Spec, state: State, obs: Array) -> Array:
    policy, steps = _pick((state.learner.policy, state.steps), state.current)
    return sac.behaviour(config, spec, policy, steps, obs)


def update(
    config: Config, spec: Spec, state: State, batch: Transition, key: Array
) -> tuple[State, Metrics]:
    """Has the context changed? Then its model's and its policy's training."""
    seen = observe(config, spec, state, batch)
    change = find_change(config, spec, state, seen)
    before, state = state, enter(config, spec, state, batch, change)
    model_key, policy_key = jax.random.split(key)
    due = num_due(config, spec, before, state, change)
    models = train_model(config, spec, state, due, model_key)
    learner, metrics = train_policy(config, spec, state, change.found, policy_key)
    metrics |= {
        "context": state.current.astype(jnp.float32),
        "num_models": state.num_models.astype(jnp.float32),
        "changes": (state.current != before.current).astype(jnp.float32),
        "score": jnp.max(change.scores),
        "log_density": jnp.mean(_pick(seen.log_density, before.current)),
        "disagreement": jnp.mean(seen.disagreement),
        "trainings": due.astype(jnp.float32),
    }
    memory = state.memory._replace(models=models)
    return state._replace(learner=learner, memory=memory), metrics


class Seen(NamedTuple):
    """What the models predict for a rollout, step by step; sums over worlds."""

    log_density: Array  # [max_models, T], -inf for a model that does not exist yet
    log_density_new: Array  # [T], what would be good enough for a new context
    disagreement: Array  # [T], of the members of the model in use, mean over worlds


def observe(config: Config, spec: Spec, state: State, batch: Transition) -> Seen:
    """Evaluate every model that exists."""
    network, length = config.model(spec), batch.reward.shape[0]
    y = dynamics.outputs(batch)

    def ask(index: Array) -> tuple[dynamics.Normal, Array]:
        model = _pick(state.memory.models, index)
        return dynamics.mixture(dynamics.predict(network, spec, model, batch.obs, batch.action))

    def fill(index: Array, found: Array) -> Array:
        density = jnp.sum(dynamics.log_density(ask(index)[0], y), axis=1)
        return _put(found, index, density)

    density = jnp.full((config.max_models, length), -jnp.inf)
    density = jax.lax.fori_loop(0, state.num_models, fill, density)
    normal, disagreement = ask(state.current)
    far = y.shape[-1] * (math.log(2.0 * math.pi) + jnp.square(config.new_stds))
    new = -0.5 * jnp.sum(jnp.sum(jnp.log(normal.var), axis=-1) + far, axis=1)
    return Seen(density, new, jnp.mean(disagreement, axis=1))


class Change(NamedTuple):
    """Whether the context changed in a rollout, at which step, and to which."""

    found: Array  # bool
    step: Array  # int32, 0 .. T - 1 where there was one
    context: Array  # int32, now in use
    is_new: Array  # bool: it was not met before
    scores: Array  # [max_models + 1], at the end, or when the change was found


def find_change(config: Config, spec: Spec, state: State, seen: Seen) -> Change:
    """CUSUM over the steps of a rollout, up to the first change."""
    length = seen.disagreement.shape[0]
    densities = jnp.concatenate([seen.log_density, seen.log_density_new[None]])
    evidence = densities - _pick(seen.log_density, state.current)[None]
    steps = state.steps[state.current] + spec.num_worlds * jnp.arange(length)
    is_open = (seen.disagreement < config.max_disagreement) & (steps > config.min_steps)

    def step(carry: tuple[Array, Array, Array], now: Any) -> tuple[Any, None]:
        scores, found, when = carry
        number, evidence, is_open = now
        moved = changepoint.cusum(scores, evidence)
        scores = jnp.where(is_open & ~found, moved, scores)
        when = jnp.where(found, when, number)
        return (scores, found | jnp.any(scores > config.threshold), when), None

    start = state.scores, jnp.bool_(False), jnp.int32(0)
    numbers = jnp.arange(length, dtype=jnp.int32)
    (scores, found, when), _ = jax.lax.scan(step, start, (numbers, evidence.T, is_open))
    met = scores[:-1]
    if TIES_GO_FIRST in config.faults:
        best = jnp.argmax(met)
    else:
        best = jnp.where(jnp.any(met > 0.0), jnp.argmax(met), state.current)
    wants_new = (scores[-1] > jnp.max(met)) & (state.num_models < config.max_models)
    context = jnp.where(wants_new, state.num_models, best.astype(jnp.int32))
    return Change(found, when, jnp.where(found, context, state.current), found & wants_new, scores)


def enter(config: Config, spec: Spec, state: State, batch: Transition, change: Change) -> State:
    """Store the rollout under the context that it ended in, which is now in use.

    If there was a change, the steps before it are dropped, and the last of the rollout before.
    """
    first = jnp.where(change.found, change.step, 0)
    forget = jnp.where(change.found, -(-config.forget // spec.num_worlds), 0)
    before = state.memory.rollouts
    rollouts = replay.owned_add(before, spec, batch, change.context, first, forget)
    learner = state.learner
    if INHERITS_POLICY in config.faults:
        old, fresh = _pick(learner, state.current), _pick(learner, change.context)
        copy = old._replace(entropy=fresh.entropy, target_stats=fresh.target_stats)
        start = jax.tree.map(lambda a, b: jnp.where(change.is_new, a, b), copy, fresh)
        learner = _put(learner, change.context, start)
    mine = spec.num_worlds * (batch.reward.shape[0] - first)
    return state._replace(
        learner=learner,
        steps=state.steps.at[change.context].add(mine),
        current=change.context,
        num_models=state.num_models + change.is_new.astype(jnp.int32),
        scores=jnp.where(change.found, 0.0, change.scores),
        since=jnp.where(change.is_new, before.num_added, state.since),
        memory=state.memory._replace(rollouts=rollouts),
    )


def train_model(config: Config, spec: Spec, state: State, due: Array, key: Array) -> dynamics.Model:
    """All models, the one in use trained `due` times."""
    network, (rollouts, models) = config.model(spec), state.memory
    mine, count = model_blocks(config, state), config.model_draws
    parts = config.model_passes, config.model_batches

    def train(number: Array, model: dynamics.Model) -> dynamics.Model:
        now = jax.random.fold_in(key, number)
        data = replay.owned_sample(rollouts, spec, mine, count, now, config.model_memory)
        return dynamics.train(network, spec, model, data, *parts)[0]

    model = jax.lax.fori_loop(0, due, train, _pick(models, state.current))
    return _put(models, state.current, model)


def model_blocks(config: Config, state: State) -> Array:
    """The blocks that the model in use is trained on: those of its context."""
    if MEMORY_STAYS in config.faults:
        return replay.added_since(state.memory.rollouts, state.since)
    return state.memory.rollouts.blocks.owner == state.current


def num_due(config: Config, spec: Spec, before: State, state: State, change: Change) -> Array:
    """Trainings that the schedule requires in the steps of the context in use.

    At least one after a change, and at most `max_trainings`.
    """
    first, last = (each.steps[state.current] for each in (before, state))
    number = last - jnp.arange(config.rollout_length * spec.num_worlds)
    until, every = (jnp.asarray(x, jnp.int32) for x in (config.train_until, config.train_every))
    period = every[jnp.searchsorted(until, number, side="right")]
    due = jnp.sum((number % period == 0) & (number > first), dtype=jnp.int32)
    return jnp.clip(due, change.found.astype(jnp.int32), config.max_trainings)


def train_policy(
    config: Config, spec: Spec, state: State, skip: Array, key: Array
) -> tuple[sac.ActorCritics, Metrics]:
    """SAC's steps of the policy in use; none if `skip`, as a new context has little data."""
    rollouts, before = state.memory.rollouts, _pick(state.learner, state.current)
    mine = rollouts.blocks.owner == state.current
    drawn = replay.owned_sample(rollouts, spec, mine, off_policy.num_draws(config), key)
    after, metrics = off_policy.take_steps(config, spec, before, drawn, step)
    after = jax.tree.map(lambda old, new: jnp.where(skip, old, new), before, after)
    return _put(state.learner, state.current, after), metrics


def step(
    config: Config, spec: Spec, learner: sac.ActorCritics, data: Transition
) -> tuple[sac.ActorCritics, Metrics]:
    """SAC's step on transitions [B]."""
    learner, metrics = sac.step(config, spec, learner, data)
    if ENTROPY_TWICE in config.faults:
        tuner = common.tune_entropy(config, spec, learner.entropy, metrics["entropy"])
        learner = learner._replace(entropy=tuner)
    return learner, metrics


def _pick(tree: Any, index: Array) -> Any:
    return jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, index, keepdims=False), tree)


def _put(tree: Any, index: Array, entry: Any) -> Any:
    return jax.tree.map(
        lambda x, new: jax.lax.dynamic_update_index_in_dim(x, new, index, 0), tree, entry
    )


def check(config: Config, spec: Spec) -> None:
    """The training schedule has a period for each stage, in rising order."""
    del spec
    every, until = config.train_every, config.train_until
    if len(every) != len(until) + 1 or list(until) != sorted(until):
        raise InputError(
            f"train_every = {list(every)}, train_until = {list(until)}: needs train_until in "
            "rising order, and one more entry in train_every"
        )


agent = Agent("mbcd", Config, init, act, update, check=check, probabilities=probabilities)
