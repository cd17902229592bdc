"""A run of a compiled environment as pure functions: start, collect, update.

A run is a pure function of (seed, config, environment, trace). Its keys come from (seed, update
index) and its contexts from the step index, so nothing of a run depends on how it was cut into
chunks, stopped or resumed.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.core import random
from lcpo.envs.base import AnyEnv, CompiledEnv, ObsLayout, entries, obs_layout, select, trace_rows
from lcpo.run.drive import base
from lcpo.run.drive.base import Program, Run, RunState, Worlds
from lcpo.run.drive.packing import computed_once, packed_scan
from lcpo.run.plan.phases import config_at
from lcpo.types import Array, Metrics, Spec, Step, Transition, Tree


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
    """Rows first .. first + count - 1 with their histories."""
    begin, end = first - lags + 1, first + count
    if begin >= 0 and end <= len(trace):
        rows = trace[begin:end]  # no copy
    else:
        rows = trace[trace_rows(np.arange(begin, end), len(trace))]
    return Contexts(np.asarray(rows, np.float32), np.int32(first))  # pyright: ignore


def init_run(program: Program, run: Run, contexts: Contexts) -> RunState:
    """State before the first update of a run."""
    agent_key, key = base.init_keys(run.seed)
    agent_state = program.agent.init(run.config, program.spec, agent_key)
    return _start_worlds(program, run.env, key, contexts, agent_state)


def restart_run(program: Program, run: Run, contexts: Contexts, agent_state: Tree) -> RunState:
    """State before the first update of a later phase: the agent as it is, in fresh worlds."""
    return _start_worlds(program, run.env, base.restart_key(run.seed), contexts, agent_state)


def _start_worlds(
    program: Program, env: CompiledEnv[Tree], key: Array, contexts: Contexts, agent_state: Tree
) -> RunState:
    spec, num_worlds = program.spec, program.spec.num_worlds
    env_state, features = jax.vmap(env.reset)(jax.random.split(key, num_worlds))
    num_rows = contexts.length(spec.context.lags)
    cursor = base.first_rows(key, num_rows, num_worlds, program.mode)
    worlds = Worlds(env_state, features, _history(env, spec, contexts, cursor), cursor)
    return RunState(agent_state, worlds, jnp.zeros(num_worlds), jnp.zeros(num_worlds))


def run_update(
    program: Program, run: Run, state: RunState, contexts: Contexts, update: Array
) -> tuple[RunState, Metrics]:
    """One rollout and, where the mode says so, one update; `update` is its index in the phase."""
    run = run._replace(config=config_at(program.mode, run.config, update))
    rollout_key, learn_key = base.update_keys(run.seed, update, program.mode)
    first_step = update * run.config.rollout_length
    worlds, batch = rollout(program, run, state, contexts, first_step, rollout_key)
    return base.learn(program, run, state._replace(worlds=worlds), batch, learn_key)


def rollout(
    program: Program, run: Run, state: RunState, contexts: Contexts, first_step: Array, key: Array
) -> tuple[Worlds, Transition]:
    """Collect `rollout_length` steps.

    With random starts, `contexts` is the whole trace: every episode begins at a random row of it,
    and after its last row comes its first one, with the history that it has there.
    """
    (agent, spec, mode), (config, env, _) = program, run
    num_steps, num_worlds = config.rollout_length, spec.num_worlds
    by_step, rows = env.advance == "step", contexts.length(spec.context.lags)
    layout = obs_layout(spec, env.advance)
    # Keys, reset states and starts are drawn before the scan: inside it they would cost A2C a
    # third of its speed.
    keys = base.rollout_keys(key)
    each = (num_steps, num_worlds)
    act_keys = random.scan_keys(keys.act, (num_steps,))
    step_keys = random.scan_keys(keys.step, each)
    resets = jax.vmap(jax.vmap(env.reset))(jax.random.split(keys.reset, each))
    starts = base.random_rows(keys.start, rows, each) if mode.random_starts else None

    known = None  # rows and their histories, where they do not depend on what happens
    if by_step and not mode.random_starts:
        ahead = first_step + 1 + jnp.arange(num_steps)
        cursors = jnp.broadcast_to(ahead[:, None], each)
        known = cursors, jax.vmap(lambda cursor: _history(env, spec, contexts, cursor))(cursors)

    def next_row(cursor: Array) -> tuple[Array, Array]:
        """The row of the transition that begins now. It is not visible before it has acted."""
        cursor = (cursor + 1) % rows if by_step else cursor
        return cursor, _history(env, spec, contexts, cursor)

    def advance(worlds: Worlds, inputs: tuple) -> tuple[Worlds, tuple]:
        """One step: where the next one starts, and the rest of the transition."""
        act_key, step_keys, (fresh_state, fresh_features), start, known = inputs
        # On a GPU a step is two kernels: the policy with its draw, then all the rest.
        action, extra = computed_once(agent.act(config, spec, state.agent, worlds.obs, act_key))
        cursor, history = known or next_row(worlds.cursor)
        step: Step
        env_state, step = jax.vmap(env.step)(worlds.env, action, layout.newest(history), step_keys)
        ended = step.terminated | step.truncated
        action = action if step.action is None else step.action
        units = None if spec.unit_steps else (step.elapsed, step.weight)
        units = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_worlds,)), units)
        seen = step.obs, None if known else history
        rest = (seen, action, step.reward, step.terminated, step.truncated, units)
        if mode.random_starts:
            cursor = jnp.where(ended, start, cursor)
        elif not by_step:
            cursor = (cursor + ended.astype(jnp.int32)) % rows
        if known is None:
            history = _history(env, spec, contexts, cursor)
        fresh = Worlds(fresh_state, fresh_features, history, cursor)
        following = select(ended, fresh, Worlds(env_state, step.obs, history, cursor))
        return following, (*rest, extra, step.readings)

    inputs = (act_keys, step_keys, resets, starts, known)
    before, worlds, outputs = packed_scan(advance, state.worlds, inputs)
    (features, history), action, reward, terminated, truncated, units, *rest = outputs
    next_obs = ObsLayout.join(features, known[1] if known else history)
    units = units or (jnp.ones(each),) * 2
    return worlds, Transition(
        before.obs, action, reward, next_obs, terminated, truncated, *units, *rest
    )


def _history(env: AnyEnv, spec: Spec, contexts: Contexts, cursor: Array) -> Array:
    """Context entries [N, H] of the observation at rows `cursor` [N]."""
    if env.advance == "own":
        return jnp.zeros((spec.num_worlds, 0))
    return jax.vmap(lambda c: entries(contexts.history(c, spec.context.lags)))(cursor)
