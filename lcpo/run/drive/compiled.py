"""The compiled driver: collect, update, collect, update ... in one program.

A run is a pure function of (seed, config, environment, trace). Its keys come from (seed, update
index) and its contexts from the step index, so nothing of a run depends on how it was cut into
chunks, stopped or resumed. Chunks exist so that progress, results and checkpoints can come out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.core import random
from lcpo.envs.base import Env, entries, select
from lcpo.run.drive import base as epoch
from lcpo.run.drive.base import RunState, Worlds
from lcpo.run.drive.packing import computed_once, packed_scan
from lcpo.run.plan.phases import ONLINE, Mode, config_at
from lcpo.types import Agent, Array, Metrics, Spec, Step, Transition


class Contexts(NamedTuple):
    """Rows of a trace on the device, [rows, channels].

    Row `r` of the trace stands at `r - first + lags - 1`: the rows before it are its history.
    """

    rows: Array
    first: Array

    def length(self, lags: int) -> int:
        """Number of rows that have their history here."""
        return self.rows.shape[0] - max(lags - 1, 0)

    def history(self, cursor: Array, lags: int) -> Array:
        """[lags, channels], newest first, when row `cursor` is the newest."""
        window = jax.lax.dynamic_slice_in_dim(self.rows, cursor - self.first, lags)
        return window[::-1]


def load_contexts(trace: np.ndarray, first: int, count: int, lags: int) -> Contexts:
    """Rows first .. first + count - 1 with their histories.

    Before row 0 the history repeats row 0; after the last row the trace starts again.
    """
    index = np.maximum(np.arange(first - lags + 1, first + count), 0) % len(trace)
    return Contexts(np.asarray(trace[index], np.float32), np.int32(first))  # pyright: ignore


def init_run(
    agent: Agent, config: Any, env: Env, spec: Spec, seed: Array, contexts: Contexts,
    mode: Mode = ONLINE,
) -> RunState:  # fmt: skip
    """State before the first update of a run."""
    agent_key, key = epoch.init_keys(seed)
    return _started(env, spec, key, contexts, agent.init(config, spec, agent_key), mode)


def restart_run(
    env: Env, spec: Spec, seed: Array, contexts: Contexts, agent_state: Any, mode: Mode
) -> RunState:
    """State before the first update of a later phase: the agent as it is, in fresh worlds."""
    return _started(env, spec, epoch.restart_key(seed), contexts, agent_state, mode)


def _started(
    env: Env, spec: Spec, key: Array, contexts: Contexts, agent_state: Any, mode: Mode
) -> RunState:
    num_worlds = spec.num_worlds
    env_state, features = jax.vmap(env.reset)(jax.random.split(key, num_worlds))
    cursor = epoch.first_rows(key, contexts.length(spec.context.lags), num_worlds, mode)
    worlds = Worlds(env_state, features, _history(env, spec, contexts, cursor), cursor)
    return RunState(agent_state, worlds, jnp.zeros(num_worlds), jnp.zeros(num_worlds))


def run_update(
    agent: Agent, config: Any, env: Env, spec: Spec, seed: Array, state: RunState,
    contexts: Contexts, update: Array, mode: Mode = ONLINE,
) -> tuple[RunState, Metrics]:  # fmt: skip
    """One rollout and, where the mode says so, one update; `update` is its index in the phase."""
    config = config_at(mode, config, update)
    rollout_key, learn_key = epoch.update_keys(seed, update, mode)
    first_step = update * config.rollout_length
    worlds, batch = rollout(
        agent, config, env, spec, state, contexts, first_step, rollout_key, mode.random_starts
    )
    state = state._replace(worlds=worlds)
    return epoch.learn(agent, config, env, spec, state, batch, learn_key, mode.learns)


def rollout(
    agent: Agent, config: Any, env: Env, spec: Spec, state: RunState, contexts: Contexts,
    first_step: Array, key: Array, random_starts: bool = False,
) -> tuple[Worlds, Transition]:  # fmt: skip
    """Collect `rollout_length` steps.

    With `random_starts`, `contexts` is the whole trace: every episode begins at a random row of
    it, and after its last row comes its first one, with the history that it has there.
    """
    num_steps, num_worlds = config.rollout_length, spec.num_worlds
    by_step, rows = env.advance == "step", contexts.length(spec.context.lags)
    # Keys, reset states and starts are drawn before the scan: inside it they would cost A2C a
    # third of its speed.
    keys = epoch.rollout_keys(key)
    each = (num_steps, num_worlds)
    act_keys = random.scan_keys(keys.act, (num_steps,))
    step_keys = random.scan_keys(keys.step, each)
    resets = jax.vmap(jax.vmap(env.reset))(jax.random.split(keys.reset, each))
    starts = epoch.random_rows(keys.start, rows, each) if random_starts else None

    def moved(cursor: Array, t: Array) -> Array:
        """The row of the transition that begins now. It is not visible before it has acted."""
        if not by_step:
            return cursor
        return (cursor + 1) % rows if random_starts else jnp.full(num_worlds, first_step + t + 1)

    def advance(worlds: Worlds, inputs: tuple) -> tuple[Worlds, tuple]:
        """One step: where the next one starts, and the rest of the transition."""
        t, act_key, step_keys, (fresh_state, fresh_features), start = inputs
        cursor = moved(worlds.cursor, t)
        action, extra = agent.act(config, spec, state.agent, worlds.obs, act_key)
        history = _history(env, spec, contexts, cursor)
        context = history[:, :: max(spec.context.lags, 1)]  # the newest values
        env_state, step = jax.vmap(env.step)(worlds.env, action, context, step_keys)
        # Not the features: they are cheap functions of the state, and would take a kernel.
        action, env_state, others = computed_once((action, env_state, step[1:]))
        step = Step(step.obs, *others)
        ended = step.terminated | step.truncated
        elapsed, weight = (jnp.broadcast_to(x, (num_worlds,)) for x in (step.elapsed, step.weight))
        rest = (step.obs, history, action, step.reward, step.terminated, step.truncated)
        if random_starts:
            cursor = jnp.where(ended, start, cursor)
        elif not by_step:
            cursor = (cursor + ended) % rows
        if random_starts or not by_step:
            history = _history(env, spec, contexts, cursor)
        fresh = Worlds(fresh_state, fresh_features, history, cursor)
        following = select(ended, fresh, Worlds(env_state, step.obs, history, cursor))
        return following, (*rest, elapsed, weight, extra)

    inputs = (jnp.arange(num_steps), act_keys, step_keys, resets, starts)
    before, worlds, (features, history, action, reward, *rest) = packed_scan(
        advance, state.worlds, inputs
    )
    next_obs = jnp.concatenate([features, history], axis=-1)
    return worlds, Transition(before.obs, action, reward, next_obs, *rest)


def make_init(agent: Agent, spec: Spec, many: bool, mode: Mode = ONLINE) -> Callable:
    """Compile `init(configs, envs, seeds, contexts) -> RunState`; `many` as in `make_chunk`."""

    def init(config: Any, env: Env, seed: Array, contexts: Contexts) -> RunState:
        return init_run(agent, config, env, spec, seed, contexts, mode)

    return jax.jit(jax.vmap(init, in_axes=(0, 0, 0, None)) if many else init)


def make_restart(spec: Spec, many: bool, mode: Mode) -> Callable:
    """Compile `restart(envs, seeds, contexts, agent_states) -> RunState`."""

    def restart(env: Env, seed: Array, contexts: Contexts, agent_state: Any) -> RunState:
        return restart_run(env, spec, seed, contexts, agent_state, mode)

    return jax.jit(jax.vmap(restart, in_axes=(0, 0, None, 0)) if many else restart)


def make_chunk(
    agent: Agent, spec: Spec, max_updates: int, many: bool, mode: Mode = ONLINE
) -> Callable:
    """Compile `chunk(configs, envs, seeds, state, contexts, first, count)`.

    It runs updates first .. first + count - 1 (count <= max_updates) and returns the new state
    and the metrics of each, [max_updates]; the state given is donated. With `many`, every
    argument but the last three has a leading axis of runs.
    """

    def chunk(
        config: Any, env: Env, seed: Array, state: RunState,
        contexts: Contexts, first: Array, count: Array,
    ) -> tuple[RunState, Metrics]:  # fmt: skip
        def one(state: RunState, update: Array) -> tuple[RunState, Metrics]:
            return run_update(agent, config, env, spec, seed, state, contexts, update, mode)

        names = list(jax.eval_shape(one, state, first)[1])

        def body(i: Array, carry: tuple[RunState, Array]) -> tuple[RunState, Array]:
            state, rows = carry
            state, metrics = one(state, first + i)
            return state, rows.at[i].set(jnp.stack([metrics[name] for name in names]))

        rows = jnp.zeros((max_updates, len(names)))
        state, rows = jax.lax.fori_loop(0, count, body, (state, rows))
        return state, {name: rows[:, i] for i, name in enumerate(names)}

    if many:
        chunk = jax.vmap(chunk, in_axes=(0, 0, 0, 0, None, None, None))
    return jax.jit(chunk, donate_argnums=3)


def _history(env: Env, spec: Spec, contexts: Contexts, cursor: Array) -> Array:
    """Context entries [N, H] of the observation at rows `cursor` [N]."""
    if env.advance == "own":
        return jnp.zeros((spec.num_worlds, 0))
    return jax.vmap(lambda c: entries(contexts.history(c, spec.context.lags)))(cursor)
